r"""Voronoi cells of the true channels and the losses built on them.

A fitted measure may carry more channels than the truth, so parameters cannot be compared one by
one. Each fitted channel is first given to the true channel whose function is nearest in
L2(mu); distances are then counted inside each cell.
"""

from __future__ import annotations

import itertools

import numpy as np

from hmoe_lib.arguments import is_finite
from hmoe_lib.measures import HierarchicalMeasure

Array = np.ndarray

__all__ = ["function_distances", "voronoi_cells", "voronoi_loss", "voronoi_loss_r"]


def function_distances(model, G: HierarchicalMeasure, G_star: HierarchicalMeasure, X) -> Array:
    r"""Return the squared L2 distances between fitted and true channel functions.

    Parameters
    ----------
    model : HierarchicalModel
        Decides what a channel function is.
    G, G_star : HierarchicalMeasure
        The fit and the truth, with the same H, N and d.
    X : array_like, shape (n, d)
        Points whose empirical law stands for mu.

    Returns
    -------
    ndarray, shape (H, K, H, K*)
        Mean squares of :math:`f_G^{h',k'} - f_{G^*}^{h,k}` over X.

    Raises
    ------
    ValueError
        If the fit and the truth differ in H, N or d, or the fit has fewer channels.

    Examples
    --------
    >>> from hmoe_lib.models import Mha
    >>> truth = HierarchicalMeasure([[1.0]], np.zeros((1, 1, 1, 1)), [[[[1.0]]]])
    >>> fit = HierarchicalMeasure([[1.0, 1.0]], np.zeros((1, 1, 1, 1)), [[[[1.0], [3.0]]]])
    >>> function_distances(Mha(), fit, truth, [[1.0], [-1.0]]).ravel()
    array([0., 4.])
    """
    _check(model, G, G_star)
    fit = model.components(G, X).reshape(-1, G.heads * G.channels).T
    true = model.components(G_star, X).reshape(-1, G_star.heads * G_star.channels).T
    # One row at a time: differences, not expanded squares, so that equal functions are at 0.
    squares = [np.mean((row - true) ** 2, axis=1) for row in fit]
    return np.reshape(squares, (G.heads, G.channels, G_star.heads, G_star.channels))


def voronoi_cells(model, G: HierarchicalMeasure, G_star: HierarchicalMeasure, X) -> Array:
    r"""Return the true channel (h, k) to whose cell each fitted channel belongs.

    Parameters
    ----------
    model : HierarchicalModel
        Decides what a channel function is: :math:`\bar f^{h,k}` in Setting I, the inner
        :math:`f^{h,k}` otherwise.
    G, G_star : HierarchicalMeasure
        The fit (K channels) and the truth (K* <= K channels).
    X : array_like, shape (n, d)
        Points whose empirical law stands for mu.

    Returns
    -------
    ndarray of int, shape (H, K, 2)
        Indices (h, k) into the truth; ties go to the lowest index, so the cells partition the
        fitted channels.

    Raises
    ------
    ValueError
        If the fit and the truth differ in H, N or d, or the fit has fewer channels.

    References
    ----------
    Voronoi cells of Section 3 of the paper, before Theorem 1.

    Examples
    --------
    >>> from hmoe_lib.models import Mha
    >>> truth = HierarchicalMeasure([[1.0, 1.0]], np.zeros((1, 1, 1, 1)), [[[[1.0], [3.0]]]])
    >>> M = np.zeros((1, 1, 1, 1))
    >>> fit = HierarchicalMeasure([[1.0, 0.5, 0.5]], M, [[[[3.2], [1.1], [0.9]]]])
    >>> voronoi_cells(Mha(), fit, truth, [[1.0], [-1.0]])[0].tolist()
    [[0, 1], [0, 0], [0, 0]]
    """
    distance = function_distances(model, G, G_star, X)
    nearest = distance.reshape(G.heads, G.channels, -1).argmin(axis=-1)
    return np.stack(np.divmod(nearest, G_star.channels), axis=-1)


def voronoi_loss_r(
    model,
    G: HierarchicalMeasure,
    G_star: HierarchicalMeasure,
    X,
    r: float = 1,
    modulo_twins: bool = False,
) -> float:
    r"""Return the Voronoi loss L_{1,r} of Theorem 1.

    Parameters
    ----------
    model, G, G_star, X
        As for :func:`voronoi_cells`.
    r : float, default 1
        Power of the parameter distances, at least 1.
    modulo_twins : bool, default False
        Take the smallest loss over the N! re-pinned expert orders of each fitted head, which
        leave the function unchanged.

    Returns
    -------
    float
        Zero exactly at the truth, with its heads and channels in any order.

    Raises
    ------
    ValueError
        If r < 1 or infinite, or the measures do not fit each other.

    Notes
    -----
    .. math::
        L_{1,r} = \sum_{h,k} \Bigl|\sum_{V_{h,k}} \omega_{h',k'} - \omega^*_{h,k}\Bigr|
        + \sum_{h,k} \sum_{V_{h,k}} \omega_{h',k'}
          \sum_i (\|\Delta M_i\|^r + \|\Delta a_i\|^r).

    References
    ----------
    Section 3 of the paper, before Theorem 1.

    Examples
    --------
    >>> from hmoe_lib.models import Mha
    >>> truth = HierarchicalMeasure([[1.0]], np.zeros((1, 1, 1, 1)), [[[[1.0]]]])
    >>> fit = HierarchicalMeasure([[0.5, 0.75]], np.zeros((1, 1, 1, 1)), [[[[1.5], [0.5]]]])
    >>> voronoi_loss_r(Mha(), fit, truth, [[1.0]]), voronoi_loss_r(Mha(), fit, truth, [[1.0]], r=2)
    (0.875, 0.5625)
    """
    if not is_finite(r) or r < 1:
        raise ValueError(f"r: expected a finite power >= 1, got {r!r}")
    cells = voronoi_cells(model, G, G_star, X)
    return _loss(G, G_star, cells, np.full((G.heads, G.channels), float(r)), modulo_twins)


def voronoi_loss(
    model,
    G: HierarchicalMeasure,
    G_star: HierarchicalMeasure,
    X,
    modulo_twins: bool = False,
) -> float:
    r"""Return the Voronoi loss L_2 of Theorems 2 and 3.

    Parameters
    ----------
    model, G, G_star, X, modulo_twins
        As for :func:`voronoi_loss_r`.

    Returns
    -------
    float
        Zero exactly at the truth, with its heads and channels in any order.

    Raises
    ------
    ValueError
        If the measures do not fit each other.

    Notes
    -----
    The weight term is that of :func:`voronoi_loss_r`; parameter distances enter with power 1 in
    cells with one fitted channel and with power 2 in cells with more.

    References
    ----------
    Section 4 of the paper, before Theorem 2.

    Examples
    --------
    >>> from hmoe_lib.models import Mha
    >>> truth = HierarchicalMeasure([[1.0]], np.zeros((1, 1, 1, 1)), [[[[1.0]]]])
    >>> fit = HierarchicalMeasure([[0.5, 0.75]], np.zeros((1, 1, 1, 1)), [[[[1.5], [0.5]]]])
    >>> voronoi_loss(Mha(), fit, truth, [[1.0]])
    0.5625
    """
    cells = voronoi_cells(model, G, G_star, X)
    members = _count(cells, G_star)
    power = np.where(members[cells[..., 0], cells[..., 1]] > 1, 2.0, 1.0)
    return _loss(G, G_star, cells, power, modulo_twins)


def _count(cells: Array, G_star: HierarchicalMeasure) -> Array:
    """Number of fitted channels in each cell, (H, K*)."""
    members = np.zeros((G_star.heads, G_star.channels), dtype=int)
    np.add.at(members, (cells[..., 0], cells[..., 1]), 1)
    return members


def _loss(
    G: HierarchicalMeasure,
    G_star: HierarchicalMeasure,
    cells: Array,
    power: Array,
    modulo_twins: bool,
) -> float:
    """Weight term plus weighted powers of the distances inside the cells."""
    mass = np.zeros((G_star.heads, G_star.channels))
    np.add.at(mass, (cells[..., 0], cells[..., 1]), G.omega)
    identity = tuple(range(G.experts))
    orders = itertools.permutations(identity) if modulo_twins else [identity]
    by_order = [_displacement(G, G_star, cells, power, list(order)) for order in orders]
    # A twin re-orders the experts of one fitted head; cells depend on functions, so they stay,
    # and the best order is found head by head.
    return float(np.abs(mass - G_star.omega).sum() + np.min(by_order, axis=0).sum())


def _displacement(
    G: HierarchicalMeasure, G_star: HierarchicalMeasure, cells: Array, power: Array, order: list
) -> Array:
    """Weighted distances of every fitted head under one order of its experts, (H,)."""
    h, k = cells[..., 0], cells[..., 1]  # (H, K)
    M = G.M[:, order] - G.M[:, order[-1:]]  # (H, N, d, d)
    delta_M = np.linalg.norm(M[:, None] - G_star.M[h], axis=(-2, -1))  # (H, K, N)
    a_star = G_star.a[h, :, k]  # (H, K, N, d)
    delta_a = np.linalg.norm(G.a[:, order].swapaxes(1, 2) - a_star, axis=-1)
    terms = delta_M ** power[..., None] + delta_a ** power[..., None]
    return (G.omega * terms.sum(axis=-1)).sum(axis=-1)


def _check(model, G: HierarchicalMeasure, G_star: HierarchicalMeasure) -> None:
    # Models are siblings of this module, so it knows them by what it asks of them.
    if isinstance(model, type) or not callable(getattr(model, "components", None)):
        raise ValueError(f"model: expected a model such as Mha(), got {model!r}")
    for name, measure in (("G", G), ("G_star", G_star)):
        if not isinstance(measure, HierarchicalMeasure):
            raise ValueError(
                f"{name}: expected a HierarchicalMeasure, got {type(measure).__name__}"
            )
    for name in ("heads", "experts", "dim"):
        if getattr(G, name) != getattr(G_star, name):
            raise ValueError(
                f"G: expected {name} = {getattr(G_star, name)} as in G_star, got {getattr(G, name)}"
            )
    if G.channels < G_star.channels:
        raise ValueError(
            f"G: expected at least {G_star.channels} channels as in G_star, got {G.channels}"
        )
