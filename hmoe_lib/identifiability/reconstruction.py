"""Exact numbers behind high-precision values: a rational, or a rational times a known constant."""

from __future__ import annotations

import itertools

import flint
import sympy

from hmoe_lib.identifiability.parsing import Z
from hmoe_lib.identifiability.tape import Balls, Tape

__all__ = ["multipliers", "rational_near", "recognise"]

TOLERANCE_BITS = 220
LARGEST_DENOMINATOR_BITS = 90


def rational_near(value: flint.arb) -> sympy.Rational | None:
    """Return the simplest rational equal to a value to 220 bits, or None if it is not simple.

    Examples
    --------
    >>> with flint.ctx.workprec(400):
    ...     rational_near(flint.arb(22) / 7), rational_near(flint.arb(2).sqrt())
    (22/7, None)
    """
    exact = value.mid()
    mantissa, exponent = (int(v) for v in exact.man_exp())
    target = flint.fmpq(mantissa) * flint.fmpq(2) ** exponent
    scale = max(abs(target), flint.fmpq(1))
    rest, (p0, q0), (p1, q1) = target, (0, 1), (1, 0)
    while True:
        whole = rest.floor()
        p0, q0, p1, q1 = p1, q1, whole * p1 + p0, whole * q1 + q0
        if int(q1).bit_length() > LARGEST_DENOMINATOR_BITS:
            return None
        near = flint.fmpq(int(p1), int(q1))
        if abs(target - near) * flint.fmpq(2) ** TOLERANCE_BITS <= scale:
            return sympy.Rational(int(p1), int(q1))
        rest = 1 / (rest - whole)


def multipliers(problem) -> list[tuple[sympy.Expr, flint.arb]]:
    """Constants that may stand in a relation: 1, those of phi, and ratios of phi at a zero atom."""
    found = {sympy.Integer(1): None}
    for e in sympy.preorder_traversal(problem.phi if problem.phi is not None else sympy.S.Zero):
        if e.is_number and not e.is_Rational:
            found |= {e: None, 1 / e: None, e**2: None, 1 / e**2: None}
    if problem.phi is not None:
        at_zero = [problem.phi.diff(Z, j).subs(Z, 0) for j in range(3)]
        for top, bottom in itertools.permutations(at_zero, 2):
            if bottom.is_nonzero is not False and top.is_finite is not False and bottom != 0:
                found[sympy.simplify(top / bottom)] = None
    numbers = [e for e in found if e.is_number and e != 0 and not e.has(sympy.nan, sympy.zoo)]
    values = Tape(numbers, []).run([], Balls())
    return [(e, v) for e, v in zip(numbers, values, strict=True) if v.is_finite() and abs(v) > 0]


def recognise(value: flint.arb, known: list[tuple[sympy.Expr, flint.arb]]) -> sympy.Expr:
    """Return an exact number for a value, or a Float when none is recognised."""
    for expression, number in known:
        ratio = rational_near(value / number)
        if ratio is not None:
            return ratio * expression
    return sympy.Float(value.mid().str(60, radius=False), 60)
