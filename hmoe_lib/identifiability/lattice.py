"""Linear forms as small integer combinations of a few of them, exactly.

A short basis of the lattice that the forms span is best. Where it needs large coordinates (forms
with many digits), generators are picked among the forms instead: they may be dependent over the
rationals, which can hide a relation and never invents one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import flint
import sympy

from hmoe_lib.identifiability.parsing import real

__all__ = ["Generators"]

LARGEST = 64  # largest coordinate: exponentials become powers of symbols


class Generators:
    """Symbols for generators of some expressions, and integer coordinates in them.

    Parameters
    ----------
    expressions : list of sympy.Expr
        Exponents or angles.
    numbers : iterator of int
        Numbers for the names of the symbols.
    letter : str
        First letter of the names.

    Examples
    --------
    >>> x, y = real("x"), real("y")
    >>> made = Generators([x, x / 2 + y, 3 * y], itertools.count(1), "Y")
    >>> [(str(made.expression(symbol)), n) for symbol, n in made.coordinates(x + 2 * y)]
    [('-x/2', -2), ('y', 2)]
    >>> Generators([x, x / 10**9 + y, y], itertools.count(1), "Y").symbols
    [Y1, Y2, Y3]
    """

    def __init__(self, expressions: list[sympy.Expr], numbers: Iterator[int], letter: str) -> None:
        vectors = [_vector(e) for e in expressions]
        self._place = {key: i for i, key in enumerate(dict.fromkeys(k for v in vectors for k in v))}
        self.symbols: list[sympy.Symbol] = []
        self.vectors: list[list[flint.fmpq]] = []
        self._lattice = None
        if not self._place:
            return
        dense = [self._dense(v) for v in vectors]
        self.vectors = _short_basis(dense)
        self._lattice = _Lattice(self.vectors)
        if any(self._lattice.coordinates(v) is None for v in dense):
            self._lattice, self.vectors = None, []
            for v in dense:
                if self._combination(v) is None:
                    self.vectors.append(v)
        self.symbols = [real(f"{letter}{next(numbers)}") for _ in self.vectors]

    def expression(self, symbol: sympy.Symbol) -> sympy.Expr:
        """Return the linear form that a symbol stands for."""
        vector = self.vectors[self.symbols.index(symbol)]
        pairs = zip(vector, self._place, strict=True)
        return sympy.Add(*(sympy.Rational(int(c.p), int(c.q)) * key for c, key in pairs))

    def coordinates(self, e: sympy.Expr) -> list[tuple[sympy.Symbol, int]] | None:
        """Return integer coordinates of an expression, or None where there are no small ones."""
        vector = _vector(e)
        if not self.symbols or any(key not in self._place for key in vector):
            return None
        target = self._dense(vector)
        if self._lattice is not None:
            parts = self._lattice.coordinates(target)
        else:
            parts = self._combination(target)
        return None if parts is None else [(self.symbols[i], n) for i, n in parts.items()]

    def _dense(self, vector: dict) -> list[flint.fmpq]:
        row = [flint.fmpq(0)] * len(self._place)
        for key, c in vector.items():
            row[self._place[key]] = flint.fmpq(int(c.p), int(c.q))
        return row

    def _combination(self, target: list[flint.fmpq]) -> dict[int, int] | None:
        """A multiple of one generator, or the sum of multiples of two."""
        for n, j in itertools.product((0, 1, -1, 2, -2, 3, -3, 4, -4), range(len(self.vectors))):
            rest = [t - n * g for t, g in zip(target, self.vectors[j], strict=True)]
            if not any(rest):
                return {j: n} if n else {}
            for i, g in enumerate(self.vectors):
                k = _multiple(rest, g)
                if k is not None and i != j:
                    return {i: k, j: n} if n else {i: k}
        return None


class _Lattice:
    def __init__(self, basis: list[list[flint.fmpq]]) -> None:
        self.rows = flint.fmpq_mat(basis)
        self.columns = self.rows.transpose()
        self.gram = self.rows * self.columns

    def coordinates(self, target: list[flint.fmpq]) -> dict[int, int] | None:
        column = flint.fmpq_mat([[c] for c in target])
        parts = self.gram.solve(self.rows * column)
        if self.columns * parts != column:
            return None
        entries = parts.entries()
        if any(c.q != 1 or abs(c.p) > LARGEST for c in entries):
            return None
        return {i: int(c.p) for i, c in enumerate(entries) if c != 0}


def _short_basis(vectors: list[list[flint.fmpq]]) -> list[list[flint.fmpq]]:
    """LLL-reduced basis of the lattice that rational vectors span."""
    denominator = math.lcm(*(int(c.q) for v in vectors for c in v))
    rows = [[int((c * denominator).p) for c in v] for v in vectors]
    short = (row for row in flint.fmpz_mat(rows).lll().tolist() if any(row))
    return [[flint.fmpq(c, denominator) for c in row] for row in short]


def _multiple(target: list[flint.fmpq], g: list[flint.fmpq]) -> int | None:
    """The integer n with target = n g, if there is a small one."""
    lead = next((i for i, c in enumerate(g) if c != 0), None)
    if lead is None:
        return None
    n = target[lead] / g[lead]
    if n.q != 1 or n == 0 or abs(n.p) > LARGEST:
        return None
    return int(n.p) if all(t == n * c for t, c in zip(target, g, strict=True)) else None


def _vector(e: sympy.Expr) -> dict:
    return {k: c for k, c in sympy.expand(e).as_coefficients_dict().items() if c != 0}
