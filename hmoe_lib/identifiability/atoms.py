r"""Atoms: one gate times one expert, as text, and the lists of their derivatives.

A softmax gate enters the expansion of a fitted mixture through its numerator. With f the value of
the true mixture at the input, the functions are the derivatives of

.. math:: u = e^{z(x)} \, (h(x) - f),

and f, made of all the other atoms, counts as one more coordinate: a relation in (x, f) is one that
both :math:`e^z h` and :math:`e^z` obey, whatever the other atoms are. A sigmoid gate has no
normaliser, :math:`u = \sigma(z(x)) h(x)`. The bias of a gate is the weight of its atom, and
[u1] itself is the derivative by this weight.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

import sympy

from hmoe_lib.identifiability.admission import KINKS, RefusedError
from hmoe_lib.identifiability.families import (
    Definition,
    Family,
    by_order,
    of_order,
    rational,
    single,
)
from hmoe_lib.identifiability.parsing import CONSTANTS, FUNCTIONS, parse, real

__all__ = ["EXPERTS", "GATES", "Atom", "Expert", "Gate", "atom"]

WEIGHT = "1/4"  # of the split atom under a sigmoid gate, whose slope is 0 there
COORDINATES = ("x1", "x2", "x3", "f", "y", "k", "t1", "t2", "t3")


@dataclass(frozen=True)
class Gate:
    """A gate, by its score.

    Attributes
    ----------
    name : str
    score : str
        In x1, x2, x3 and the gate's own parameters; LIN and QUAD stand for beta^T x and x^T A x.
    kind : {"softmax", "sigmoid"}
        What is done with the score.
    dim : int
        Number of inputs at which the atlas examines it.
    at : dict
        Values of parameters that are not the generic ones.
    shared : tuple of str
        Parameters that all atoms have in common.
    note : str
        Where the place of a parameter is our choice, or what the cell stands for.
    """

    name: str
    score: str
    kind: str = "softmax"
    dim: int = 1
    at: dict = field(default_factory=dict)
    shared: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Expert:
    """An expert, by its formula; LIN stands for a^T x.

    Attributes
    ----------
    name : str
    formula : str
        In x1, x2, x3, the expert's own parameters, and coordinates: y for a density, t1, t2, t3
        for the probabilities of classes, k for the output of a ReLU neuron.
    at : dict
        Values of parameters that are not the generic ones.
    note : str
    """

    name: str
    formula: str
    at: dict = field(default_factory=dict)
    note: str = ""


_COSINE = "LIN / (sqrt(NORM) * sqrt(x1**2 + x2**2))"
_PERTURBED = "LIN / ((sqrt(NORM) + 1/2) * (sqrt(x1**2 + x2**2) + 1/2))"
_UNIT = {"beta1": "3/5", "beta2": "4/5"}

GATES = {
    g.name: g
    for g in (
        Gate("linear softmax", "LIN"),
        Gate("top-K", "LIN", note="linear softmax inside a region where the selection is constant"),
        Gate("polynomial quadratic", "QUAD + LIN"),
        Gate("monomial quadratic", "QUAD"),
        Gate("cosine", _COSINE, dim=2, at=_UNIT),
        Gate("perturbed cosine", _PERTURBED, dim=2, at=_UNIT, note="both tau are 1/2"),
        Gate("temperature", "LIN / tau", at={"tau": "3/2"}, shared=("tau",),
             note="the bias is not divided by tau"),
        Gate("activated temperature", "sigmoid(LIN) / tau", at={"tau": "3/2"}, shared=("tau",),
             note="sigmoid of the score, then divided by tau: our reading of the modification"),
        Gate("transformed input", "TANH", note="m(x) = tanh(x), our choice of a bounded map"),
        Gate("sigmoid, linear score", "LIN", kind="sigmoid"),
        Gate("sigmoid, quadratic score", "QUAD", kind="sigmoid"),
    )
}  # fmt: skip
EXPERTS = {
    e.name: e
    for e in (
        Expert("constant", "b"),
        Expert("linear", "LIN"),
        Expert("affine", "LIN + b"),
        Expert("polynomial", "(LIN + b)**2"),
        Expert("ReLU neuron", "r*k", at={"r": 1},
               note="k = max(a^T x + b, 0) and r its length: the list along the ray r (a, b); "
               "across it the kink leaves no second derivative"),
        Expert("tanh neuron", "tanh(LIN + b)"),
        Expert("sigmoid neuron", "sigmoid(LIN + b)"),
        Expert("GELU neuron", "gelu(LIN + b)"),
        Expert("Gaussian density", "exp(-(y - LIN - b)**2 / (2*nu)) / sqrt(nu)", at={"nu": 1}),
        Expert("multinomial", "CLASSES", note="three classes, the last one pinned"),
    )
}  # fmt: skip
# Declared values: different, no small integer relation among them, well inside the cube.
_GENERIC = ("7/10", "-3/5", "2/5", "11/10", "-9/10", "1/5", "-4/5", "13/10", "3/10", "-6/5")


@dataclass(frozen=True)
class Atom:
    """A gate times an expert at declared values.

    ``expression`` is u; ``gate_names`` and ``expert_names`` its parameters; ``at`` their values;
    ``inputs`` the coordinates; ``kind`` the gate's. ``score`` and ``expert`` are its parts.
    """

    gate: str
    experts: str
    kind: str
    score: sympy.Expr
    expert: sympy.Expr
    gate_names: tuple[str, ...]
    expert_names: tuple[str, ...]
    at: dict[str, sympy.Rational]
    shared: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All parameters."""
        return self.gate_names + self.expert_names

    @property
    def numerator(self) -> sympy.Expr:
        """The gate times the expert, f left out."""
        return self.weight() * self.expert

    @property
    def expression(self) -> sympy.Expr:
        """u: with the normaliser's part for a softmax gate."""
        if self.kind == "sigmoid":
            return self.numerator
        return self.weight() * (self.expert - real("f"))

    def weight(self) -> sympy.Expr:
        """The gate: e^score, or a sigmoid that is WEIGHT where the score is 0."""
        if self.kind == "softmax":
            return sympy.exp(self.score)
        return 1 / (1 + (1 / rational(WEIGHT) - 1) * sympy.exp(-self.score))

    def inputs(self, expression: sympy.Expr) -> tuple[sympy.Symbol, ...]:
        """Coordinates that an expression has, in a fixed order."""
        return tuple(real(c) for c in COORDINATES if real(c) in expression.free_symbols)

    def values(self) -> dict[sympy.Symbol, sympy.Rational]:
        """Declared values by symbol."""
        return {real(name): self.at[name] for name in self.names}

    def family(self, order: int = 2, numerator: bool = False) -> Family:
        """Return the derivatives of u up to an order; of the numerator alone if asked."""
        u = self.numerator if numerator else self.expression
        definitions = {"u1": Definition(u, self.values())}
        listed = [single("u1", by) for by in of_order(order, list(self.names))]
        name = f"derivatives of {u} up to order {order}"
        return Family(name, self.inputs(u), definitions, by_order(listed))


def atom(gate, expert, dim: int | None = None, at: dict | None = None) -> Atom:
    """Return the atom of a gate and an expert.

    Parameters
    ----------
    gate : str, sympy.Expr or Gate
        A name of ``GATES``, or a score in x1, x2, x3: every other name is a parameter.
    expert : str, sympy.Expr or Expert
        A name of ``EXPERTS``, or a formula.
    dim : int, optional
        Number of inputs of named gates and experts, 1 to 3; by default the gate's.
    at : dict, optional
        Values of parameters, where they should differ from the declared ones.

    Raises
    ------
    ValueError
        For text that is refused, a kink, an atom without parameters, or an unknown parameter.

    Examples
    --------
    >>> atom("beta*x1**3", "tanh(a*x1)").expression
    (-f + tanh(a*x1))*exp(beta*x1**3)
    """
    g = _known(gate, GATES, Gate, "gate")
    e = _known(expert, EXPERTS, Expert, "expert")
    d = g.dim if dim is None else dim
    if isinstance(d, bool) or not isinstance(d, int) or not 1 <= d <= 3:
        raise ValueError(f"dim: expected an integer from 1 to 3, got {d!r}")
    if dim is not None and "x2" in str(g.score) and dim < 2:
        raise ValueError(f"dim: the gate {g.name!r} needs two inputs, got {dim}")
    score, gate_names = _formula(g.score, d, "gate", "beta")
    function, expert_names = _formula(e.formula, d, "expert", "a")
    both = sorted(set(gate_names) & set(expert_names))
    if both:
        raise ValueError(f"expert: the parameter {both[0]!r} belongs to the gate already")
    if not gate_names or not expert_names:
        field_name = "expert" if gate_names else "gate"
        raise ValueError(f"{field_name}: expected at least one parameter, got none")
    values = _values(gate_names, expert_names, g, e, at or {})
    notes = tuple(n for n in (g.note, e.note) if n)
    return Atom(g.name, e.name, g.kind, score, function, gate_names, expert_names, values,
                tuple(n for n in g.shared if n in gate_names), notes)  # fmt: skip


def _known(value, table: dict, kind: type, field_name: str):
    if isinstance(value, kind):
        return value
    if isinstance(value, str) and value in table:
        return table[value]
    if isinstance(value, str | sympy.Expr):
        text = str(value)
        if re.fullmatch(r"[A-Za-z][A-Za-z ,-]*", text) and not text.startswith(("x1", "x2")):
            close = [n for n in table if text.lower() in n.lower()]
            hint = f"; did you mean {close[0]!r}?" if close else ""
            if " " in text or close or "-" in text:
                names = sorted(table)
                raise ValueError(f"{field_name}: expected one of {names}, got {text!r}{hint}")
        return kind(text, text)
    raise ValueError(
        f"{field_name}: expected a name, a formula or a {kind.__name__}, got {value!r}"
    )


def _values(gate_names, expert_names, g: Gate, e: Expert, at: dict) -> dict:
    unknown = sorted(set(at) - {*gate_names, *expert_names})
    if unknown:
        raise ValueError(
            f"at: {unknown[0]!r} is no parameter; these are {[*gate_names, *expert_names]}"
        )
    names = [*gate_names, *expert_names]
    if len(names) > len(_GENERIC):
        raise ValueError(
            f"gate, expert: expected at most {len(_GENERIC)} parameters, got {len(names)}"
        )
    generic = dict(zip(names, _GENERIC, strict=False))
    if g.kind == "sigmoid":
        generic |= dict.fromkeys(gate_names, 0)
    return {n: rational({**generic, **g.at, **e.at, **at}[n]) for n in names}


def _formula(text: str, d: int, field_name: str, letter: str) -> tuple[sympy.Expr, tuple[str, ...]]:
    """Expand the abbreviations and read; the parameters are all names that are not coordinates."""
    x = [f"x{p + 1}" for p in range(d)]
    vector = [letter] if d == 1 else [f"{letter}{p + 1}" for p in range(d)]
    pairs = [(p, q) for p in range(d) for q in range(p, d)]
    entry = {pair: "A" if d == 1 else f"A{pair[0] + 1}{pair[1] + 1}" for pair in pairs}
    product = " + ".join(f"{n}*{t}" for n, t in zip(vector, x, strict=True))
    words = {
        "LIN": f"({product})",
        "TANH": "(" + " + ".join(f"{n}*tanh({t})" for n, t in zip(vector, x, strict=True)) + ")",
        "NORM": "(" + " + ".join(f"{n}**2" for n in vector) + ")",
        "QUAD": "(" + " + ".join(
            f"{'' if p == q else '2*'}{entry[p, q]}*{x[p]}*{x[q]}" for p, q in pairs) + ")",
        "CLASSES": _classes(x),
    }  # fmt: skip
    for word, meaning in words.items():
        text = re.sub(rf"\b{word}\b", meaning, text)
    names = _names(text, field_name)
    expression = parse(text, names)
    if expression.has(*KINKS):
        raise RefusedError(f"{field_name}: {expression} has a kink, and the list needs derivatives")
    parameters = tuple(n for n in names if n not in COORDINATES)
    return expression, tuple(n for n in parameters if real(n) in expression.free_symbols)


def _classes(x: list[str]) -> str:
    scores = []
    for s in (1, 2):
        slopes = [f"c{s}"] if len(x) == 1 else [f"c{s}{p + 1}" for p in range(len(x))]
        scores.append(" + ".join([*(f"{n}*{t}" for n, t in zip(slopes, x, strict=True)), f"l{s}"]))
    one, two = scores
    return f"(t1*exp({one}) + t2*exp({two}) + t3) / (exp({one}) + exp({two}) + 1)"


def _names(text: str, field_name: str) -> list[str]:
    """Names in the order of appearance, without functions and constants."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{field_name}: {text!r} cannot be read") from None
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    found = sorted(
        (n for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in called),
        key=lambda n: (n.lineno, n.col_offset),
    )
    reserved = {*FUNCTIONS, *CONSTANTS}
    return list(dict.fromkeys(n.id for n in found if n.id not in reserved))
