"""An independent check of certificates: own reader, own derivatives, mpmath interval arithmetic.

It shares no code with the rest of the library and imports none of it: the text of each definition
is read with Python's syntax tree, derivatives are carried along by the rules of calculus, values
are intervals of mpmath, and the determinant is computed by interval elimination.
"""

from __future__ import annotations

import ast
import json
from fractions import Fraction

from mpmath import iv

__all__ = ["recheck"]

SPARE_BITS = 160


def recheck(certificate: str | dict) -> bool:
    """Check a certificate from its JSON text or its plain data.

    Returns
    -------
    bool
        True if the minor, computed anew, is enclosed away from zero and agrees with the
        certificate. Anything that cannot be read or does not agree is False.

    Examples
    --------
    >>> data = {"inputs": ["x"], "definitions": {"u": {"text": "exp(a*x)", "at": {"a": "1/2"}}},
    ...         "functions": [[["u", []]], [["u", ["a"]]]], "points": [["0"], ["1/2"]],
    ...         "determinant": {"mid": "0.6420127083438707", "rad": "1e-15"}, "bits": 64}
    >>> recheck(data)
    True
    >>> recheck(data | {"points": [["0"], ["0"]]})
    False
    """
    before = iv.prec
    try:
        data = json.loads(certificate) if isinstance(certificate, str) else certificate
        iv.prec = min(int(data["bits"]), 8192) + SPARE_BITS
        return _agrees(data)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return False
    finally:
        iv.prec = before


def _agrees(data: dict) -> bool:
    names, points, functions = data["inputs"], data["points"], data["functions"]
    if len(points) != len(functions) or not functions:
        return False
    if any(abs(Fraction(c)) > 1 for point in points for c in point):
        return False
    trees = {k: ast.parse(v["text"], mode="eval").body for k, v in data["definitions"].items()}
    parameters = {
        k: {n: _interval(v) for n, v in definition["at"].items()}
        for k, definition in data["definitions"].items()
    }
    rows = []
    for point in points:
        x = {n: _interval(c) for n, c in zip(names, point, strict=True)}
        at = {k: _Derivatives(tree, parameters[k] | x) for k, tree in trees.items()}
        rows.append([_product(at, factors) for factors in functions])
    determinant = _determinant(rows)
    mid, rad = _interval(data["determinant"]["mid"]), _interval(data["determinant"]["rad"])
    claimed = mid + rad * iv.mpf([-1, 1])
    overlap = determinant.a <= claimed.b and claimed.a <= determinant.b
    return bool(overlap and (determinant.a > 0 or determinant.b < 0))


def _interval(text: str):
    value = Fraction(text)
    return iv.mpf(value.numerator) / value.denominator


def _product(at: dict, factors):
    value = iv.mpf(1)
    for name, by in factors:
        value = value * at[name].of(tuple(sorted(by)))
    return value


def _determinant(rows: list[list]):
    """Elimination over intervals; dividing by an interval around zero raises or gives infinity."""
    rows = [list(row) for row in rows]
    value = iv.mpf(1)
    for j in range(len(rows)):
        best = max(range(j, len(rows)), key=lambda i: abs(rows[i][j]).a)
        if not abs(rows[best][j]).a > 0:
            return iv.mpf(0)
        if best != j:
            rows[j], rows[best], value = rows[best], rows[j], -value
        head = rows[j]
        value = value * head[j]
        for row in rows[j + 1 :]:
            c = row[j] / head[j]
            row[j + 1 :] = [v - c * w for v, w in zip(row[j + 1 :], head[j + 1 :], strict=True)]
    return value


class _Derivatives:
    """Mixed derivatives of order at most 2 of an expression, at one point, by the rules.

    ``of(("a", "b"))`` is the second derivative in a and b. Symbols absent from a subexpression
    make its derivative vanish before anything is computed.
    """

    def __init__(self, tree: ast.expr, values: dict) -> None:
        self.tree, self.values = tree, values
        self.cache: dict = {}
        self.names: dict = {}

    def of(self, by: tuple[str, ...]):
        if len(by) > 2 or any(name not in self.values for name in by):
            raise ValueError(f"cannot differentiate by {by}")
        return self._at(self.tree, by)

    def _free(self, node) -> frozenset:
        if node not in self.names:
            found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            self.names[node] = frozenset(found)
        return self.names[node]

    def _at(self, node, by: tuple[str, ...]):
        key = (node, by)
        if key not in self.cache:
            if any(name not in self._free(node) for name in by):
                return iv.mpf(0)
            self.cache[key] = self._rule(node, by)
        return self.cache[key]

    def _rule(self, node, by):
        match node:
            case ast.Constant(value=int() | float()) if not by:
                return iv.mpf(str(node.value))
            case ast.Name(id=name):
                return self._name(name, by)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -self._at(inner, by)
            case ast.BinOp(left=u, op=ast.Add(), right=v):
                return self._at(u, by) + self._at(v, by)
            case ast.BinOp(left=u, op=ast.Sub(), right=v):
                return self._at(u, by) - self._at(v, by)
            case ast.BinOp(left=u, op=ast.Mult(), right=v):
                return self._times(u, v, by)
            case ast.BinOp(left=u, op=ast.Div(), right=v):
                return self._over(u, v, by)
            case ast.BinOp(left=u, op=ast.Pow(), right=v):
                exponent = _exponent(v)
                return self._chain(u, by, lambda t, order: _power(t, exponent, order))
            case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]):
                return self._chain(
                    inner, by, lambda t, order: self._function(name, inner, t)[order]
                )
        raise ValueError(f"cannot read {ast.dump(node)[:60]}")

    def _function(self, name, inner, t):
        key = ("function", name, inner)
        if key not in self.cache:
            self.cache[key] = _FUNCTIONS[name](t)
        return self.cache[key]

    def _name(self, name, by):
        if name in self.values:
            return self.values[name] if not by else iv.mpf(1 if by == (name,) else 0)
        return {"pi": iv.pi, "E": iv.e}[name] + iv.mpf(0)

    def _times(self, u, v, by):
        at = self._at
        if not by:
            return at(u, ()) * at(v, ())
        if len(by) == 1:
            return at(u, by) * at(v, ()) + at(u, ()) * at(v, by)
        p, q = (by[0],), (by[1],)
        return (
            at(u, by) * at(v, ())
            + at(u, p) * at(v, q)
            + at(u, q) * at(v, p)
            + at(u, ()) * at(v, by)
        )

    def _over(self, u, v, by):
        """w = u/v from the derivatives of u = w v."""
        key = ("over", u, v, by)
        if key not in self.cache:
            at, bottom = self._at, self._at(v, ())
            rest = at(u, by)
            if len(by) == 1:
                rest = rest - self._over(u, v, ()) * at(v, by)
            elif len(by) == 2:
                p, q = (by[0],), (by[1],)
                rest = rest - self._over(u, v, p) * at(v, q) - self._over(u, v, q) * at(v, p)
                rest = rest - self._over(u, v, ()) * at(v, by)
            self.cache[key] = rest / bottom
        return self.cache[key]

    def _chain(self, inner, by, outer):
        at, t = self._at, self._at(inner, ())
        if not by:
            return outer(t, 0)
        if len(by) == 1:
            return outer(t, 1) * at(inner, by)
        p, q = (by[0],), (by[1],)
        return outer(t, 2) * at(inner, p) * at(inner, q) + outer(t, 1) * at(inner, by)


def _exponent(node) -> Fraction:
    match node:
        case ast.Constant(value=int()):
            return Fraction(node.value)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_exponent(inner)
        case ast.BinOp(left=u, op=ast.Div(), right=v):
            return _exponent(u) / _exponent(v)
    raise ValueError("an exponent is not a rational number")


def _power(t, p: Fraction, order: int):
    factor = Fraction(1)
    for _ in range(order):
        factor, p = factor * p, p - 1
    if factor == 0:
        return iv.mpf(0)
    value = t ** abs(p.numerator) if p.denominator == 1 else _root_power(t, abs(p))
    return _interval(str(factor)) * (1 / value if p < 0 else value)


def _root_power(t, p: Fraction):
    if not t.a > 0:
        raise ValueError("a root of a number not shown to be positive")
    return iv.exp(iv.log(t) * _interval(str(p)))


# ---- functions: value, first and second derivative over intervals --------------------------------


def _exp(t):
    e = iv.exp(t)
    return e, e, e


def _log(t):
    if not t.a > 0:
        raise ValueError("a logarithm of a number not shown to be positive")
    return iv.log(t), 1 / t, -1 / (t * t)


def _sqrt(t):
    if not t.a > 0:
        raise ValueError("a root of a number not shown to be positive")
    r = iv.sqrt(t)
    return r, 1 / (2 * r), -1 / (4 * r * t)


def _sin(t):
    s, c = iv.sin(t), iv.cos(t)
    return s, c, -s


def _cos(t):
    s, c = iv.sin(t), iv.cos(t)
    return c, -s, -c


def _tan(t):
    w = iv.sin(t) / iv.cos(t)
    return w, 1 + w * w, 2 * w * (1 + w * w)


def _sinh(t):
    e = iv.exp(t)
    s, c = (e - 1 / e) / 2, (e + 1 / e) / 2
    return s, c, s


def _cosh(t):
    s, c, _ = _sinh(t)
    return c, s, c


def _tanh(t):
    e = iv.exp(-2 * t)
    w = (1 - e) / (1 + e)
    return w, 1 - w * w, -2 * w * (1 - w * w)


def _asinh(t):
    r = iv.sqrt(1 + t * t)
    return iv.log(t + r), 1 / r, -t / (r * r * r)


def _atan(t):
    value, doublings = t, 0
    while not 8 * abs(value).b < 1:
        value = value / (1 + iv.sqrt(1 + value * value))
        doublings += 1
    square, term, total, n = value * value, value, iv.mpf(0), 0
    while abs(term).b > iv.mpf(2).a ** (-iv.prec - 10):
        total = total + (term / (2 * n + 1) if n % 2 == 0 else -term / (2 * n + 1))
        term, n = term * square, n + 1
    # An alternating series with falling terms: the rest is at most the next term.
    total = total + abs(term) * iv.mpf([-1, 1])
    slope = 1 / (1 + t * t)
    return total * 2**doublings, slope, -2 * t * slope * slope


def _erf(t):
    """erf t = 2/sqrt(pi) exp(-t^2) sum_n 2^n t^(2n+1) / (2n+1)!!, all terms of one sign."""
    square = t * t
    term, total, n = t, iv.mpf(0), 0
    while abs(term).b > iv.mpf(2).a ** (-iv.prec - 10) or 4 * square.b > 2 * n + 3:
        total = total + term
        term, n = term * 2 * square / (2 * n + 3), n + 1
    # From here each term is at most half the one before it.
    total = total + 2 * abs(term) * iv.mpf([-1, 1])
    slope = 2 / iv.sqrt(iv.pi) * iv.exp(-square)
    return slope * total, slope, -2 * t * slope


_FUNCTIONS = {
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "sin": _sin,
    "cos": _cos,
    "tan": _tan,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "asinh": _asinh,
    "atan": _atan,
    "erf": _erf,
}
