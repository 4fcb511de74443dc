"""Linear relations over the constants among functions: found, then proved or left unproved.

First in exact arithmetic: the functions are rational in x and in kernels (see
:mod:`hmoe_lib.identifiability.kernels`), and a null vector of their values at integer points is a
candidate. If a certificate shows that no more relations exist, that is all; otherwise a null
space in high precision is reconstructed. Each candidate is then proved by reducing its combination
to the zero polynomial, and kept apart where that fails.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import flint
import sympy

from hmoe_lib.identifiability.families import Family, insert
from hmoe_lib.identifiability.kernels import Kernels, is_zero
from hmoe_lib.identifiability.parsing import Phi
from hmoe_lib.identifiability.points import integers, interior
from hmoe_lib.identifiability.reconstruction import multipliers, recognise
from hmoe_lib.identifiability.tape import Balls, Rationals, Tape

__all__ = ["Problem", "Relation", "prove"]

BITS = 900  # working precision of the numerical null space
ZERO_BITS = 300  # pivots below 2^-300 count as zero there


@dataclass(frozen=True)
class Relation:
    """A linear relation sum_i c_i f_i = 0 among the functions of a family.

    ``structural``: it holds for every activation. ``proved``: the combination was reduced to the
    zero polynomial; otherwise it was only found, to about 90 digits.
    """

    coefficients: dict[int, sympy.Expr]
    labels: tuple[str, ...]
    structural: bool
    proved: bool

    def __str__(self) -> str:
        terms = []
        for i, c in self.coefficients.items():
            size = "" if abs(c) == 1 else f"{abs(c)} * " if c.is_Rational else f"({abs(c)}) * "
            sign = "-" if c.is_negative else "+"
            terms.append(f"{sign} {size}[{self.labels[i]}]")
        text = " ".join(terms).removeprefix("+ ")
        return f"{text} = 0" + ("" if self.proved else "   (found, not proved)")

    def to_dict(self) -> dict:
        """Return plain data for JSON."""
        return {
            "coefficients": {self.labels[i]: str(c) for i, c in self.coefficients.items()},
            "structural": self.structural,
            "proved": self.proved,
        }


class Problem:
    """A family with an activation put in, and what is computed from it once.

    Parameters
    ----------
    family : Family
        The functions.
    phi : sympy.Expr, optional
        Activation in the real symbol z; None when the family has no open activation.
    """

    def __init__(self, family: Family, phi: sympy.Expr | None) -> None:
        self.family, self.phi = family, phi
        self.open = family.expressions()
        self.explicit = self.open if phi is None else insert(self.open, phi)
        if any(e.has(Phi) for e in self.explicit):
            raise ValueError("phi: this family leaves the activation open; give one")
        if any(e.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo) for e in self.explicit):
            raise ValueError("phi: its formula is not finite at one of the atoms (a = 0?)")

    @cached_property
    def tape(self) -> Tape:
        """The functions ready for evaluation in x."""
        return Tape(self.explicit, self.family.inputs)

    def coincidences(self) -> tuple[list[Relation], list[int]]:
        """Return the relations that hold for every activation, and the functions that remain."""
        if not any(e.has(Phi) for e in self.open):
            return [], list(range(len(self.family)))
        vectors, kept = _exact_null_space(self.open, self.family.inputs)
        relations = [self._relation(v, structural=True) for v in vectors]
        return [r for r in relations if r.proved], kept

    def exact(self, places: Sequence[int]) -> tuple[list[Relation], list[int]]:
        """Return relations among these functions found in exact arithmetic, and what remains."""
        vectors, kept = _exact_null_space([self.explicit[i] for i in places], self.family.inputs)
        moved = [{places[i]: c for i, c in v.items()} for v in vectors]
        relations = [self._relation(v, structural=False) for v in moved]
        return [r for r in relations if r.proved], [places[i] for i in kept]

    def numerical(self, places: Sequence[int]) -> tuple[list[Relation], list[int]]:
        """Return relations found by a null space in high precision, and what remains."""
        vectors, kept = _numerical_null_space(self, places)
        return [self._relation(v, structural=False) for v in vectors], kept

    def _relation(self, vector: dict[int, sympy.Expr], structural: bool) -> Relation:
        expressions = self.open if structural else self.explicit
        vector = _readable(vector)
        proved = prove(vector, expressions)
        return Relation(vector, tuple(self.family.labels), structural, proved)


def prove(coefficients: dict[int, sympy.Expr], expressions: Sequence[sympy.Expr]) -> bool:
    """Prove that a combination of expressions is the zero function.

    Examples
    --------
    >>> from hmoe_lib.identifiability.parsing import real
    >>> x = real("x")
    >>> f = [sympy.sin(x) ** 2, sympy.cos(x) ** 2, sympy.Integer(1)]
    >>> prove({0: sympy.Integer(1), 1: sympy.Integer(1), 2: sympy.Integer(-1)}, f)
    True
    >>> prove({0: sympy.Integer(1), 1: sympy.Integer(-1)}, f)
    False
    """
    if any(c.has(sympy.Float) for c in coefficients.values()):
        return False
    return is_zero(sympy.Add(*(c * expressions[i] for i, c in coefficients.items())))


def _readable(vector: dict[int, sympy.Expr]) -> dict[int, sympy.Expr]:
    """Clear denominators; first coefficient positive."""
    values = list(vector.values())
    if all(c.is_Rational for c in values):
        scale = sympy.ilcm(*(c.q for c in values), 1)
        scale = sympy.Rational(scale) / math.gcd(*(int(c * scale) for c in values))
        scale = -scale if values[0] < 0 else scale
        return {i: c * scale for i, c in vector.items()}
    return vector


# ---- exact -----------------------------------------------------------------------------------


def _exact_null_space(expressions, inputs) -> tuple[list[dict[int, sympy.Expr]], list[int]]:
    kernels = Kernels(expressions)
    rational = [kernels.rational(e) for e in expressions]
    symbols = sorted({s for e in rational for s in e.free_symbols} | set(inputs), key=str)
    tape, stream = Tape(rational, symbols), integers()
    rows: list[list[flint.fmpq]] = []
    while len(rows) < len(expressions) + 8:
        try:
            rows.append(tape.run([next(stream) for _ in symbols], Rationals()))
        except ZeroDivisionError:
            continue
    reduced, rank = flint.fmpq_mat(rows).rref()
    table = reduced.tolist()
    pivots = [next(j for j, c in enumerate(row) if c != 0) for row in table[:rank]]
    free = [j for j in range(len(expressions)) if j not in set(pivots)]
    vectors = []
    for j in free:
        vector = {p: _sympy(-table[i][j]) for i, p in enumerate(pivots) if table[i][j] != 0}
        vectors.append(vector | {j: sympy.Integer(1)})
    return vectors, pivots


def _sympy(value: flint.fmpq) -> sympy.Rational:
    return sympy.Rational(int(value.p), int(value.q))


# ---- numerical -------------------------------------------------------------------------------


def _numerical_null_space(problem: Problem, places: Sequence[int]):
    columns = list(places)
    with flint.ctx.workprec(BITS):
        points = interior(len(problem.family.inputs), len(columns) + 10)
        rows = []
        for point in points:
            values = problem.tape.run([flint.arb(c) for c in point], Balls())
            rows.append([values[i].mid() for i in columns])
        pivots, table = _row_reduce(rows)
        known = multipliers(problem)
        vectors = []
        for j in [j for j in range(len(columns)) if j not in set(pivots)]:
            vector = {}
            for i, p in enumerate(pivots):
                if abs(table[i][j]) > flint.arb(2) ** -ZERO_BITS:
                    vector[columns[p]] = recognise(-table[i][j], known)
            vectors.append(vector | {columns[j]: sympy.Integer(1)})
    return vectors, [columns[p] for p in pivots]


def _row_reduce(rows: list[list]) -> tuple[list[int], list[list]]:
    """Reduced row echelon form; a column without an entry above the threshold is free."""
    rows = [list(r) for r in rows]
    small = flint.arb(2) ** -ZERO_BITS
    pivots: list[int] = []
    for j in range(len(rows[0])):
        start = len(pivots)
        if start == len(rows):
            break
        best = max(range(start, len(rows)), key=lambda i: float(abs(rows[i][j]).log().mid())
                   if rows[i][j] != 0 else -1e300)  # fmt: skip
        if not abs(rows[best][j]) > small:
            continue
        rows[start], rows[best] = rows[best], rows[start]
        head = rows[start]
        inverse = 1 / head[j]
        head[j:] = [(v * inverse).mid() for v in head[j:]]
        for i, row in enumerate(rows):
            if i != start and row[j] != 0:
                c = row[j]
                row[j:] = [(v - c * w).mid() for v, w in zip(row[j:], head[j:], strict=True)]
        pivots.append(j)
    return pivots, rows
