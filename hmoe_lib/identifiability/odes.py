r"""The one-atom tests: differential equations that an activation must not satisfy.

At one atom with a nonzero, relations that phi causes exist exactly when phi satisfies

* listed: :math:`c_0 t^2\varphi'' + (c_1 t + c_2 t^3)\varphi'
  + (c_3 + c_4 t^2 + c_5 t^4)\varphi = 0`,
* sharp: :math:`c_0 t^2\varphi'' + c_1 t\varphi' + (c_3 + c_4 t^2)\varphi = 0`,
* model: :math:`c_0 t^2\varphi'' + c_1 t\varphi' + c_3\varphi = 0`: powers and sums of two,

with constants that are not all zero. Passing is necessary at one atom, not sufficient at several.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from hmoe_lib.identifiability.admission import admit
from hmoe_lib.identifiability.certificates import Certificate
from hmoe_lib.identifiability.families import Definition, Family, Listed
from hmoe_lib.identifiability.parsing import Phi, parse_activation, real
from hmoe_lib.identifiability.relations import Problem, Relation
from hmoe_lib.identifiability.solve import complete

__all__ = ["ODE_TERMS", "OdeTest", "ode_test"]

# (power of t, order of the derivative), highest derivative last so that it is solved for.
ODE_TERMS = {
    "listed": ((0, 0), (2, 0), (4, 0), (1, 1), (3, 1), (2, 2)),
    "sharp": ((0, 0), (2, 0), (1, 1), (2, 2)),
    "model": ((0, 0), (1, 1), (2, 2)),
}


@dataclass(frozen=True)
class OdeTest:
    """Whether phi satisfies an equation of the form; ``equations`` are proved ones.

    ``satisfied`` is True with a proof, False with a certificate of independence, None otherwise.
    """

    condition: str
    satisfied: bool | None
    equations: tuple[str, ...]
    relations: tuple[Relation, ...]
    certificate: Certificate | None

    def __str__(self) -> str:
        if self.satisfied:
            return f"{self.condition} equation: {'; '.join(self.equations)}"
        known = "satisfies none (certified)" if self.satisfied is False else "undecided"
        return f"{self.condition} equation: {known}"


def ode_test(phi, condition: str = "listed") -> OdeTest:
    """Find an equation of the form that phi satisfies and prove it, or certify that there is none.

    Parameters
    ----------
    phi : str, Activation or sympy.Expr
        Activation; phi(z + b) is examined at t = z.
    condition : {"listed", "sharp", "model"}
        The form.

    Examples
    --------
    >>> print(ode_test("gelu"))
    listed equation: (2 - t^2) phi + (-2 t + t^3) phi' + t^2 phi'' = 0
    >>> print(ode_test("gelu", "sharp"))
    sharp equation: satisfies none (certified)
    """
    if condition not in ODE_TERMS:
        raise ValueError(f"condition: expected one of {list(ODE_TERMS)}, got {condition!r}")
    problem = Problem(_family(condition), admit(parse_activation(phi)))
    found = complete(problem, list(range(len(problem.family))))
    proved = tuple(r for r in found.relations if r.proved)
    equations = tuple(_text(r, condition) for r in proved)
    satisfied = True if proved else False if found.certificate is not None else None
    return OdeTest(condition, satisfied, equations, proved, found.certificate)


def _family(condition: str) -> Family:
    t, s = real("t"), real("s")
    definitions = {"phi": Definition(Phi(sympy.Integer(0), t + s), {s: sympy.Integer(0)})}
    listed = []
    for power, order in ODE_TERMS[condition]:
        definitions[f"t^{power}"] = Definition(t**power, {})
        factors = ((f"t^{power}", ()), ("phi", ("s",) * order))
        listed.append(Listed(f"t^{power} phi{chr(39) * order}", factors, "phi", ("s",) * order))
    return Family(f"terms of the {condition} equation", (t,), definitions, tuple(listed))


def _text(relation: Relation, condition: str) -> str:
    t = sympy.Symbol("t")
    groups: dict[int, sympy.Expr] = {}
    for i, c in relation.coefficients.items():
        power, order = ODE_TERMS[condition][i]
        groups[order] = groups.get(order, sympy.Integer(0)) + c * t**power
    parts = []
    for order, c in groups.items():
        factor = _polynomial(c, t)
        factor = f"({factor})" if c.is_Add else factor
        name = "phi" + chr(39) * order
        parts.append(name if c == 1 else f"{factor} {name}")
    return " + ".join(parts).replace("+ -", "- ") + " = 0"


def _polynomial(c: sympy.Expr, t: sympy.Symbol) -> str:
    """Ascending powers, as one writes them."""
    terms = []
    for (power,), a in sorted(sympy.Poly(c, t).terms()):
        letter = {0: "", 1: "t"}.get(power, f"t^{power}")
        size = f"{abs(a)}" if abs(a) != 1 or not letter else ""
        terms.append(f"{'-' if a.is_negative else '+'} {size} {letter}".replace("  ", " ").strip())
    text = " ".join(terms)
    return text[2:] if text.startswith("+ ") else text.replace("- ", "-", 1)
