"""Expressions as rational functions of x and of kernels: exponentials, tangents, erf, log, ...

Exponents are written as integer combinations of few, so that the exponentials become independent
symbols, and sin, cos of an angle become rational functions of the tangent of its half. An
expression whose numerator is then the zero polynomial is zero; the converse holds when the
kernels are algebraically independent, and no proof rests on the converse.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import sympy

from hmoe_lib.identifiability.lattice import Generators
from hmoe_lib.identifiability.parsing import Phi, real

__all__ = ["Kernels", "is_zero"]

_HYPERBOLIC = (sympy.tanh, sympy.sinh, sympy.cosh, sympy.coth)


class Kernels:
    """Symbols for the kernels of several expressions.

    ``rational(e)`` is e as a rational function of the free symbols and ``symbols``.

    Examples
    --------
    >>> x = real("x")
    >>> kernels = Kernels([sympy.exp(x), sympy.exp(3 * x / 2)])
    >>> kernels.rational(sympy.exp(2 * x) + sympy.exp(x) * sympy.exp(x / 2))
    Y1**4 + Y1**3
    """

    def __init__(self, expressions: Iterable[sympy.Expr]) -> None:
        self._names = itertools.count(1)
        self._symbol: dict[sympy.Expr, sympy.Symbol] = {}
        self._cache: dict[sympy.Expr, sympy.Expr] = {}
        self.roots: dict[sympy.Symbol, tuple[int, sympy.Expr]] = {}
        expressions = [_plain(e) for e in expressions]
        self._exponents = Generators(_arguments(expressions, (sympy.exp,)), self._names, "Y")
        angles = _arguments(expressions, (sympy.sin, sympy.cos, sympy.tan))
        self._angles = Generators(angles, self._names, "T")
        self._rational = [self._walk(e) for e in expressions]

    @property
    def symbols(self) -> list[sympy.Symbol]:
        """The kernels met so far."""
        return [*self._exponents.symbols, *self._angles.symbols, *self._symbol.values()]

    def rational(self, e: sympy.Expr) -> sympy.Expr:
        """Return e as a rational function of its free symbols and the kernels."""
        return self._walk(_plain(e))

    def _walk(self, e: sympy.Expr) -> sympy.Expr:
        if e.is_Rational or e.is_Symbol:
            return e
        if e not in self._cache:
            self._cache[e] = self._replace(e)
        return self._cache[e]

    def _replace(self, e: sympy.Expr) -> sympy.Expr:
        if e.is_Add or e.is_Mul:
            return e.func(*(self._walk(a) for a in e.args))
        if e == sympy.E or isinstance(e, sympy.exp):
            return self._exponential(sympy.Integer(1) if e == sympy.E else e.args[0])
        if e.is_Pow and e.exp.is_Rational:
            if e.exp.is_Integer:
                return self._walk(e.base) ** e.exp
            return self._root(e.base, int(e.exp.q)) ** e.exp.p
        if isinstance(e, sympy.sin | sympy.cos | sympy.tan):
            c, s = self._turn(e.args[0])
            return {sympy.sin: s, sympy.cos: c}.get(type(e), s / c)
        if isinstance(e, sympy.log):
            # log(1 + e^-t) = log(1 + e^t) - t: one kernel for both signs of t.
            inner = e.args[0] - 1
            if isinstance(inner, sympy.exp) and inner.args[0].could_extract_minus_sign():
                t = inner.args[0]
                return self._walk(t) + self._new(sympy.log(1 + sympy.exp(sympy.expand(-t))))
        return self._new(e if isinstance(e, Phi) else e.func(*map(sympy.expand, e.args)))

    def _new(self, key: sympy.Expr) -> sympy.Symbol:
        if key not in self._symbol:
            self._symbol[key] = real(f"K{next(self._names)}")
        return self._symbol[key]

    def _root(self, base: sympy.Expr, q: int) -> sympy.Symbol:
        symbol = self._new(sympy.Pow(sympy.expand(base), sympy.Rational(1, q)))
        self.roots[symbol] = (q, self._walk(base))
        return symbol

    def _exponential(self, exponent: sympy.Expr) -> sympy.Expr:
        parts = self._exponents.coordinates(exponent)
        if parts is None:
            return self._new(sympy.exp(sympy.expand(exponent)))
        return sympy.Mul(*(symbol**n for symbol, n in parts))

    def _turn(self, angle: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
        """cos and sin of an integer combination of the basis angles, by the addition formulas."""
        parts = self._angles.coordinates(angle)
        if parts is None:
            parts = [(self._new(sympy.tan(sympy.expand(angle) / 2)), 1)]
        turn = (sympy.Integer(1), sympy.Integer(0))
        for symbol, n in parts:
            c, s = (1 - symbol**2) / (1 + symbol**2), 2 * symbol / (1 + symbol**2)
            turn = _add_turns(turn, _times_turn((c, s if n > 0 else -s), abs(n)))
        return turn


def _add_turns(first, second):
    (c1, s1), (c2, s2) = first, second
    return c1 * c2 - s1 * s2, s1 * c2 + c1 * s2


def _times_turn(turn, n: int):
    """The n-fold turn by doubling: the expressions stay short."""
    if n == 1:
        return turn
    half = _times_turn(turn, n // 2)
    double = _add_turns(half, half)
    return _add_turns(double, turn) if n % 2 else double


def is_zero(e: sympy.Expr) -> bool:
    """Prove that an expression is the zero function; False means only "not proved".

    Examples
    --------
    >>> t = real("t")
    >>> is_zero(sympy.tanh(t) - 2 / (1 + sympy.exp(-2 * t)) + 1)
    True
    >>> is_zero(sympy.sin(2 * t) - 2 * sympy.sin(t))
    False
    """
    e = sympy.sympify(e)
    if e == 0:
        return True
    kernels = Kernels([e])
    return _vanishes(kernels.rational(e), kernels.roots)


def _vanishes(e: sympy.Expr, roots: dict) -> bool:
    numerator = sympy.fraction(sympy.together(e))[0]
    present = [r for r in roots if numerator.has(r)]
    if not present:
        symbols = sorted(numerator.free_symbols, key=str)
        return sympy.Poly(numerator, *symbols).is_zero if symbols else numerator == 0
    # A root may stand inside the base of a later one, so the latest goes first.
    root = present[-1]
    q, base = roots[root]
    parts = [sympy.Integer(0)] * q
    for (k,), c in sympy.Poly(numerator, root).terms():
        parts[k % q] += c * base ** (k // q)
    return all(_vanishes(part, roots) for part in parts if part != 0)


def _plain(e: sympy.Expr) -> sympy.Expr:
    if e.has(*_HYPERBOLIC):
        e = e.replace(lambda n: isinstance(n, _HYPERBOLIC), lambda n: n.rewrite(sympy.exp))
    return e


def _arguments(expressions: list[sympy.Expr], kinds: tuple) -> list[sympy.Expr]:
    """Arguments of such functions outside other kernels, in the order of appearance."""
    found: dict[sympy.Expr, None] = {}
    seen: set[sympy.Expr] = set()
    stack = list(reversed(expressions))
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if isinstance(e, kinds):
            found[e.args[0]] = None
        elif e == sympy.E and sympy.exp in kinds:
            found[sympy.Integer(1)] = None
        elif e.is_Add or e.is_Mul or e.is_Pow:
            stack.extend(reversed(e.args))
        elif isinstance(e, sympy.log):
            stack.append(e.args[0])
    return list(found)
