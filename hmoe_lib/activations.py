"""Activations phi: value, first and second derivative, and the same function as a sympy expression.

Every activation is written once as arrays (numpy, scipy.special) and once as text for sympy; the
tests differentiate the second and compare it with the first.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real

import numpy as np
from scipy import special

from hmoe_lib.arguments import number, real_array

Array = np.ndarray
Function = Callable[[Array], Array]

__all__ = ["ACTIVATIONS", "Activation", "activation"]


@dataclass(frozen=True)
class Activation:
    r"""A scalar activation with two derivatives and a bias added to its argument.

    Parameters
    ----------
    name : str
        Name shown in results and figures.
    value, first, second : callable
        phi, phi' and phi'' as functions of a float64 array, elementwise.
    expression : str
        The same phi as text in the variable ``z``, in sympy's language.
    bias : float, default 0
        b in phi(z + b).

    Notes
    -----
    Calling the object evaluates :math:`\varphi(z + b)`. The paper's example of a strongly
    identifiable activation is the sigmoid with :math:`b \neq 0`.

    References
    ----------
    Section 4 of the paper, after the definition of type-1 strong identifiability.

    Examples
    --------
    >>> phi = activation("sigmoid", bias=1.0)
    >>> float(phi(-1.0)), float(phi.first_derivative(-1.0))
    (0.5, 0.25)
    """

    name: str
    value: Function
    first: Function
    second: Function
    expression: str
    bias: float = 0.0

    def __post_init__(self) -> None:
        for field in ("value", "first", "second"):
            if not callable(getattr(self, field)):
                raise ValueError(f"{field}: expected a function, got {getattr(self, field)!r}")
        object.__setattr__(self, "bias", number("bias", self.bias))

    def __call__(self, z: Array) -> Array:
        """Return phi(z + b), elementwise."""
        z = self._shifted(z)
        return self._like(z, self.value(z))

    def first_derivative(self, z: Array) -> Array:
        """Return phi'(z + b), elementwise."""
        z = self._shifted(z)
        return self._like(z, self.first(z))

    def second_derivative(self, z: Array) -> Array:
        """Return phi''(z + b), elementwise."""
        z = self._shifted(z)
        return self._like(z, self.second(z))

    def value_and_first(self, z: Array, overwrite: bool = False) -> tuple[Array, Array]:
        """Return phi(z + b) and phi'(z + b); the sigmoid shares one exponential between them.

        With ``overwrite``, the memory of z may be used for the result: a pass over arrays in the
        cache costs as much as its arithmetic. For z in single precision, so are both results.
        """
        precision = np.float32 if getattr(z, "dtype", None) == np.float32 else np.float64
        if self.value is _sigmoid:
            z = np.asarray(z, dtype=precision)
            s = _sigmoid(z, self.bias, out=z if overwrite else None)
            first = np.asarray(s * s)
            return s, np.subtract(s, first, out=first)
        z = self._shifted(z)
        both = self._like(z, self.value(z)), self._like(z, self.first(z))
        return both if precision is np.float64 else tuple(x.astype(precision) for x in both)

    def with_bias(self, bias: float) -> Activation:
        """Return the same activation with another bias."""
        return replace(self, bias=bias)

    def symbolic(self, z=None):
        """Return phi(z + b) as a sympy expression; ``z`` is a sympy symbol, by default ``z``."""
        import sympy  # only the symbolic form needs it, and it is slow to import

        variable = sympy.Symbol("z") if z is None else z
        shift = sympy.nsimplify(self.bias, rational=True)
        return sympy.sympify(self.expression).subs(sympy.Symbol("z"), variable + shift)

    @classmethod
    def from_sympy(cls, expression, name: str | None = None, bias: float = 0.0) -> Activation:
        """Make an activation from a sympy expression in one symbol, derivatives included.

        Parameters
        ----------
        expression : sympy.Expr
            An expression with exactly one free symbol, taken as real and twice differentiable
            where it is used. It is evaluated as it is written: for large arguments no more
            stable than that.
        name : str, optional
            By default the expression itself.
        bias : float, default 0
            b in phi(z + b).

        Raises
        ------
        ValueError
            If the expression has no free symbol or more than one.

        Examples
        --------
        >>> import sympy
        >>> t = sympy.Symbol("t")
        >>> phi = Activation.from_sympy(t * sympy.exp(t), name="t exp(t)")
        >>> float(phi.first_derivative(0.0))
        1.0
        """
        import sympy

        symbols = sorted(getattr(expression, "free_symbols", ()), key=str)
        if len(symbols) != 1:
            raise ValueError(
                f"expression: expected one free symbol, got {len(symbols)} in {expression}"
            )
        z = sympy.Symbol("z", real=True)  # the derivative of |z| is sign(z) for real z only
        phi = expression.subs(symbols[0], z)
        # A kink has a Dirac delta as second derivative: zero wherever it can be evaluated.
        formulas = [phi.diff(z, k).replace(sympy.DiracDelta, lambda *_: 0) for k in range(3)]
        functions = [_elementwise(sympy.lambdify(z, formula, "scipy")) for formula in formulas]
        return cls(name or str(expression), *functions, expression=str(phi), bias=bias)

    def _shifted(self, z: Array) -> Array:
        z = real_array("z", z, "numbers")
        return z + self.bias if self.bias else z

    def _like(self, z: Array, values: Array) -> Array:
        """Give a constant the shape of its argument; a reader may write ``lambda z: 1.0``."""
        if np.shape(values) == z.shape:
            return values
        if np.ndim(values):
            raise ValueError(
                f"{self.name}: expected values of shape {z.shape}, got {np.shape(values)}"
            )
        return np.full(z.shape, float(values))


def _elementwise(function: Callable) -> Function:
    """Give a lambdified expression the shape of its argument even where it is constant."""

    def call(z: Array) -> Array:
        return np.broadcast_to(np.asarray(function(z), dtype=float), np.shape(z)).copy()

    return call


def _sigmoid(z: Array, bias: float = 0.0, out: Array | None = None) -> Array:
    e = np.asarray(np.subtract(-bias, z, out=out))  # bias and sign in one pass over the array
    # exp(-z) = inf for very negative z gives the correct limit 0; only the warning is unwanted.
    with np.errstate(over="ignore"):
        np.exp(e, out=e)
    e += 1.0
    return np.divide(1.0, e, out=e)


def _sigmoid_first(z: Array) -> Array:
    e = np.exp(-np.abs(z))
    return e / (1.0 + e) ** 2


def _sigmoid_second(z: Array) -> Array:
    return _sigmoid_first(z) * (1.0 - 2.0 * _sigmoid(z))


def _tanh_first(z: Array) -> Array:
    return 4.0 * _sigmoid_first(2.0 * z)


def _tanh_second(z: Array) -> Array:
    return -2.0 * np.tanh(z) * _tanh_first(z)


def _normal_pdf(z: Array) -> Array:
    return np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)


def _erf_first(z: Array) -> Array:
    return 2.0 / np.sqrt(np.pi) * np.exp(-z * z)


def _exp(z: Array) -> Array:
    # Beyond 709.78 float64 has no other answer than inf.
    with np.errstate(over="ignore"):
        return np.exp(z)


def _power(p: int, order: int, z: Array) -> Array:
    """Return the derivative of the given order of z**p."""
    factor = float(np.prod(range(p - order + 1, p + 1)))
    if p < order:
        return np.zeros_like(z)
    with np.errstate(over="ignore"):  # beyond 1e308 float64 has no other answer than inf
        return factor * z ** (p - order)


def power(p: int) -> Activation:
    """Return the activation z**p for an integer p >= 1.

    Raises
    ------
    ValueError
        If p is not an integer of at least 1.

    Examples
    --------
    >>> float(power(3).second_derivative(2.0))
    12.0
    """
    if not (isinstance(p, Real) and p >= 1 and p % 1 == 0):
        raise ValueError(f"p: expected an integer >= 1, got {p!r}")
    p = int(p)
    parts = [partial(_power, p, order) for order in range(3)]
    return Activation(f"power{p}", *parts, expression=f"z**{p}")


ACTIVATIONS: dict[str, Activation] = {
    phi.name: phi
    for phi in (
        Activation("sigmoid", _sigmoid, _sigmoid_first, _sigmoid_second, "1/(1 + exp(-z))"),
        Activation("tanh", np.tanh, _tanh_first, _tanh_second, "tanh(z)"),
        Activation(
            "silu",
            lambda z: z * _sigmoid(z),
            lambda z: _sigmoid(z) + z * _sigmoid_first(z),
            lambda z: 2.0 * _sigmoid_first(z) + z * _sigmoid_second(z),
            "z/(1 + exp(-z))",
        ),
        Activation(
            "gelu",
            lambda z: z * special.ndtr(z),
            lambda z: special.ndtr(z) + z * _normal_pdf(z),
            lambda z: (2.0 - z * z) * _normal_pdf(z),
            "z*(1 + erf(z/sqrt(2)))/2",
        ),
        Activation(
            "relu",
            lambda z: np.maximum(z, 0.0),
            lambda z: np.asarray(z > 0.0, dtype=float),
            np.zeros_like,
            "Max(z, 0)",
        ),
        Activation(
            "softplus",
            lambda z: np.logaddexp(0.0, z),
            _sigmoid,
            _sigmoid_first,
            "log(1 + exp(z))",
        ),
        Activation("erf", special.erf, _erf_first, lambda z: -2.0 * z * _erf_first(z), "erf(z)"),
        Activation("exp", _exp, _exp, _exp, "exp(z)"),
        Activation("sin", np.sin, np.cos, lambda z: -np.sin(z), "sin(z)"),
        Activation("identity", np.array, np.ones_like, np.zeros_like, "z"),
    )
}


def activation(phi: str | Activation, bias: float | None = None) -> Activation:
    """Return the activation of that name, with a bias.

    Parameters
    ----------
    phi : str or Activation
        One of ``ACTIVATIONS``, ``"power2"``, ``"power3"``, ..., or an activation already made.
    bias : float, optional
        b in phi(z + b); by default 0 for a name, unchanged for an activation.

    Returns
    -------
    Activation

    Raises
    ------
    ValueError
        For an unknown name; the closest known names are suggested.

    Examples
    --------
    >>> activation("gelu", bias=1.0).name
    'gelu'
    >>> activation("sigmod")
    Traceback (most recent call last):
        ...
    ValueError: activation: 'sigmod' is not known; did you mean 'sigmoid'?
    """
    if isinstance(phi, str):
        phi = _by_name(phi)
    elif not isinstance(phi, Activation):
        raise ValueError(f"activation: expected a name or an Activation, got {type(phi).__name__}")
    return phi if bias is None else phi.with_bias(bias)


def _by_name(name: str) -> Activation:
    key = name.strip().lower()
    if match := re.fullmatch(r"power([1-9]\d?)", key):
        return power(int(match[1]))
    if key in ACTIVATIONS:
        return ACTIVATIONS[key]
    known = [*ACTIVATIONS, "power2", "power3"]
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
    raise ValueError(f"activation: {name!r} is not known; {hint}")
