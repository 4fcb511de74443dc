"""Which activations the engine works on: analytic where used, not constant; who is refused, why."""

from __future__ import annotations

import flint
import sympy

from hmoe_lib.identifiability.kernels import is_zero
from hmoe_lib.identifiability.parsing import Sinc, Z
from hmoe_lib.identifiability.tape import Balls, Tape

__all__ = ["RefusedError", "admit", "homogeneous_degree"]

KINKS = (sympy.Abs, sympy.Max, sympy.Min, sympy.sign)
DEEPEST_CUT = 14


class RefusedError(ValueError):
    """An activation that the engine does not work on; the message says where it fails."""


def admit(phi: sympy.Expr, reach: float = 4.0) -> sympy.Expr:
    """Return an activation ready for derivatives, or refuse it.

    Parameters
    ----------
    phi : sympy.Expr
        Expression in the real symbol z, from :func:`parse_activation`.
    reach : float, default 4
        Arguments of phi up to this size in absolute value are used.

    Raises
    ------
    RefusedError
        If phi has a kink (ReLU, absolute value), is constant, or is not analytic on
        [-reach, reach]: enclosed by ball arithmetic, so that a pole between two sample points
        does not slip through.

    Examples
    --------
    >>> admit(Z / (Z - 1))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    hmoe_lib.identifiability.admission.RefusedError: z/(z - 1) is not finite ... near z = 1
    """
    if phi.has(*KINKS):
        raise RefusedError(_kink_message(phi))
    _check_analytic(phi, reach)
    plain = phi.replace(Sinc, lambda t: sympy.sin(t) / t)
    if is_zero(plain.diff(Z)):
        raise RefusedError(f"{phi} is constant")
    return plain


def _check_analytic(phi: sympy.Expr, reach: float) -> None:
    tape = Tape([phi], [Z])
    bound = flint.fmpq(int(4 * reach) + 1, 4)
    # Three parts, so that zero and the half-integers are not always ends of an interval.
    left = [(-bound + 2 * bound * k / 3, -bound + 2 * bound * (k + 1) / 3, 0) for k in range(3)]
    while left:
        # Nearest to zero first: that is the place to name.
        low, high, depth = left.pop(min(range(len(left)), key=lambda i: _distance(left[i])))
        middle = (low + high) / 2
        ball = flint.arb(middle, (high - low) / 2)
        if tape.run([ball], Balls())[0].is_finite():
            continue
        if depth == DEEPEST_CUT:
            where = round(float(middle.p) / float(middle.q), 3) + 0.0
            raise RefusedError(f"{phi} is not finite or not analytic near z = {where:g}")
        left += [(low, middle, depth + 1), (middle, high, depth + 1)]


def _distance(part) -> flint.fmpq:
    low, high, _ = part
    return flint.fmpq(0) if low <= 0 <= high else min(abs(low), abs(high))


def _kink_message(phi: sympy.Expr) -> str:
    places = sorted({p for e in phi.atoms(*KINKS) for p in _places(e)})
    where = f"at z = {', '.join(map(str, places))}" if places else ""
    jumps = [_jump(phi, p) for p in places]
    order = min((j for j in jumps if j is not None), default=None)
    name = "phi" + "'" * (order or 0)
    message = f"{phi} is not analytic: its branches meet {where}".rstrip()
    if order is not None:
        message += f", where {name} jumps"
        message += "; the conditions need phi''" if order <= 2 else ""
    degree = homogeneous_degree(phi)
    if degree is not None:
        factor = "" if degree == 1 else f"{degree} "
        message += (
            f". It is homogeneous of degree {degree}: t phi' = {factor}phi on either side of 0, "
            "so the model condition fails for it"
        )
    return message


def _jump(phi: sympy.Expr, place: sympy.Rational) -> int | None:
    """The lowest derivative that differs between the two sides of a place, up to the third."""
    t = sympy.Symbol("t", positive=True)
    right, left = (sympy.simplify(phi.subs(Z, place + sign * t)) for sign in (1, -1))
    if any(side.has(*KINKS) for side in (right, left)):
        return None
    for order in range(4):
        gap = right.diff(t, order) - (-1) ** order * left.diff(t, order)
        if sympy.simplify(gap.subs(t, 0)) != 0:
            return order
    return None


def _places(e: sympy.Expr) -> list[sympy.Expr]:
    pairs = [(a, b) for i, a in enumerate(e.args) for b in e.args[:i]] or [(e.args[0], 0)]
    places = []
    for a, b in pairs:
        gap = sympy.expand(a - b)
        if gap.is_polynomial(Z) and sympy.degree(gap, Z) == 1:
            places.append(-gap.coeff(Z, 0) / gap.coeff(Z, 1))
    return places


def homogeneous_degree(phi: sympy.Expr) -> sympy.Rational | None:
    """Return p with phi(c t) = c^p phi(t) for all c > 0, or None.

    Examples
    --------
    >>> homogeneous_degree(sympy.Max(Z, 0) ** 2), homogeneous_degree(sympy.Abs(Z) + 1)
    (2, None)
    """
    positive = sympy.Symbol("t", positive=True)
    degrees = set()
    for sign in (1, -1):
        side = sympy.simplify(phi.subs(Z, sign * positive))
        if side == 0:
            continue
        degree = sympy.simplify(positive * side.diff(positive) / side)
        degrees.add(degree)
    return degrees.pop() if len(degrees) == 1 and all(d.is_Rational for d in degrees) else None
