r"""The lists of functions that a condition names, as data: definitions and derivatives of them.

A *definition* is a function u(x; parameters) with rational values for its parameters; a *listed*
function is a product of derivatives of definitions in their parameters. Symmetric matrices are
parametrised by their upper triangle, so that no entry is differentiated twice.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import sympy

from hmoe_lib.identifiability.parsing import Phi, Z, parse, real

__all__ = ["Definition", "Family", "Listed", "custom", "insert", "of_order"]


@dataclass(frozen=True)
class Definition:
    """A function of x and of parameters, with the values of the parameters."""

    expression: sympy.Expr
    at: dict[sympy.Symbol, sympy.Rational]

    def derivative(self, by: tuple[str, ...]) -> sympy.Expr:
        """Return the mixed derivative in the named parameters, at the values."""
        e = self.expression
        for name in by:
            e = e.diff(real(name))
        return e.xreplace(self.at)


@dataclass(frozen=True)
class Listed:
    """A product of derivatives of definitions, and its part in a Taylor expansion.

    ``cell`` names the expansion that the function belongs to and ``by`` the parameters of its
    term: () for the value, (p,) for a first derivative, (p, p) for a pure and (p, q) for a mixed
    second one.
    """

    label: str
    factors: tuple[tuple[str, tuple[str, ...]], ...]
    cell: str
    by: tuple[str, ...]


@dataclass(frozen=True)
class Family:
    """A named list of functions of x.

    ``expressions()`` keeps the activation open (phi, phi', phi'' stand as symbols);
    ``expressions(phi)`` puts one in.
    """

    name: str
    inputs: tuple[sympy.Symbol, ...]
    definitions: dict[str, Definition]
    listed: tuple[Listed, ...]

    def __len__(self) -> int:
        return len(self.listed)

    @property
    def labels(self) -> list[str]:
        """Readable names of the functions."""
        return [f.label for f in self.listed]

    def subset(self, places) -> Family:
        """Return the family of the functions at these places."""
        listed = tuple(self.listed[i] for i in places)
        used = {name for f in listed for name, _ in f.factors}
        definitions = {k: v for k, v in self.definitions.items() if k in used}
        return Family(self.name, self.inputs, definitions, listed)

    def expressions(self, phi: sympy.Expr | None = None) -> list[sympy.Expr]:
        """Return the functions in x; with an activation, explicitly."""
        cache: dict = {}
        for f in self.listed:
            for name, by in f.factors:
                if (name, by) not in cache:
                    cache[name, by] = self.definitions[name].derivative(by)
        whole = [sympy.Mul(*(cache[factor] for factor in f.factors)) for f in self.listed]
        return whole if phi is None else insert(whole, phi)


def insert(expressions: list[sympy.Expr], phi: sympy.Expr) -> list[sympy.Expr]:
    """Put an activation in the place of the open one."""
    derivatives = [phi, phi.diff(Z), phi.diff(Z, 2), phi.diff(Z, 3)]

    def explicit(order, argument):
        return derivatives[int(order)].xreplace({Z: argument})

    return [e.replace(Phi, explicit) for e in expressions]


# ---- building blocks -------------------------------------------------------------------------


def rational(value) -> sympy.Rational:
    """Return an exact rational from an int, a Fraction, text, or a float: what it prints as."""
    if isinstance(value, sympy.Rational):
        return value
    value = value.item() if hasattr(value, "item") else value
    try:
        # 0.1 means one tenth, not the nearest binary fraction.
        exact = Fraction(str(value) if isinstance(value, float) else value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise ValueError(f"atoms: expected a finite number or 'p/q', got {value!r}") from None
    return sympy.Rational(exact.numerator, exact.denominator)


def inputs(d: int) -> tuple[sympy.Symbol, ...]:
    """The symbols x1, ..., xd."""
    return tuple(real(f"x{p + 1}") for p in range(d))


def quadratic(prefix: str, x) -> tuple[sympy.Expr, list[str]]:
    """x^T M x and the names of the free entries of M."""
    pairs = list(itertools.combinations_with_replacement(range(len(x)), 2))
    names = [f"{prefix}{p + 1}{q + 1}" for p, q in pairs]
    terms = (
        (1 if p == q else 2) * real(n) * x[p] * x[q] for n, (p, q) in zip(names, pairs, strict=True)
    )
    return sympy.Add(*terms), names


def linear(prefix: str, x) -> tuple[sympy.Expr, list[str]]:
    """a^T x and the names of the entries of a."""
    names = [f"{prefix}{p + 1}" for p in range(len(x))]
    return sympy.Add(*(real(n) * t for n, t in zip(names, x, strict=True))), names


def upper(names, M) -> dict[sympy.Symbol, sympy.Rational]:
    """Values of the free entries of M."""
    pairs = itertools.combinations_with_replacement(range(len(M)), 2)
    return {real(n): rational(M[p][q]) for n, (p, q) in zip(names, pairs, strict=True)}


def values(M_names, M, a_names, a) -> dict[sympy.Symbol, sympy.Rational]:
    """Values of the free entries of M and of a."""
    vector = {real(n): rational(v) for n, v in zip(a_names, a, strict=True)}
    return upper(M_names, M) | vector


def of_order(order: int, parameters: list[str]) -> list[tuple[str, ...]]:
    """Derivatives up to an order at most 2: value, first, pure second, mixed second."""
    first = [(p,) for p in parameters]
    pure = [(p, p) for p in parameters]
    mixed = list(itertools.combinations(parameters, 2))
    return [(), *(first if order >= 1 else []), *(pure + mixed if order >= 2 else [])]


def label(name: str, by: tuple[str, ...]) -> str:
    """Write a derivative: d2/dM11 da1 u1."""
    if not by:
        return name
    power = "" if len(by) == 1 else str(len(by))
    below = f"d{by[0]}^2" if len(by) == 2 and by[0] == by[1] else " ".join(f"d{p}" for p in by)
    return f"d{power}/{below} {name}"


def single(name: str, by: tuple[str, ...]) -> Listed:
    """A derivative of one definition, its own cell."""
    return Listed(label(name, by), ((name, by),), name, by)


def by_order(listed: list[Listed]) -> tuple[Listed, ...]:
    """Sort: values, first, pure second, mixed second derivatives; simple functions first."""

    def rank(f: Listed) -> int:
        return len(f.by) + (len(f.by) == 2 and f.by[0] != f.by[1])

    return tuple(sorted(listed, key=rank))


def custom(text: str, atoms: list[dict], dim: int = 2, order: int = 2, name: str = "u") -> Family:
    """Derivatives of any gate times expert that the reader writes.

    Parameters
    ----------
    text : str
        Function of x1, ..., xd and of the parameters; ``phi(t)`` is an activation left open.
    atoms : list of dict
        Values of all parameters, one dict an atom; numbers or text such as "1/3".
    dim : int, default 2
        d.
    order : int, default 2
        Highest order of the derivatives, 1 or 2.

    Examples
    --------
    >>> u = "exp(m*x1**2) * (a1*x1 + a2*x2) * phi(c*x2)"
    >>> len(custom(u, [{"m": 1, "a1": "1/2", "a2": -1, "c": 2}], order=1))
    5
    """
    if order not in (1, 2):
        raise ValueError(f"order: expected 1 or 2, got {order!r}")
    x = inputs(dim)
    definitions, listed = {}, []
    for j, atom in enumerate(atoms, start=1):
        parameters = list(atom)
        expression = parse(text, [*(s.name for s in x), *parameters], phi=True)
        key = f"{name}{j}"
        definitions[key] = Definition(expression, {real(k): rational(v) for k, v in atom.items()})
        listed += [single(key, by) for by in of_order(order, parameters)]
    if not listed:
        raise ValueError("atoms: expected at least one atom")
    return Family(f"derivatives of {text} up to order {order}", x, definitions, by_order(listed))


def total(parts) -> sympy.Expr:
    """Sum of expressions."""
    return reduce(lambda a, b: a + b, parts, sympy.Integer(0))
