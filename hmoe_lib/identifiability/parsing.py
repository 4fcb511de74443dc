"""Text to sympy, safely: a whitelist over Python's syntax tree; nothing is ever evaluated."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable

import sympy

from hmoe_lib.activations import ACTIVATIONS, Activation

__all__ = ["FUNCTIONS", "Phi", "Sinc", "Z", "parse", "parse_activation", "real"]

LONGEST, DEEPEST, LARGEST_POWER, LARGEST_DEGREE, LARGEST_BITS = 600, 40, 12, 40, 512


def real(name: str) -> sympy.Symbol:
    """Return the real symbol of that name; every symbol of the engine is real."""
    return sympy.Symbol(name, real=True)


Z = real("z")


class Phi(sympy.Function):
    """Phi(j, t): the j-th derivative of an activation that is left open."""

    nargs = 2

    def fdiff(self, argindex=2):
        """Raise the order of the derivative by one."""
        order, argument = self.args
        return Phi(order + 1, argument)


class Sinc(sympy.Function):
    """sin(t)/t with its removable gap closed; only the check of analyticity needs to know."""

    nargs = 1


def _sigmoid(t):
    return 1 / (1 + sympy.exp(-t))


FUNCTIONS = {
    "exp": sympy.exp,
    "log": sympy.log,
    "sqrt": sympy.sqrt,
    "sin": sympy.sin,
    "cos": sympy.cos,
    "tan": sympy.tan,
    "sinh": sympy.sinh,
    "cosh": sympy.cosh,
    "tanh": sympy.tanh,
    "sech": lambda t: 1 / sympy.cosh(t),
    "atan": sympy.atan,
    "asinh": sympy.asinh,
    "erf": sympy.erf,
    "erfc": lambda t: 1 - sympy.erf(t),
    "sinc": Sinc,
    "sigmoid": _sigmoid,
    "silu": lambda t: t * _sigmoid(t),
    "gelu": lambda t: t * (1 + sympy.erf(t / sympy.sqrt(2))) / 2,
    "softplus": lambda t: sympy.log(1 + sympy.exp(t)),
    "mish": lambda t: t * sympy.tanh(sympy.log(1 + sympy.exp(t))),
    "abs": sympy.Abs,
    "Abs": sympy.Abs,
    "sign": sympy.sign,
    "max": sympy.Max,
    "Max": sympy.Max,
    "min": sympy.Min,
    "Min": sympy.Min,
    "relu": lambda t: sympy.Max(t, 0),
}
CONSTANTS = {"pi": sympy.pi, "E": sympy.E, "e": sympy.E}
SEVERAL = {"max", "Max", "min", "Min"}


def parse(text: str, symbols: Iterable[str] = ("z",), phi: bool = False) -> sympy.Expr:
    """Return a sympy expression in real symbols, or refuse the text.

    Parameters
    ----------
    text : str
        Arithmetic, powers with constant exponents, and the functions of ``FUNCTIONS``.
    symbols : iterable of str
        Names that may stand as symbols.
    phi : bool, default False
        Allow ``phi(t)``, an activation left open.

    Raises
    ------
    ValueError
        For anything else, saying what and where; nothing of the text is evaluated.

    Examples
    --------
    >>> parse("z/(1 + exp(-z))")
    z/(1 + exp(-z))
    >>> parse("__import__('os')")
    Traceback (most recent call last):
        ...
    ValueError: expression: '__import__' is not an allowed function; allowed: abs, Abs, asinh, ...
    """
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"expression: expected text such as '1/(1 + exp(-z))', got {text!r}")
    if len(text) > LONGEST:
        raise ValueError(f"expression: expected at most {LONGEST} characters, got {len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"expression: {text!r} cannot be read ({type(error).__name__})") from None
    return _Reader(text.strip(), set(symbols), phi).read(tree.body)


class _Reader:
    def __init__(self, text: str, symbols: set[str], phi: bool) -> None:
        self.text, self.symbols, self.phi = text, symbols, phi

    def read(self, node: ast.expr, depth: int = 0) -> sympy.Expr:
        if depth > DEEPEST:
            raise ValueError(f"expression: nested more than {DEEPEST} deep")
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is None:
            raise ValueError(
                f"expression: {self._source(node)!r} ({type(node).__name__}) is not allowed"
            )
        return self._bounded(handler(node, depth + 1), node)

    def _source(self, node: ast.AST) -> str:
        return ast.get_source_segment(self.text, node) or type(node).__name__

    def _bounded(self, value: sympy.Expr, node: ast.expr) -> sympy.Expr:
        if value.has(sympy.zoo, sympy.oo, -sympy.oo, sympy.nan, sympy.I):
            raise ValueError(f"expression: {self._source(node)!r} is not a finite real number")
        if value.is_Rational and max(abs(value.p), value.q).bit_length() > LARGEST_BITS:
            raise ValueError("expression: a number is too large")
        return value

    def _constant(self, node: ast.Constant, depth: int) -> sympy.Expr:
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            raise ValueError(f"expression: {node.value!r} is not a number")
        literal = self._source(node).replace("_", "")
        if not set(literal.lower()) <= set("0123456789.e+-") or len(literal) > 40:
            raise ValueError(f"expression: {literal!r} is not a decimal number of 40 digits")
        if abs(node.value) > 1e15 or (node.value and abs(node.value) < 1e-15):
            raise ValueError(f"expression: {literal!r} is out of range (1e-15 to 1e15)")
        return sympy.Rational(literal)

    def _name(self, node: ast.Name, depth: int) -> sympy.Expr:
        if node.id in self.symbols:
            return real(node.id)
        if node.id in CONSTANTS:
            return CONSTANTS[node.id]
        raise ValueError(
            f"expression: {node.id!r} is not a symbol here; expected {sorted(self.symbols)}"
            + _nearest(node.id)
        )

    def _unaryop(self, node: ast.UnaryOp, depth: int) -> sympy.Expr:
        if not isinstance(node.op, ast.USub | ast.UAdd):
            raise ValueError(f"expression: {self._source(node)!r} is not arithmetic")
        value = self.read(node.operand, depth)
        return -value if isinstance(node.op, ast.USub) else value

    def _binop(self, node: ast.BinOp, depth: int) -> sympy.Expr:
        left, right = self.read(node.left, depth), self.read(node.right, depth)
        match node.op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return self._low_degree(left * right)
            case ast.Div():
                if right == 0:
                    raise ValueError(f"expression: {self._source(node)!r} divides by zero")
                return left / right
            case ast.Pow():
                return self._power(left, right, node)
        hint = "; write ** for a power" if isinstance(node.op, ast.BitXor) else ""
        raise ValueError(f"expression: {self._source(node)!r} is not arithmetic{hint}")

    def _power(self, base: sympy.Expr, exponent: sympy.Expr, node: ast.BinOp) -> sympy.Expr:
        if base == sympy.E:
            return sympy.exp(exponent)
        if not exponent.is_Rational or max(abs(exponent.p), exponent.q) > LARGEST_POWER:
            raise ValueError(
                f"expression: in {self._source(node)!r} expected a constant exponent p/q with "
                f"|p|, q <= {LARGEST_POWER}"
            )
        return self._low_degree(base**exponent)

    def _low_degree(self, value: sympy.Expr) -> sympy.Expr:
        if _degree(value) > LARGEST_DEGREE:
            raise ValueError(f"expression: a power beyond degree {LARGEST_DEGREE}")
        return value

    def _call(self, node: ast.Call, depth: int) -> sympy.Expr:
        name = node.func.id if isinstance(node.func, ast.Name) else self._source(node.func)
        if name == "phi" and self.phi:
            function = lambda t: Phi(sympy.Integer(0), t)  # noqa: E731
        elif name in FUNCTIONS and isinstance(node.func, ast.Name):
            function = FUNCTIONS[name]
        else:
            allowed = ", ".join(sorted(FUNCTIONS, key=str.lower)[:3])
            hint = _nearest(name) or f"; allowed: {allowed}, ..."
            raise ValueError(f"expression: {name!r} is not an allowed function{hint}")
        wanted = len(node.args) >= 2 if name in SEVERAL else len(node.args) == 1
        if node.keywords or not wanted:
            raise ValueError(f"expression: {self._source(node)!r} has the wrong arguments")
        return function(*(self.read(argument, depth) for argument in node.args))


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name, [*FUNCTIONS, *ACTIVATIONS], n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _degree(value: sympy.Expr) -> float:
    """Bound how far expanding a product could grow: powers multiply, factors add."""
    if isinstance(value, sympy.Pow):
        return _degree(value.base) * abs(float(value.exp)) if value.exp.is_Rational else 1
    if isinstance(value, sympy.Mul):
        return sum(_degree(argument) for argument in value.args)
    if isinstance(value, sympy.Add):
        return max(_degree(argument) for argument in value.args)
    return 0 if value.is_number else 1


def parse_activation(phi: str | Activation | sympy.Expr) -> sympy.Expr:
    """Return an activation as a sympy expression in the real symbol ``z``.

    Parameters
    ----------
    phi : str, Activation or sympy.Expr
        An expression in z, a name of :data:`hmoe_lib.activations.ACTIVATIONS`, ``"power2"``, ...,
        an activation (its bias included), or a sympy expression in one symbol.

    Raises
    ------
    ValueError
        If the text is refused or the expression has not exactly one symbol.

    Examples
    --------
    >>> parse_activation("gelu")
    z*(erf(sqrt(2)*z/2) + 1)/2
    """
    if isinstance(phi, Activation):
        expression = parse(phi.expression)
        return expression.subs(Z, Z + sympy.Rational(str(phi.bias))) if phi.bias else expression
    if isinstance(phi, sympy.Expr):
        if phi.free_symbols == {Z}:
            return phi
        if len(phi.free_symbols) != 1:
            raise ValueError(f"expression: expected one symbol, got {sorted(phi.free_symbols)}")
        # Through text, so that a reader's own expression passes the same gate.
        symbol = next(iter(phi.free_symbols))
        return parse(str(phi).replace("exp_polar", "exp"), (symbol.name,)).subs(
            real(symbol.name), Z
        )
    name = phi.strip().lower() if isinstance(phi, str) else phi
    if name in ACTIVATIONS:
        return parse(ACTIVATIONS[name].expression)
    if isinstance(name, str) and name.startswith("power") and name[5:].isdigit():
        return parse(f"z**{name[5:]}")
    if name in FUNCTIONS and name not in SEVERAL:
        return FUNCTIONS[name](Z)
    expression = parse(phi)
    if Z not in expression.free_symbols:
        raise ValueError(f"expression: {phi!r} is constant; expected a function of z")
    return expression
