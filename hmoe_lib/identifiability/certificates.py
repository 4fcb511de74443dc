r"""Certificates of independence: a minor det[f_i(x_j)] enclosed away from zero by ball arithmetic.

Functions f_1, ..., f_n are linearly independent as soon as det[f_i(x_j)] is nonzero at some points
x_1, ..., x_n. The points are rational and interior to the cube, the values are balls that contain
the true numbers, and so does the ball of the determinant.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import flint

from hmoe_lib.identifiability.families import Family
from hmoe_lib.identifiability.parsing import Phi
from hmoe_lib.identifiability.points import interior
from hmoe_lib.identifiability.relations import Problem
from hmoe_lib.identifiability.tape import Balls

__all__ = ["Certificate", "certify"]

FORMAT = "hmoe independence certificate 1"
PRECISIONS = (256, 512, 1024, 2048)


@dataclass(frozen=True)
class Certificate:
    """Everything needed to check that functions are independent, as plain data.

    Attributes
    ----------
    statement : str
        What it certifies, in words.
    inputs : list of str
        Names of the coordinates of x.
    definitions : dict
        For each definition its text and the values of its parameters.
    functions : list
        Each function as a list of factors [definition, parameters differentiated by].
    points : list of list of str
        Rational points, as many as functions.
    determinant : dict
        ``mid`` and ``rad``, decimal numbers: the determinant lies within rad of mid.
    bits : int
        Working precision that sufficed.
    """

    statement: str
    inputs: list
    definitions: dict
    functions: list
    points: list
    determinant: dict
    bits: int

    def to_json(self) -> str:
        """Return the certificate as JSON text."""
        return json.dumps({"format": FORMAT, **self.__dict__}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read a certificate; damaged text is a ValueError."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"certificate: expected JSON, got {error}") from None
        if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
            raise ValueError(f"certificate: expected format {FORMAT!r}")
        if set(data) != set(cls.__dataclass_fields__):
            raise ValueError(f"certificate: expected fields {sorted(cls.__dataclass_fields__)}")
        return cls(**data)

    def __str__(self) -> str:
        mid, rad = self.determinant["mid"], self.determinant["rad"]
        n = len(self.functions)
        return f"{self.statement}: a {n} x {n} minor is {float(mid):.6g} +- {float(rad):.1g}"


def certify(problem: Problem, places: Sequence[int] | None = None) -> Certificate | None:
    """Certify that the functions at these places are independent; None if no minor is found.

    Parameters
    ----------
    problem : Problem
        Family and activation.
    places : sequence of int, optional
        Which functions; by default all.

    Examples
    --------
    >>> from hmoe_lib.identifiability import families, parsing
    >>> f = families.custom("phi(a*x1)", [{"a": 2}], dim=1, order=1)
    >>> print(certify(Problem(f, parsing.parse_activation("tanh"))))
    2 functions are independent: a 2 x 2 minor is -0.164775 +- 2e-30
    """
    places = list(range(len(problem.family))) if places is None else list(places)
    candidates = interior(len(problem.family.inputs), 2 * len(places) + 10)
    for bits in PRECISIONS:
        with flint.ctx.workprec(bits):
            rows = _values(problem, candidates, places)
            chosen = _independent_rows(rows)
            if chosen is None:
                continue
            determinant = flint.arb_mat([rows[i] for i in chosen]).det()
            if determinant.is_finite() and not determinant.contains(0):
                points = [[str(c) for c in candidates[i]] for i in chosen]
                return _certificate(problem, places, points, determinant, bits)
    return None


def _values(problem: Problem, points, places) -> list[list[flint.arb]]:
    rows = []
    for point in points:
        values = problem.tape.run([flint.arb(c) for c in point], Balls())
        rows.append([values[i] for i in places])
    return rows


def _independent_rows(rows: list[list[flint.arb]]) -> list[int] | None:
    """Choose as many rows as columns by elimination with the largest pivot; no proof needed."""
    work = [[v.mid() for v in row] for row in rows]
    left = [i for i, row in enumerate(work) if all(v.is_finite() for v in row)]
    chosen = []
    for j in range(len(work[0])):
        best = max(left, key=lambda i: abs(work[i][j]), default=None)
        if best is None or work[best][j] == 0:
            return None
        left.remove(best)
        chosen.append(best)
        head = work[best]
        for i in left:
            c = (work[i][j] / head[j]).mid()
            work[i][j:] = [(v - c * w).mid() for v, w in zip(work[i][j:], head[j:], strict=True)]
    return chosen


def _certificate(problem, places, points, determinant, bits) -> Certificate:
    family = problem.family.subset(places)
    mid, rad, exponent = (int(v) for v in determinant.mid_rad_10exp(25))
    return Certificate(
        statement=f"{len(places)} functions are independent",
        inputs=[s.name for s in family.inputs],
        definitions=_definitions(family, problem.phi),
        functions=[[[name, list(by)] for name, by in f.factors] for f in family.listed],
        points=points,
        determinant={"mid": f"{mid}e{exponent}", "rad": f"{rad}e{exponent}"},
        bits=bits,
    )


def _definitions(family: Family, phi) -> dict:
    texts = {}
    for name, definition in family.definitions.items():
        expression = definition.expression
        if phi is not None:
            expression = expression.replace(Phi, lambda _, t: phi.subs(_symbol(phi), t))
        at = {s.name: str(value) for s, value in definition.at.items()}
        texts[name] = {"text": str(expression), "at": at}
    return texts


def _symbol(phi):
    return next(iter(phi.free_symbols))
