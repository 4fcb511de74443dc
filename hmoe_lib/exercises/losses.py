"""Checks of Voronoi cells, Voronoi losses, and slopes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hmoe_lib import reference
from hmoe_lib.exercises.comparison import ROUNDS, compare
from hmoe_lib.measures import HierarchicalMeasure

__all__ = ["check_cells", "check_slope", "check_voronoi_loss"]


def _measures(rng: np.random.Generator, K: int, K_star: int, N: int, d: int):
    """A truth and a fit with one head; the first K_star fitted channels sit near the truth's."""
    M = rng.standard_normal((1, N, d, d))
    truth = HierarchicalMeasure.normalized(
        rng.uniform(1, 2, (1, K_star)), M, 2 * rng.standard_normal((1, N, K_star, d))
    )
    a = truth.a[:, :, np.arange(K) % K_star] + 0.2 * rng.standard_normal((1, N, K, d))
    near = truth.M + 0.2 * rng.standard_normal((1, N, d, d))
    return HierarchicalMeasure.normalized(rng.uniform(0.5, 1, (1, K)), near, a), truth


def check_cells(cells: Callable, rng: np.random.Generator) -> str:
    """Check which true channel each fitted channel belongs to.

    Parameters
    ----------
    cells : callable
        ``cells(F, F_star)`` for the values of K fitted and K* true channel functions at n points,
        shapes (K, n) and (K*, n); it returns K integers, the index of the nearest true function
        in mean square, the lowest index if two are equally near.
    rng : numpy.random.Generator
        Draws the values.

    Returns
    -------
    str
        A sentence, if all is well.

    Raises
    ------
    DifferenceError
        With the smallest input found for which the result is wrong.

    Examples
    --------
    >>> def cells(F, F_star):
    ...     return [np.argmin(((f - F_star) ** 2).mean(axis=1)) for f in F]
    >>> print(check_cells(cells, np.random.default_rng(0)))
    Well done: 24 inputs, and your results agree with the loops on all of them.
    """

    def loops(F, F_star):
        nearest = []
        for f in F:
            squares = [sum((u - v) ** 2 for u, v in zip(f, g, strict=True)) for g in F_star]
            nearest.append(squares.index(min(squares)))
        return np.array(nearest)

    cases = (
        {"F": rng.standard_normal((K, n)), "F_star": rng.standard_normal((K_star, n))}
        for K, K_star, n in [(1, 1, 1), (2, 2, 1), (3, 2, 2), (4, 3, 5)]
        for _ in range(ROUNDS)
    )
    return compare(cells, loops, cases)


def check_voronoi_loss(loss: Callable, rng: np.random.Generator, r: float | None = None) -> str:
    """Check a Voronoi loss of one head, L_{1,r} for a number r and L_2 for r = None.

    Parameters
    ----------
    loss : callable
        ``loss(omega, M, a, omega_star, M_star, a_star, cell)`` with shapes (K,), (N, d, d),
        (N, K, d), the same for the truth with K*, and ``cell`` the true channel of each fitted
        one, shape (K,).
    rng : numpy.random.Generator
        Draws the measures.
    r : float, optional
        Power everywhere; None for power 1 in cells with one member and 2 in shared cells.

    Returns
    -------
    str
        A sentence, if all is well.

    Raises
    ------
    DifferenceError
        With the smallest input found for which the result is wrong.

    Examples
    --------
    >>> def no_loss(omega, M, a, omega_star, M_star, a_star, cell):
    ...     return 0.0
    >>> check_voronoi_loss(no_loss, np.random.default_rng(0))
    Traceback (most recent call last):
        ...
    hmoe_lib.exercises.comparison.DifferenceError: no_loss: the numbers differ.
    ...
    """

    def with_power(power):
        def loops(omega, M, a, omega_star, M_star, a_star, cell):
            G = HierarchicalMeasure(omega[None], M[None], a[None])
            G_star = HierarchicalMeasure(omega_star[None], M_star[None], a_star[None])
            cells = {(0, k): (0, int(true)) for k, true in enumerate(cell)}
            return reference._loss(G, G_star, cells, power)

        return loops

    def cases():
        for K, K_star, N, d in [(1, 1, 1, 1), (2, 1, 1, 1), (2, 2, 2, 1), (3, 2, 2, 2)]:
            for _ in range(ROUNDS):
                G, G_star = _measures(rng, K, K_star, N, d)
                yield {"omega": G.omega[0], "M": G.M[0], "a": G.a[0], "omega_star": G_star.omega[0],
                       "M_star": G_star.M[0], "a_star": G_star.a[0],
                       "cell": np.arange(K) % K_star}  # fmt: skip

    powers = {None: lambda members: 2 if members > 1 else 1}
    mistakes = {
        "the power is 1 in every cell; in a cell with two or more members it is 2.": with_power(
            lambda members: 1
        ),
        "the power is 2 in every cell; in a cell with one member it is 1.": with_power(
            lambda members: 2
        ),
    }
    expected = with_power(powers.get(r, lambda members: r))
    return compare(loss, expected, cases(), mistakes if r is None else {})


def check_slope(slope: Callable, rng: np.random.Generator) -> str:
    """Check the least squares slope of log(mean loss) against log(n), over all sample sizes.

    Parameters
    ----------
    slope : callable
        ``slope(n, losses)`` for S sample sizes and an (S, R) array of positive losses of R runs.
    rng : numpy.random.Generator
        Draws the losses.

    Returns
    -------
    str
        A sentence, if all is well.

    Raises
    ------
    DifferenceError
        With the smallest input found for which the result is wrong.

    Examples
    --------
    >>> def slope(n, losses):
    ...     return np.polyfit(np.log(n), np.log(losses.mean(axis=1)), 1)[0]
    >>> print(check_slope(slope, np.random.default_rng(0)))
    Well done: 18 inputs, and your results agree with the loops on all of them.
    """

    def line(x, y):
        x_bar, y_bar = sum(x) / len(x), sum(y) / len(y)
        above = sum((u - x_bar) * (v - y_bar) for u, v in zip(x, y, strict=True))
        return above / sum((u - x_bar) ** 2 for u in x)

    def loops(n, losses):
        return line([math.log(v) for v in n], [math.log(sum(row) / len(row)) for row in losses])

    mistakes = {
        "only the second half of the sample sizes is used.": (
            lambda n, losses: loops(n[len(n) // 2 :], losses[len(n) // 2 :])
        ),
        "this is the slope of the medians, not of the means.": (
            lambda n, losses: line(np.log(n), np.log(np.median(losses, axis=1)))
        ),
        "the mean of the logarithms was taken, not the logarithm of the mean.": (
            lambda n, losses: line(np.log(n), np.log(losses).mean(axis=1))
        ),
    }
    cases = (
        {"n": 100.0 * 2.0 ** np.arange(S), "losses": rng.uniform(0.5, 1.5, (S, R))}
        for S, R in [(4, 1), (4, 2), (6, 3)]
        for _ in range(ROUNDS)
    )
    return compare(slope, loops, cases, mistakes)
