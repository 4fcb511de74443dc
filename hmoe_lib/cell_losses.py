r"""Voronoi losses of flat mixtures fitted by maximum likelihood: cells of parameters.

Each fitted atom is given to the true atom whose parameters are nearest; a loss then compares
weights cell by cell, and parameters inside a cell with the powers that the theory gives them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hmoe_lib.arguments import number
from hmoe_lib.mixing import MixingMeasure
from hmoe_lib.mixing_losses import atom_cells

Array = np.ndarray

__all__ = [
    "contamination_loss",
    "gaussian_loss",
    "multinomial_loss",
    "over_fit_order",
    "translated",
]


def over_fit_order(m: int) -> int:
    r"""Return :math:`\bar r(m)`, the order of a Gaussian expert fitted by m atoms.

    Parameters
    ----------
    m : int
        Atoms in the cell, at least 1.

    Returns
    -------
    int
        2m; 1 for a cell of one atom, whose parameters enter with the first power.

    Examples
    --------
    >>> [over_fit_order(m) for m in (1, 2, 3)]
    [1, 4, 6]
    """
    return 1 if m == 1 else 2 * m


def translated(G: MixingMeasure, router, bias: float) -> MixingMeasure:
    """Return the measure with a vector added to all routers and a number to all biases.

    Parameters
    ----------
    G : MixingMeasure
        Its pins are dropped.
    router : array_like, shape (p,)
        Added to every router.
    bias : float
        Added to every bias.

    Returns
    -------
    MixingMeasure
        Under a softmax of linear scores it has the density of G.

    Examples
    --------
    >>> G = MixingMeasure([[1.0], [0.0]], [0.5, 0.0], [[2.0], [3.0]])
    >>> translated(G, [1.0], -0.5).router.ravel(), translated(G, [1.0], -0.5).bias
    (array([2., 1.]), array([ 0. , -0.5]))
    """
    return MixingMeasure(G.router + np.asarray(router), G.bias + bias, G.expert, G.shared)


def gaussian_loss(
    G: MixingMeasure, G_star: MixingMeasure, top: int | None = None, order=over_fit_order
) -> float:
    r"""Return the Voronoi loss of a softmax-gated Gaussian mixture with affine experts.

    Parameters
    ----------
    G, G_star : MixingMeasure
        The fit and the truth, expert rows (a, b, log nu), the truth's weights exp(bias).
    top : int, optional
        K of a top-K gate: the maximum over sets of K true atoms. By default all atoms count.
    order : callable, default over_fit_order
        The power of a cell with m atoms.

    Returns
    -------
    float
        Zero at the truth, its atoms in any order.

    Notes
    -----
    With :math:`w_i = e^{\beta_{0i}}` and :math:`\bar r = \bar r(|V_j|)`, a cell contributes

    .. math::
        \Bigl|\sum_{V_j} w_i - w_j^*\Bigr| + \sum_{V_j} w_i \bigl(\|\Delta\beta_1\|^{\bar r}
        + |\Delta b|^{\bar r} + \|\Delta a\|^{\bar r/2} + |\Delta\nu|^{\bar r/2}\bigr)

    and all powers are 1 in a cell of one atom. The fit is first moved by the translation of
    routers and biases that makes the loss smallest among those that put one fitted atom on its
    true one. The maximum over sets of K cells is the sum of the K largest contributions.

    References
    ----------
    arXiv 2309.13850, with :math:`\bar r(m) = 2m`.

    Examples
    --------
    >>> G_star = MixingMeasure([[1.0], [0.0]], [0.0, 0.0], [[2.0, 0.0, 0.0], [-2.0, 0.0, 0.0]])
    >>> G = MixingMeasure([[1.1], [0.0]], [0.0, 0.0], [[2.0, 0.0, 0.0], [-2.0, 0.25, 0.0]])
    >>> round(gaussian_loss(G, G_star), 12)
    0.35
    """

    def powers(m: int) -> Array:
        r = order(m)
        half = 1.0 if m == 1 else r / 2.0
        return np.array([r, half, r, half], dtype=float)  # router, a, b, nu

    def gaps(delta_router: Array, expert: Array, true: Array) -> Array:
        delta = expert - true
        return np.stack([
            np.linalg.norm(delta_router, axis=1),
            np.linalg.norm(delta[:, :-2], axis=1),
            np.abs(delta[:, -2]),
            np.abs(np.exp(expert[:, -1]) - np.exp(true[-1])),
        ])  # fmt: skip

    return _smallest(G, G_star, top, powers, gaps)


def multinomial_loss(G: MixingMeasure, G_star: MixingMeasure) -> float:
    r"""Return the Voronoi loss of a softmax-gated mixture of multinomial experts.

    Parameters
    ----------
    G, G_star : MixingMeasure
        The fit and the truth, expert rows (d_1, l_1), ..., (d_{S-1}, l_{S-1}).

    Returns
    -------
    float
        As :func:`gaussian_loss`, with power 1 in cells of one atom and 2 in larger ones.

    References
    ----------
    arXiv 2310.14188.

    Examples
    --------
    >>> G_star = MixingMeasure([[1.0], [0.0]], [0.0, 0.0], [[2.0, 0.0], [-2.0, 0.0]])
    >>> G = MixingMeasure([[1.0], [0.0]], [0.0, 0.0], [[2.0, 0.0], [-2.0, 0.25]])
    >>> multinomial_loss(G, G_star)
    0.25
    """

    def powers(m: int) -> Array:
        return np.full(2, 1.0 if m == 1 else 2.0)

    def gaps(delta_router: Array, expert: Array, true: Array) -> Array:
        return np.stack([
            np.linalg.norm(delta_router, axis=1), np.linalg.norm(expert - true, axis=1)
        ])  # fmt: skip

    return _smallest(G, G_star, None, powers, gaps)


def contamination_loss(
    G: MixingMeasure, G_star: MixingMeasure, known: Sequence[float] | None = None
) -> float:
    r"""Return the product loss of the contaminated model with a constant share.

    Parameters
    ----------
    G, G_star : MixingMeasure
        One atom each: bias the logit of the share, expert row (eta, log nu).
    known : sequence of float, optional
        The row (eta_0, log nu_0) of a known density of the same form; None where the two
        densities are distinguishable.

    Returns
    -------
    float
        The quantity that the theory bounds by :math:`n^{-1/2}`.

    Notes
    -----
    With :math:`\delta = \|(\eta, \nu) - (\eta^*, \nu^*)\|` it is
    :math:`|\lambda - \lambda^*| + \lambda^* \delta` when distinguishable and otherwise, with
    :math:`D = \|(\eta^*, \nu^*) - (\eta_0, \nu_0)\|`, the same with :math:`D^2` in front of the
    first term and :math:`D` in front of the second.

    References
    ----------
    arXiv 2410.12258.

    Examples
    --------
    >>> G_star = MixingMeasure([[0.0]], [0.0], [[1.0, 0.0]])
    >>> G = MixingMeasure([[0.0]], [0.0], [[1.5, 0.0]])
    >>> contamination_loss(G, G_star), contamination_loss(G, G_star, known=[0.8, 0.0])
    (0.25, 0.05)
    """

    def natural(row) -> Array:
        row = np.asarray(row, dtype=float)
        return np.append(row[:-1], np.exp(row[-1]))

    share, true_share = (1.0 / (1.0 + np.exp(-H.bias[0])) for H in (G, G_star))
    gap = np.linalg.norm(natural(G.expert[0]) - natural(G_star.expert[0]))
    D = 1.0 if known is None else np.linalg.norm(natural(G_star.expert[0]) - natural(known))
    return float(round(D**2 * abs(share - true_share) + D * true_share * gap, 15))


def _smallest(G: MixingMeasure, G_star: MixingMeasure, top, powers, gaps) -> float:
    if top is not None and not (number("top", top, least=1) <= G_star.atoms and top % 1 == 0):
        raise ValueError(f"top: expected an integer of at most {G_star.atoms}, got {top!r}")
    cells = atom_cells(G, G_star)
    losses = []
    for i, j in enumerate(cells):
        moved = translated(G, G_star.router[j] - G.router[i], G_star.bias[j] - G.bias[i])
        losses.append(_of_cells(moved, G_star, cells, top, powers, gaps))
        inside = cells == j
        mass = np.log(np.exp(G.bias[inside]).sum())
        moved = translated(G, G_star.router[j] - G.router[i], G_star.bias[j] - mass)
        losses.append(_of_cells(moved, G_star, cells, top, powers, gaps))
    return float(min(losses))


def _of_cells(G: MixingMeasure, G_star: MixingMeasure, cells: Array, top, powers, gaps) -> float:
    weights = np.exp(G.bias)
    parts = np.empty(G_star.atoms)
    for j in range(G_star.atoms):
        at = cells == j
        parts[j] = abs(weights[at].sum() - np.exp(G_star.bias[j]))
        if at.any():
            delta = gaps(G.router[at] - G_star.router[j], G.expert[at], G_star.expert[j])
            parts[j] += weights[at] @ (delta ** powers(int(at.sum()))[:, None]).sum(axis=0)
    return np.sort(parts)[::-1][:top].sum()
