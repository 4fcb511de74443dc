r"""Voronoi losses of flat mixtures: cells of atoms in parameter space, distances inside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import expit

from hmoe_lib.mixing import MixingMeasure

Array = np.ndarray

__all__ = ["MixingErrors", "atom_cells", "matched_errors", "mixing_errors"]

WEIGHTS = ("exp", "sigmoid")


@dataclass(frozen=True)
class MixingErrors:
    r"""How far a fit is from the truth, in parts; every distance is weighted by the atom's mass.

    Attributes
    ----------
    loss_1 : float
        Masses and distances with power 1: an exact fit's loss.
    loss_2 : float
        Power 1 in cells with one atom, power 2 in cells with several: the over-fit loss.
    weights : float
        Sum over cells of the differences of masses.
    single, shared : float
        Distances with power 1 in cells with one atom, with several.
    router, expert : float
        Distances with power 1 of router vectors, of expert parameters, over all cells.
    cells : ndarray of int, shape (k,)
        The true atom of every fitted one.
    """

    loss_1: float
    loss_2: float
    weights: float
    single: float
    shared: float
    router: float
    expert: float
    cells: Array


def atom_cells(G: MixingMeasure, G_star: MixingMeasure) -> Array:
    """Return the true atom nearest to each fitted one in (router, expert), shape (k,).

    Ties go to the lowest index, so the cells partition the fitted atoms.

    Examples
    --------
    >>> truth = MixingMeasure([[1.0], [0.0]], [0.0, 0.0], [[2.0], [4.0]])
    >>> fit = MixingMeasure([[0.0], [0.9], [1.1]], [0.0] * 3, [[4.1], [2.0], [2.2]])
    >>> atom_cells(fit, truth)
    array([1, 0, 0])
    """
    _check(G, G_star)
    points, centres = (np.hstack([m.router, m.expert]) for m in (G, G_star))
    return np.linalg.norm(points[:, None] - centres, axis=-1).argmin(axis=1)


def mixing_errors(
    G: MixingMeasure, G_star: MixingMeasure, weight: str = "exp", top: int | None = None
) -> MixingErrors:
    r"""Return the Voronoi losses of a fit and their parts.

    Parameters
    ----------
    G, G_star : MixingMeasure
        The fit (k atoms) and the truth (k* <= k atoms), pinned in the same way.
    weight : {"exp", "sigmoid"}, default "exp"
        The mass of an atom: of the bias, for a softmax or a sigmoid gate.
    top : int, optional
        With a top-K gate, the losses are the largest over sets of K true atoms.

    Raises
    ------
    ValueError
        If the measures do not fit each other, the fit has fewer atoms, or top exceeds k*.

    Notes
    -----
    With masses m and cells :math:`V_j`,

    .. math::
        L = \sum_j \Bigl|\sum_{V_j} m_i - m^*_j\Bigr| + \sum_j \sum_{V_j} m_i
        \bigl(\|\Delta\beta_i\|^{r_j} + \|\Delta\eta_i\|^{r_j}\bigr),

    r_j = 1 for loss_1; for loss_2, r_j = 2 in cells with several atoms. The largest sum over K of
    the k* nonnegative terms is the sum of the K largest.

    References
    ----------
    Losses of the companions on cosine, quadratic and sigmoid gates (2405.14131, 2410.11222,
    2405.13997), with the mass of each atom as weight.

    Examples
    --------
    >>> truth = MixingMeasure([[1.0], [0.0]], [0.0, 0.0], [[2.0], [4.0]])
    >>> fit = MixingMeasure([[0.0], [0.5], [1.5]], [0.0, np.log(0.5), np.log(0.5)],
    ...     [[4.1], [2.0], [2.0]])
    >>> errors = mixing_errors(fit, truth)
    >>> round(errors.single, 3), round(errors.shared, 3), round(errors.loss_2, 3)
    (0.1, 0.5, 0.35)
    """
    cells = atom_cells(G, G_star)
    mass = {"exp": np.exp, "sigmoid": expit}.get(weight)
    if mass is None:
        raise ValueError(f"weight: expected 'exp' or 'sigmoid', got {weight!r}")
    k_star = G_star.atoms
    if top is not None and not 1 <= top <= k_star:
        raise ValueError(f"top: expected an integer between 1 and k* = {k_star}, got {top!r}")

    def by_cell(values: Array) -> Array:
        return np.bincount(cells, values, minlength=k_star)

    m = mass(G.bias)
    router = np.linalg.norm(G.router - G_star.router[cells], axis=1)
    expert = np.linalg.norm(G.expert - G_star.expert[cells], axis=1)
    shared = by_cell(np.ones(G.atoms)) > 1
    weights = np.abs(by_cell(m) - mass(G_star.bias))
    one = by_cell(m * (router + expert))
    two = np.where(shared, by_cell(m * (router**2 + expert**2)), one)

    def worst(terms: Array) -> float:
        return float(np.sort(terms)[-(top or k_star) :].sum())

    return MixingErrors(
        loss_1=worst(weights + one),
        loss_2=worst(weights + two),
        weights=float(weights.sum()),
        single=float(one[~shared].sum()),
        shared=float(one[shared].sum()),
        router=float((m * router).sum()),
        expert=float((m * expert).sum()),
        cells=cells,
    )


def matched_errors(G: MixingMeasure, target: MixingMeasure) -> dict[str, float]:
    """Return distances to a measure with as many atoms, matched one to one.

    Atoms are matched so that the sum of squared distances of (router, bias, expert) is smallest.

    Returns
    -------
    dict
        ``total``, the sum over atoms of the distances of all parameters; its parts ``router``,
        ``bias`` and ``expert``; and of the router ``norms`` and ``directions`` (unit vectors),
        zero vectors left out of the last.

    Raises
    ------
    ValueError
        If the measures differ in shape. For a limit under misspecification, compute the limit.

    Examples
    --------
    >>> truth = MixingMeasure([[1.0, 0.0], [0.0, 0.0]], [0.0, 0.0], [[2.0], [4.0]])
    >>> fit = MixingMeasure([[0.0, 0.0], [1.5, 0.0]], [0.0, 0.0], [[4.0], [2.0]])
    >>> errors = matched_errors(fit, truth)
    >>> errors["total"], errors["norms"], errors["directions"]
    (0.5, 0.5, 0.0)
    """
    _check(G, target)
    if G.atoms != target.atoms:
        raise ValueError(f"G: expected {target.atoms} atoms as in the target, got {G.atoms}")
    points, centres = (np.column_stack([m.router, m.bias, m.expert]) for m in (G, target))
    cost = ((points[:, None] - centres) ** 2).sum(axis=-1)
    order = linear_sum_assignment(cost.T)[1]
    router, wanted = G.router[order], target.router
    r, r_star = np.linalg.norm(router, axis=1), np.linalg.norm(wanted, axis=1)
    both = (r > 0) & (r_star > 0)
    turned = router[both] / r[both, None] - wanted[both] / r_star[both, None]
    return {
        "total": float(np.linalg.norm(points[order] - centres, axis=1).sum()),
        "router": float(np.linalg.norm(router - wanted, axis=1).sum()),
        "bias": float(np.abs(G.bias[order] - target.bias).sum()),
        "expert": float(np.linalg.norm(G.expert[order] - target.expert, axis=1).sum()),
        "norms": float(np.abs(r - r_star).sum()),
        "directions": float(np.linalg.norm(turned, axis=1).sum()),
    }


def _check(G: MixingMeasure, G_star: MixingMeasure) -> None:
    for name, measure in (("G", G), ("G_star", G_star)):
        if not isinstance(measure, MixingMeasure):
            raise ValueError(f"{name}: expected a MixingMeasure, got {type(measure).__name__}")
    for name in ("router", "expert"):
        mine, true = getattr(G, name).shape[1], getattr(G_star, name).shape[1]
        if mine != true:
            raise ValueError(f"G: expected {true} {name} entries as in G_star, got {mine}")
    if G.atoms < G_star.atoms:
        raise ValueError(f"G: expected at least {G_star.atoms} atoms as in G_star, got {G.atoms}")
