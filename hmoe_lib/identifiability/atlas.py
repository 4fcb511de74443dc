r"""The atlas: every gate by every expert, a verdict a cell, proofs and certificates included."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import sympy

from hmoe_lib.identifiability.atoms import EXPERTS, GATES, Atom, atom
from hmoe_lib.identifiability.certificates import Certificate
from hmoe_lib.identifiability.families import (
    Definition,
    Family,
    Listed,
    by_order,
    of_order,
    rational,
    single,
)
from hmoe_lib.identifiability.literature import repair, source
from hmoe_lib.identifiability.parsing import real
from hmoe_lib.identifiability.relations import Problem, Relation
from hmoe_lib.identifiability.solve import complete
from hmoe_lib.identifiability.splits import INFINITE, Split, find_splits
from hmoe_lib.identifiability.structural import Harmless, harmless

__all__ = ["AtomVerdict", "atlas", "atom_verdict", "mixture_family"]

BIAS = "beta0"
# Values of the second atom of a mixture, in the order of its parameters.
OTHER = ("-4/5", "13/10", "-7/10", "2/5", "9/10", "-1/2", "3/5", "-11/10")


@dataclass(frozen=True)
class AtomVerdict:
    r"""One cell of the atlas.

    Attributes
    ----------
    gate, expert : str
    atom : Atom
    relations : tuple of Relation
        All relations among u and its first and second derivatives, each proved.
    numerator : tuple of Relation
        More relations, which only the numerator obeys and the normaliser breaks.
    independent : tuple of str
        The functions that remain; ``certificate`` proves them independent.
    exact : bool or None
        The exact fit: True, the first derivatives are independent (for a sigmoid gate at a slope
        that is not 0); False, a first-order relation is proved.
    harmless : Harmless
        Whether a split can use the relations.
    splits : tuple of Split
        Moves that the model cannot see, or sees late, each proved.
    order : float or None
        Order of contact of a split in two: infinity, an identity; 2, a split uses no relation; 4,
        the latest of the proved splits, a lower bound of the order; None, undecided.
    literature : str or None
        Key of the reference that states the cell's relation or repair; None: ours.
    repair : str
        What removes the harm.
    """

    gate: str
    expert: str
    atom: Atom = field(repr=False)
    relations: tuple[Relation, ...] = field(repr=False)
    numerator: tuple[Relation, ...] = field(repr=False)
    family: Family = field(repr=False)
    independent: tuple[str, ...] = field(repr=False)
    certificate: Certificate | None = field(repr=False)
    exact: bool | None
    exact_certificate: Certificate | None = field(repr=False)
    harmless: Harmless = field(repr=False)
    splits: tuple[Split, ...] = field(repr=False)
    order: float | None
    literature: str | None
    repair: str
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Mechanisms of the proved splits, each once: "scale", "shift", "heat"."""
        return tuple(dict.fromkeys(s.mechanism for s in self.splits))

    @property
    def word(self) -> str:
        """The verdict in a word: "harmless", "slow", "not identifiable" or "undecided"."""
        if self.order is None:
            return "undecided"
        names = {2.0: "harmless", INFINITE: "not identifiable"}
        return names.get(self.order, "slow")

    def __str__(self) -> str:
        order = "?" if self.order is None else f"{self.order:g}"
        lines = [f"{self.gate} x {self.expert}: {self.word}, order of contact {order}"]
        if self.exact is not None:
            lines.append(f"exact fit: first derivatives {'in' if self.exact else ''}dependent")
        lines += [f"  {r}" for r in self.relations]
        lines += [f"  numerator only: {r}" for r in self.numerator]
        lines += [f"split ({s.mechanism}, order {s.order:g}): {s.text}" for s in self.splits]
        if self.order == 2:
            lines.append(f"why 2: {self.harmless.reason}")
        if self.certificate is not None:
            lines.append(f"certificate: {self.certificate}")
        lines += [f"source: {self.literature or 'ours'}", f"repair: {self.repair}"]
        return "\n".join([*lines, *(f"note: {n}" for n in self.notes)])


def atom_verdict(gate, expert, dim: int | None = None, at: dict | None = None) -> AtomVerdict:
    r"""Decide what a gate and an expert can hide together.

    Parameters
    ----------
    gate : str, sympy.Expr or Gate
        A name of ``GATES``, or a score of your own in x1, x2, x3; other names are parameters.
    expert : str, sympy.Expr or Expert
        A name of ``EXPERTS``, or a formula of your own.
    dim : int, optional
        Number of inputs for named gates and experts; by default 1, and 2 for cosine gates.
    at : dict, optional
        Values of parameters, where they should differ from the declared ones.

    Returns
    -------
    AtomVerdict

    Raises
    ------
    ValueError
        If a gate or an expert is refused.

    Notes
    -----
    The functions are u and its derivatives up to order two in the parameters of gate and expert,
    :math:`u = e^{z}(h - f)` or :math:`\sigma(z) h`, see ``hmoe_lib.identifiability.atoms``.
    Relations are proved, the rest is certified independent at declared values; since everything is
    analytic in the parameters, it is then independent for almost all values, and in every region.
    For a sigmoid gate the split atom has slope 0, where copies with other biases can stand for
    one; what multiplies a mixed derivative of gate and expert is then free.

    Examples
    --------
    >>> v = atom_verdict("polynomial quadratic", "tanh neuron")
    >>> v.word, v.order, v.mechanisms
    ('slow', 4.0, ('heat',))
    >>> print(v.relations[0])
    [d/dA u1] - [d2/dbeta^2 u1] = 0
    >>> atom_verdict("beta*x1**3", "tanh(a*x1 + b)").word
    'harmless'
    """
    began = time.process_time()
    a = atom(gate, expert, dim, at)
    family = a.family()
    problem = Problem(family, None)
    solution = complete(problem, list(range(len(family))))
    proved = tuple(r for r in solution.relations if r.proved)
    splits = find_splits(a, family, proved)
    harm = _harm(a, family, solution.relations)
    exact, exact_certificate = _exact_fit(a, family, proved, solution)
    return AtomVerdict(
        gate=a.gate,
        expert=a.experts,
        atom=a,
        relations=solution.relations,
        numerator=_numerator_only(a, proved),
        family=family,
        independent=tuple(family.labels[i] for i in solution.independent),
        certificate=solution.certificate,
        exact=exact,
        exact_certificate=exact_certificate,
        harmless=harm,
        splits=splits,
        order=_order(solution, harm, splits),
        literature=None if at else source(a.gate, a.experts),
        repair=repair(a.gate, splits),
        notes=a.notes,
        seconds=time.process_time() - began,
    )


def atlas(gates: Sequence | None = None, experts: Sequence | None = None) -> list[AtomVerdict]:
    """Return the verdicts of all gates by all experts, gate by gate.

    Parameters
    ----------
    gates, experts : sequence, optional
        What :func:`atom_verdict` takes; by default everything in ``GATES`` and ``EXPERTS``.

    Examples
    --------
    >>> [v.word for v in atlas(["linear softmax"], ["linear", "GELU neuron"])]
    ['not identifiable', 'harmless']
    """
    gates = list(GATES) if gates is None else gates
    experts = list(EXPERTS) if experts is None else experts
    return [atom_verdict(g, e) for g in gates for e in experts]


def mixture_family(a: Atom) -> Family:
    """Return the derivatives of u in a mixture of two atoms: f is no coordinate any more.

    Parameters
    ----------
    a : Atom
        The atom that is split. The other one, at declared values, has its gate pinned and moves by
        its expert; under a sigmoid gate nothing is pinned.

    Notes
    -----
    If the relations are those of ``a.family()``, they owe nothing to f being free. Then order 2 is
    the order of contact near this truth, by the model condition and the witness.

    Examples
    --------
    >>> from hmoe_lib.identifiability.verdict import examine
    >>> found = examine(mixture_family(atom("linear softmax", "tanh neuron"))).solution
    >>> print(*found.relations, found.complete)
    [d/da u1] - [d2/dbeta db u1] = 0 True
    """
    here, there = a.values(), {real(n): rational(v) for n, v in zip(a.names, OTHER, strict=False)}
    there |= {real(n): here[real(n)] for n in a.shared}
    there |= {real(n): rational("3/2") for n in a.expert_names if n in {"nu", "r"}}
    second, moving = a.expression, [n for n in a.names if n in {*a.expert_names, *a.shared}]
    if a.kind == "softmax":
        (w, h), (v, k) = ((a.weight().xreplace(s), a.expert.xreplace(s)) for s in (here, there))
        second = a.expression.xreplace({real("f"): (w * h + v * k) / (w + v)})
        first = second
    else:
        score = a.score + real(BIAS)
        first, second = a.expression, a.expert / (1 + sympy.exp(-score))
        there[real(BIAS)] = rational("-3/10")
        moving = [*a.names, BIAS]
    definitions = {"u1": Definition(first, here), "u2": Definition(second, there)}
    listed = [single("u1", by) for by in of_order(2, list(a.names))]
    listed += [single("u2", (n,)) for n in moving]
    return Family(f"{a.gate} x {a.experts} in a mixture", a.inputs(first), definitions,
                  by_order(listed))  # fmt: skip


# ---- the parts of a verdict ----------------------------------------------------------------------


def _order(solution, harm: Harmless, splits) -> float | None:
    if splits:
        return max(s.order for s in splits)
    return 2.0 if solution.complete and harm.holds else None


def _exact_fit(a: Atom, family: Family, proved, solution) -> tuple[bool | None, Certificate | None]:
    """Are the first derivatives independent? With a sigmoid gate at a slope that is not 0."""
    if a.kind == "softmax":
        first = [r for r in proved if all(len(family.listed[i].by) <= 1 for i in r.coefficients)]
        known = bool(first) or solution.certificate is not None
        return (not first if known else None), None
    score = a.score + real(BIAS)
    u = 1 / (1 + sympy.exp(-score)) * a.expert
    values = {**a.at, **dict.fromkeys(a.gate_names, rational("7/10")), BIAS: rational("-3/10")}
    definition = Definition(u, {real(n): v for n, v in values.items()})
    listed = [single("u1", by) for by in of_order(1, [*values]) if by]
    sharp = Family(f"first derivatives of {u}", a.inputs(u), {"u1": definition}, by_order(listed))
    found = complete(Problem(sharp, None), list(range(len(sharp))))
    if any(r.proved for r in found.relations):
        return False, found.certificate
    return (True if found.certificate is not None else None), found.certificate


def _numerator_only(a: Atom, proved) -> tuple[Relation, ...]:
    """Relations of the numerator that are no combinations of those in f."""
    if a.kind != "softmax":
        return ()
    family = a.family(numerator=True)
    found, _ = Problem(family, None).exact(list(range(len(family))))
    rows = [_row(r, len(family)) for r in proved]
    more = []
    for r in found:
        row = _row(r, len(family))
        if sympy.Matrix([*rows, row]).rank() > len(rows):
            more.append(r)
            rows.append(row)
    return tuple(more)


def _row(relation: Relation, size: int) -> list:
    return [relation.coefficients.get(i, sympy.Integer(0)) for i in range(size)]


def _harm(a: Atom, family: Family, relations) -> Harmless:
    if a.kind == "softmax" or not relations:
        return harmless(family, relations)
    if not all(c.is_Rational for r in relations for c in r.coefficients.values()):
        return harmless(family, relations)
    plain = harmless(family, relations)
    if plain.holds is not True:
        return plain
    # Under a sigmoid gate a mixed term of gate and expert is free: see the docstring.
    loose, kept = _loosened(a, family), []
    for r in _reduced(relations, loose):
        if any(len(loose.listed[i].by) == 2 for i in r.coefficients):
            kept.append(r)
    return harmless(loose, kept)


def _loosened(a: Atom, family: Family) -> Family:
    """Mixed derivatives of gate and expert count as first ones; squares stay apart."""
    listed = []
    for f in family.listed:
        sides = {"gate" if p in a.gate_names else "expert" for p in f.by}
        if len(f.by) == 2 and len(sides) == 2:
            listed.append(Listed(f.label, f.factors, f.cell, f.by[:1]))
        elif len(f.by) == 2:
            listed.append(Listed(f.label, f.factors, f"{f.cell} {sides.pop()}", f.by))
        else:
            listed.append(f)
    return replace(family, listed=tuple(listed))


def _reduced(relations, family: Family) -> list[Relation]:
    """The same space of relations, second derivatives eliminated as far as possible."""
    order = sorted(range(len(family)), key=lambda i: -len(family.listed[i].by))
    matrix = sympy.Matrix([[r.coefficients.get(i, 0) for i in order] for r in relations])
    rows = matrix.rref()[0].tolist()
    sparse = [{order[j]: c for j, c in enumerate(row) if c != 0} for row in rows]
    return [replace(relations[0], coefficients=row) for row in sparse if row]
