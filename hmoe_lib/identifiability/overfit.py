r"""The order :math:`\bar r(m)` of an over-fitted cell: a system of polynomials and its solutions.

One true Gaussian expert, fitted by m atoms with differences :math:`p_1 = \Delta\beta_1`,
:math:`p_2 = \Delta a`, :math:`p_3 = \Delta b`, :math:`p_4 = \Delta\nu`. The relations
:math:`u_a = u_{\beta_1 b}` and :math:`u_{bb} = 2u_\nu` turn every derivative of
:math:`u = e^{\beta_1 x} N(y \mid ax + b, \nu)` into one of :math:`x^{l_1} \partial_b^{l_2} u`. Its
coefficient is that of :math:`x^{l_1} s^{l_2}` in

.. math:: \sum_l w_l \exp\bigl(p_{1l} x + (p_{2l} x + p_{3l}) s + p_{4l} s^2 / 2\bigr).

:math:`\bar r(m)` is the smallest r for which no m atoms with positive weights and some
:math:`p_3 \neq 0` make all coefficients of the orders 1, ..., r vanish.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import sympy

from hmoe_lib.identifiability.families import custom
from hmoe_lib.identifiability.parsing import real
from hmoe_lib.identifiability.relations import Relation
from hmoe_lib.identifiability.verdict import examine

Array = np.ndarray

__all__ = [
    "Elimination",
    "GaussHermite",
    "eliminate_two",
    "gauss_hermite",
    "gauss_hermite_tv",
    "gaussian_relations",
    "overfit_system",
    "r_bar",
]

LARGEST = 12
GAUSSIAN = "exp(beta*x1) * exp(-(x2 - a*x1 - b)**2/(2*nu)) / sqrt(nu)"


def _cell_size(m: int) -> int:
    if isinstance(m, bool) or not isinstance(m, int | np.integer) or not 2 <= m <= LARGEST:
        raise ValueError(f"m: expected an integer from 2 to {LARGEST}, got {m!r}")
    return int(m)


def gaussian_relations() -> tuple[Relation, ...]:
    """Return the relations of a softmax-gated Gaussian expert at a generic atom, proved.

    Examples
    --------
    >>> print(*gaussian_relations(), sep="\\n")
    2 * [d/dnu u1] - [d2/db^2 u1] = 0
    [d/da u1] - [d2/dbeta db u1] = 0
    2 * [d2/dbeta dnu u1] - [d2/da db u1] = 0

    The third is the difference of the other two, differentiated once more.
    """
    atom = {"beta": "1/2", "a": "-1/3", "b": "1/5", "nu": 1}
    return examine(custom(GAUSSIAN, [atom])).solution.relations


def overfit_system(m: int, r: int) -> dict[tuple[int, int], sympy.Expr]:
    r"""Return the polynomials whose common zeros are splits invisible up to order r.

    Parameters
    ----------
    m : int
        Atoms in the cell, at least 2.
    r : int
        Highest order, at least 1.

    Returns
    -------
    dict
        (l1, l2) with 1 <= l1 + l2 <= r: the coefficient of x^l1 d_b^l2 u, a polynomial in
        w1, ..., wm and p1_l, ..., p4_l. The literature's sum over
        :math:`\alpha_1 + \alpha_2 = l_1`, :math:`\alpha_2 + \alpha_3 + 2\alpha_4 = l_2`.

    Notes
    -----
    The equations with l1 = 0 hold neither p1 nor p2; a solution of them with p1 = p2 = 0 solves
    the rest. So :math:`\bar r` is that of location-scale mixtures of normals.

    Examples
    --------
    >>> overfit_system(2, 2)[0, 2]
    w1*(p3_1**2/2 + p4_1/2) + w2*(p3_2**2/2 + p4_2/2)
    """
    m = _cell_size(m)
    if isinstance(r, bool) or not isinstance(r, int) or not 1 <= r <= 2 * LARGEST:
        raise ValueError(f"r: expected an integer from 1 to {2 * LARGEST}, got {r!r}")
    pairs = [(i, j) for total in range(1, r + 1) for i in range(total + 1) for j in [total - i]]
    return {
        pair: sympy.Add(*(real(f"w{n}") * _coefficient(n, *pair) for n in range(1, m + 1)))
        for pair in pairs
    }


def _coefficient(n: int, l1: int, l2: int) -> sympy.Expr:
    p1, p2, p3, p4 = (real(f"p{k}_{n}") for k in range(1, 5))
    terms = []
    for both in range(min(l1, l2) + 1):
        for twice in range((l2 - both) // 2 + 1):
            once = l2 - both - 2 * twice
            below = sympy.Mul(*(sympy.factorial(k) for k in (l1 - both, both, once, twice)))
            power = p1 ** (l1 - both) * p2**both * p3**once * p4**twice
            terms.append(power / (below * 2**twice))
    return sympy.Add(*terms)


# ---- lower bound: Gauss-Hermite -----------------------------------------------------------------


@dataclass(frozen=True)
class GaussHermite:
    """The split of a Gaussian expert into m atoms that hides longest, in exact arithmetic.

    Attributes
    ----------
    m : int
        Atoms: p3 at the zeros of He_m, p4 = -1, weights of the quadrature rule.
    order : int
        First order whose equation fails.
    defect : sympy.Integer
        order! times the left-hand side of that equation.
    real_nodes : bool
        He_m has m different real zeros (Sturm's theorem), so the weights are positive.
    """

    m: int
    order: int
    defect: sympy.Integer
    real_nodes: bool

    @property
    def nodes(self) -> Array:
        """Zeros of He_m, as floats."""
        return np.polynomial.hermite_e.hermegauss(self.m)[0]

    @property
    def weights(self) -> Array:
        """Weights of the rule, as floats that sum to 1."""
        w = np.polynomial.hermite_e.hermegauss(self.m)[1]
        return w / w.sum()


@cache
def gauss_hermite(m: int) -> GaussHermite:
    r"""Find the first order at which the Gauss-Hermite split is seen, exactly.

    Notes
    -----
    With p4 = -1 the equation of order k is :math:`\sum_l w_l He_k(z_l) / k! = 0`. A rule that is
    exact for polynomials of degree below 2m depends only on the remainder modulo He_m, whose
    normal mean is rational arithmetic; no zero of He_m is ever computed. The value at order 2m
    is :math:`-m!`, since :math:`He_m^2` has mean m! and vanishes at all nodes.

    Examples
    --------
    >>> gauss_hermite(3).order, gauss_hermite(3).defect
    (6, -6)
    """
    m = _cell_size(m)
    y = real("y")
    node = sympy.Poly(_hermite(m, y), y)
    for order in range(1, 2 * m + 1):
        value = _normal_mean(sympy.rem(sympy.Poly(_hermite(order, y), y), node))
        if value != 0:
            return GaussHermite(m, order, value, node.count_roots() == m)
    raise ArithmeticError("the split was not seen up to order 2m")


def _hermite(k: int, y) -> sympy.Expr:
    below, here = sympy.Integer(0), sympy.Integer(1)
    for j in range(k):
        below, here = here, sympy.expand(y * here - j * below)
    return here


def _normal_mean(polynomial: sympy.Poly) -> sympy.Integer:
    return sympy.Add(*(c * sympy.factorial2(k - 1) for (k,), c in polynomial.terms() if k % 2 == 0))


# ---- upper bound: m = 2 by elimination, all m by the theorem -------------------------------------


@dataclass(frozen=True)
class Elimination:
    """What order 4 becomes for two atoms once the orders 1 to 3 are solved.

    With weights w and 1 - w, and p3 = (1 - w) t and -w t, order 4 reads ``factor`` * t^4 = 0.
    ``zeros`` counts the zeros of the factor with 0 < w < 1: with none, t = 0.
    """

    factor: sympy.Expr
    zeros: int


@cache
def eliminate_two() -> Elimination:
    """Solve the system of two atoms by exact elimination.

    Examples
    --------
    >>> found = eliminate_two()
    >>> found.factor, found.zeros
    (w*(w - 1)*(w**2 - w + 1)/36, 0)
    """
    w, t = real("w"), real("t")
    v = sympy.symbols("p4_1 p4_2", real=True)
    shift = {real("w1"): w, real("w2"): 1 - w, real("p3_1"): (1 - w) * t, real("p3_2"): -w * t}
    system = {k: e.subs(shift) for k, e in overfit_system(2, 4).items() if k[0] == 0}
    if sympy.expand(system[0, 1]) != 0:
        raise ArithmeticError("order 1 is not solved by p3 = (1 - w) t, -w t")
    solved = sympy.solve([system[0, 2], system[0, 3]], v, dict=True)
    if len(solved) != 1 or set(solved[0]) != set(v):
        raise ArithmeticError("orders 2 and 3 do not determine p4")
    factor = sympy.factor(sympy.cancel(sympy.expand(system[0, 4].subs(solved[0])) / t**4))
    numerator = sympy.Poly(sympy.fraction(factor)[0], w)
    ends = [e for e in (0, 1) if numerator.eval(e) == 0]
    inside = numerator.count_roots(0, 1) - len(ends)
    return Elimination(sympy.factor(factor), inside)


def r_bar(m: int) -> int:
    r"""Return :math:`\bar r(m)`, the order of a Gaussian expert fitted by m atoms: 2m.

    Parameters
    ----------
    m : int
        Atoms in the cell, 2 to 12.

    Returns
    -------
    int
        b is learned no faster than :math:`n^{-1/(2\bar r)}`, the variance than
        :math:`n^{-1/\bar r}`.

    Notes
    -----
    At least 2m: the split of :func:`gauss_hermite`, whose first visible order is returned. At
    most 2m: :func:`eliminate_two` for m = 2, and a proof by sign changes for every m (appendix
    of the book, "The order of an over-fitted Gaussian expert"). The literature states 4 and 6
    for m = 2, 3; we have not found 2m stated for this system.

    Examples
    --------
    >>> [r_bar(m) for m in (2, 3, 4)]
    [4, 6, 8]
    """
    return gauss_hermite(m).order


# ---- the figure ----------------------------------------------------------------------------------


def gauss_hermite_tv(m: int, t, nodes: int = 120) -> Array:
    r"""Total variation between N(0, 1) and its Gauss-Hermite split of size t.

    The split is :math:`\sum_l w_l N(t z_l, 1 - t^2)`; for a true expert :math:`N(b, \sigma^2)` of
    a mixture it is b + sigma t z_l with variances :math:`\sigma^2 (1 - t^2)`, and the total
    variation of the mixture is this number times the mean gate of that expert.

    Parameters
    ----------
    m : int
        Atoms.
    t : float or array_like
        Sizes in (0, 1); below about 0.05 differences of densities lose their digits.
    nodes : int, default 120
        Gauss-Legendre nodes on [-12, 12], between the sign changes of the difference.

    Returns
    -------
    ndarray
        Goes like :math:`t^{2m}`.

    Notes
    -----
    By Mehler's formula the difference of the densities is

    .. math:: \sum_{k \ge 2m} t^k He_k(y) N(y) \sum_l w_l He_k(z_l) / k! .

    Examples
    --------
    >>> t = np.array([0.1, 0.2])
    >>> slope = np.diff(np.log(gauss_hermite_tv(2, t))) / np.diff(np.log(t))
    >>> round(float(slope[0]), 1)
    4.0
    """
    rule, sizes = gauss_hermite(m), np.atleast_1d(np.asarray(t, dtype=float))
    if not np.all((sizes > 0) & (sizes < 1)):
        raise ValueError(f"t: expected numbers between 0 and 1, got {t!r}")
    return np.array([_variation(rule, size, nodes) for size in sizes])


def _variation(rule: GaussHermite, t: float, nodes: int) -> float:
    def difference(y: Array) -> Array:
        variance = 1.0 - t * t
        gap = y[..., None] - t * rule.nodes
        parts = rule.weights * np.exp(-gap * gap / (2 * variance)) / np.sqrt(variance)
        return (parts.sum(axis=-1) - np.exp(-y * y / 2)) / np.sqrt(2 * np.pi)

    # |difference| has kinks where the sign changes: integrate between them.
    grid = np.linspace(-12.0, 12.0, 4801)
    values = difference(grid)
    change = np.flatnonzero(np.sign(values[:-1]) * np.sign(values[1:]) < 0)
    ratio = values[change] / (values[change] - values[change + 1])
    edges = np.concatenate([[-12.0], grid[change] + ratio * (grid[1] - grid[0]), [12.0]])
    x, w = np.polynomial.legendre.leggauss(nodes)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    pieces = difference(middle[:, None] + half[:, None] * x) @ w * half
    return float(np.abs(pieces).sum() / 2)
