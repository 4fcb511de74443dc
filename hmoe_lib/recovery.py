r"""What of a measure was recovered: experts one by one, and the combinations attention shows.

Two measures of recovery beside the Voronoi losses. The first forms cells of experts instead of
channels, the loss E_2 of the repaired Theorem 2, and tells gates, weights, experts fitted once
and experts fitted several times apart. The second compares only what plain attention can show.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from hmoe_lib.measures import HierarchicalMeasure

Array = np.ndarray

__all__ = ["ExpertErrors", "combinations", "combinations_error", "expert_errors"]


class ExpertErrors(NamedTuple):
    r"""Errors by kind of parameter, with cells of experts; :attr:`loss` is E_2.

    gates: :math:`\sum_h \|\Delta M_h\|`; weights: sum over cells of the weight that is missing
    or too much; single, shared, shared_squared: weighted distances of the vectors a in cells with
    one member (power 1) and with more (powers 1 and 2); cells_shared: number of the latter.
    """

    gates: float
    weights: float
    single: float
    shared: float
    shared_squared: float
    cells_shared: int

    @property
    def loss(self) -> float:
        """E_2: gates, weights and single cells at power 1, shared cells at power 2."""
        return self.gates + self.weights + self.single + self.shared_squared


def expert_errors(G: HierarchicalMeasure, G_star: HierarchicalMeasure) -> ExpertErrors:
    r"""Return the errors of a fit with cells formed for each expert (h, i) on its own.

    Parameters
    ----------
    G : HierarchicalMeasure
        The fit, K channels.
    G_star : HierarchicalMeasure
        The truth, with the same H, N and d.

    Returns
    -------
    ExpertErrors
        At the order of heads and experts with the smallest E_2; its ``loss`` is E_2.

    Raises
    ------
    ValueError
        If one of them is no measure, or they differ in H, N or d.

    Notes
    -----
    In each head and for each i, every :math:`a_{h,i,k}` belongs to the nearest
    :math:`a^*_{h,i,k'}`, and carries the weight :math:`\omega_{h,k}`. Then

    .. math::
        E_2 = \sum_h \|\Delta M_h\| + \sum_{h,i,k'} \Bigl( \Bigl|\sum_{V_{h,i,k'}} \omega_{h,k}
        - \omega^*_{h,k'}\Bigr| + \sum_{V_{h,i,k'}} \omega_{h,k} \|\Delta a\|^{p} \Bigr),

    p = 1 in cells with one member, 2 in cells with more. Setting I sees no more than this: which
    experts share a channel does not enter its function.

    References
    ----------
    Ours; the book's chapter on Theorems 2 and 3, where it repairs the paper's inequality.

    Examples
    --------
    >>> truth = HierarchicalMeasure([[1.0]], np.zeros((1, 1, 1, 1)), [[[[1.0]]]])
    >>> fit = HierarchicalMeasure([[0.5, 0.75]], np.zeros((1, 1, 1, 1)), [[[[1.5], [0.5]]]])
    >>> errors = expert_errors(fit, truth)
    >>> errors.weights, errors.shared, errors.shared_squared, errors.loss
    (0.25, 0.625, 0.3125, 0.5625)
    """
    _check(G, G_star)
    best = [[_best_order(G, h, G_star, true) for h in range(G.heads)] for true in range(G.heads)]
    _, chosen = linear_sum_assignment([[errors.loss for errors in row] for row in best])
    return ExpertErrors(*map(sum, zip(*(best[t][h] for t, h in enumerate(chosen)), strict=True)))


def _best_order(G: HierarchicalMeasure, h: int, G_star: HierarchicalMeasure, true: int):
    orders = map(list, itertools.permutations(range(G.experts)))
    candidates = (_head_errors(G, h, order, G_star, true) for order in orders)
    return min(candidates, key=lambda errors: errors.loss)


def _head_errors(G: HierarchicalMeasure, h: int, order: list, G_star, true: int) -> ExpertErrors:
    """Errors of one fitted head against one true head, its experts in the order given."""
    M = G.M[h, order] - G.M[h, order[-1]]
    weights = single = shared = shared_squared = 0.0
    cells_shared = 0
    for a, a_star in zip(G.a[h, order], G_star.a[true], strict=True):
        distance = np.linalg.norm(a[:, None] - a_star, axis=-1)  # (K, K*)
        cell = distance.argmin(axis=1)
        mass = np.bincount(cell, G.omega[h], minlength=G_star.channels)
        members = np.bincount(cell, minlength=G_star.channels)
        gap, several = distance.min(axis=1), members[cell] > 1
        weights += float(np.abs(mass - G_star.omega[true]).sum())
        single += float(G.omega[h, ~several] @ gap[~several])
        shared += float(G.omega[h, several] @ gap[several])
        shared_squared += float(G.omega[h, several] @ gap[several] ** 2)
        cells_shared += int(np.sum(members > 1))
    gates = float(np.linalg.norm(M - G_star.M[true]))
    return ExpertErrors(gates, weights, single, shared, shared_squared, cells_shared)


def combinations(G: HierarchicalMeasure) -> tuple[Array, Array, Array]:
    r"""Return what the function of plain attention depends on: M, d and C.

    Returns
    -------
    M : ndarray, shape (H, N - 1, d, d)
        The free gate matrices.
    difference : ndarray, shape (H, N - 1, d)
        :math:`d_{h,i} = c_{h,i} - c_{h,N}` with :math:`c_{h,i} = \sum_k \omega_{h,k} a_{h,i,k}`.
    total : ndarray, shape (d,)
        :math:`C = \sum_h c_{h,N}`.

    Notes
    -----
    :math:`f_G(x) = C^\top x + \sum_h \sum_{i<N} s_{h,i}(x)\, d_{h,i}^\top x`: the softmax weights
    of a head add up to 1, so nothing else of :math:`\omega` and a enters.

    References
    ----------
    Ours; it states exactly what the non-identifiability of Theorem 1 leaves.

    Examples
    --------
    >>> G = HierarchicalMeasure([[1.0, 2.0]], np.zeros((1, 1, 1, 1)), [[[[3.0], [5.0]]]])
    >>> M, difference, total = combinations(G)
    >>> M.shape, difference.shape, total
    ((1, 0, 1, 1), (1, 0, 1), array([13.]))
    """
    c = np.einsum("hk,hikp->hip", G.omega, G.a)
    return G.M[:, :-1], c[:, :-1] - c[:, -1:], c[:, -1].sum(axis=0)


def combinations_error(G: HierarchicalMeasure, G_star: HierarchicalMeasure) -> float:
    """Return the Euclidean distance of (M, d, C), the smallest over orders of heads and experts.

    The number of channels may differ.

    Raises
    ------
    ValueError
        If one of them is no measure, or they differ in H, N or d.

    Examples
    --------
    >>> truth = HierarchicalMeasure([[1.0]], np.zeros((1, 1, 1, 1)), [[[[1.0]]]])
    >>> split = HierarchicalMeasure([[0.5, 0.5]], np.zeros((1, 1, 1, 1)), [[[[9.0], [-7.0]]]])
    >>> combinations_error(split, truth)
    0.0
    """
    _check(G, G_star)
    true = combinations(G_star)
    distances = []
    for twin in G.twins():
        M, difference, total = combinations(twin)
        # The total belongs to no head, so heads can be matched by the rest alone.
        cost = np.sum((M[:, None] - true[0]) ** 2, axis=(2, 3, 4))
        cost += np.sum((difference[:, None] - true[1]) ** 2, axis=(2, 3))
        matched = cost[linear_sum_assignment(cost)].sum()
        distances.append(np.sqrt(matched + np.sum((total - true[2]) ** 2)))
    return float(min(distances))


def _check(G: HierarchicalMeasure, G_star: HierarchicalMeasure) -> None:
    for name, measure in (("G", G), ("G_star", G_star)):
        if not isinstance(measure, HierarchicalMeasure):
            found = type(measure).__name__
            raise ValueError(f"{name}: expected a HierarchicalMeasure, got {found}")
    for name in ("heads", "experts", "dim"):
        if getattr(G, name) != getattr(G_star, name):
            raise ValueError(
                f"G: expected {name} = {getattr(G_star, name)} as in G_star, got {getattr(G, name)}"
            )
