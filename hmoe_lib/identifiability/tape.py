"""Expressions as a list of steps, run over balls, exact rationals or arrays."""

from __future__ import annotations

from collections.abc import Sequence

import flint
import numpy as np
import sympy
from scipy import special

from hmoe_lib.identifiability.parsing import Sinc

__all__ = ["Arrays", "Balls", "Rationals", "Tape"]


LARGEST_POWER = 10_000  # far larger ones end the process inside the arithmetic library


class Rationals:
    """Exact arithmetic; only rational functions."""

    def number(self, p: int, q: int):
        return flint.fmpq(p, q)

    def constant(self, name: str):
        raise ValueError(f"{name} is not rational")

    def power(self, base, p: int, q: int):
        if q != 1:
            raise ValueError("a root is not rational")
        if abs(p) > LARGEST_POWER:
            raise ValueError(f"expected a power of at most {LARGEST_POWER}, got {p}")
        return base**p

    def call(self, name: str, argument):
        raise ValueError(f"{name} is not rational")


class Balls:
    """Ball arithmetic of python-flint, at the working precision in force."""

    names: dict = {"log": "log", "sinc": "sinc"} | {
        n: n for n in ("exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atan", "asinh", "erf")
    }

    def number(self, p: int, q: int):
        return flint.arb(flint.fmpq(p, q))

    def constant(self, name: str):
        return flint.arb.pi() if name == "pi" else flint.arb(1).exp()

    def power(self, base, p: int, q: int):
        if q != 1:
            # Balls know no derivative: a root is analytic only where its base is positive.
            if not base > 0:
                return flint.arb.nan()
            base = base.root(q)
        return base**p

    def call(self, name: str, argument):
        return getattr(argument, self.names[name])()


class Arrays:
    """Numpy arrays."""

    table: dict = {
        "erf": special.erf,
        "atan": np.arctan,
        "asinh": np.arcsinh,
        "sinc": lambda t: np.sinc(t / np.pi),
    } | {n: getattr(np, n) for n in ("exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh")}

    def number(self, p: int, q: int):
        return p / q

    def constant(self, name: str):
        return np.pi if name == "pi" else np.e

    def power(self, base, p: int, q: int):
        if q != 1:
            return base ** (p / q)
        return 1.0 / base**-p if p < 0 else base**p

    def call(self, name: str, argument):
        return self.table[name](argument)


class Tape:
    """Several expressions that share their subexpressions.

    Parameters
    ----------
    expressions : sequence of sympy.Expr
        What to compute.
    inputs : sequence of sympy.Symbol
        The order in which values are given.

    Examples
    --------
    >>> x = sympy.Symbol("x", real=True)
    >>> Tape([x**2, x**2 + sympy.Rational(1, 2)], [x]).run([flint.fmpq(3)], Rationals())
    [9, 19/2]
    """

    def __init__(self, expressions: Sequence[sympy.Expr], inputs: Sequence[sympy.Symbol]) -> None:
        self.steps: list[tuple] = [("input", i) for i in range(len(inputs))]
        self._place = {symbol: i for i, symbol in enumerate(inputs)}
        self.outputs = [self._add(sympy.sympify(e)) for e in expressions]

    def _add(self, e: sympy.Expr) -> int:
        if e in self._place:
            return self._place[e]
        step = self._step(e)
        self.steps.append(step)
        self._place[e] = len(self.steps) - 1
        return self._place[e]

    def _step(self, e: sympy.Expr) -> tuple:
        if e.is_Rational:
            return ("number", int(e.p), int(e.q))
        if e in (sympy.pi, sympy.E):
            return ("constant", "pi" if e == sympy.pi else "E")
        if isinstance(e, sympy.Add | sympy.Mul):
            return ("add" if e.is_Add else "mul", [self._add(a) for a in e.args])
        if isinstance(e, sympy.Pow) and e.exp.is_Rational:
            return ("power", self._add(e.base), int(e.exp.p), int(e.exp.q))
        if isinstance(e, sympy.Function) and len(e.args) == 1:
            name = "sinc" if isinstance(e, Sinc) else type(e).__name__
            if name in Balls.names:
                return ("call", name, self._add(e.args[0]))
        raise ValueError(f"expression: {e} cannot be computed (symbols left open?)")

    def run(self, values: Sequence, field) -> list:
        """Return the values of the expressions, in the arithmetic of ``field``."""
        r: list = []
        for step in self.steps:
            match step:
                case ("input", i):
                    r.append(values[i])
                case ("number", p, q):
                    r.append(field.number(p, q))
                case ("constant", name):
                    r.append(field.constant(name))
                case ("add", places):
                    total = r[places[0]]
                    for i in places[1:]:
                        total = total + r[i]
                    r.append(total)
                case ("mul", places):
                    total = r[places[0]]
                    for i in places[1:]:
                        total = total * r[i]
                    r.append(total)
                case ("power", base, p, q):
                    r.append(field.power(r[base], p, q))
                case ("call", name, i):
                    r.append(field.call(name, r[i]))
        return [r[i] for i in self.outputs]
