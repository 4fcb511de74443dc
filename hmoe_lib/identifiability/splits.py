r"""Splits of one atom into two that the model cannot see, or sees late, as proofs in delta.

Candidates come from the relations: a pure second derivative along v that equals a combination e of
first ones says that theta + delta v - delta^2 e and theta - delta v - delta^2 e, half the weight
each, agree with theta up to delta^2 at least. The series is then computed; if nothing of it is
found, the identity is proved for every delta.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import sympy

from hmoe_lib.identifiability.atoms import WEIGHT, Atom
from hmoe_lib.identifiability.families import Family, rational
from hmoe_lib.identifiability.identities import DELTA
from hmoe_lib.identifiability.kernels import is_zero
from hmoe_lib.identifiability.parsing import real
from hmoe_lib.identifiability.relations import Relation

__all__ = ["Split", "find_splits"]

HIGHEST = 6
INFINITE = float("inf")


@dataclass(frozen=True)
class Split:
    """A way to move or split an atom, and how late the model sees it.

    Attributes
    ----------
    mechanism : {"scale", "shift", "heat"}
    side : {"gate", "expert", "both"}
        Whose parameters move.
    text : str
        The move in words and symbols.
    order : float
        The change of the model is delta^order times ``leading``; infinity for an identity.
    change : str
        The change as text, at the declared values: 0 for every delta if the order is infinite.
    leading : str
        Coefficient of delta^order; "0" for an identity.
    """

    mechanism: str
    side: str
    text: str
    order: float
    change: str
    leading: str = "0"

    def to_dict(self) -> dict:
        """Return plain data for JSON; an infinite order is the text "inf"."""
        order = "inf" if self.order == INFINITE else int(self.order)
        return {**self.__dict__, "order": order}


def find_splits(atom: Atom, family: Family, relations: Sequence[Relation]) -> tuple[Split, ...]:
    """Return the splits that relations of this atom suggest, each with its proof.

    Parameters
    ----------
    atom : Atom
    family : Family
        ``atom.family()``.
    relations : sequence of Relation
        Proved relations of that family.
    """
    found = [*_moves(atom, relations, family), *_mirror(atom)]
    found += [s for r in relations if (s := _from_relation(atom, family, r)) is not None]
    if not any(s.side == "expert" and s.order == INFINITE for s in found):
        found += _rays(atom)
    return tuple(found)


# ---- one atom moves ------------------------------------------------------------------------------


def _moves(atom: Atom, relations, family: Family) -> list[Split]:
    """Gate parameters multiplied by powers of 1 + delta, nothing else."""
    if not any(_is_gate_flat(atom, family, r) for r in relations):
        return []
    score = atom.score
    for powers in itertools.product((1, 0, -1), repeat=len(atom.gate_names)):
        if not any(powers) or next(p for p in powers if p) < 0:
            continue
        scaled = {real(n): real(n) * (1 + DELTA) ** p
                  for n, p in zip(atom.gate_names, powers, strict=True)}  # fmt: skip
        gap = (score.xreplace(scaled) - score).xreplace(atom.values())
        if is_zero(_positive(gap)):
            parts = [f"{n} (1 + delta)" if p > 0 else f"{n} / (1 + delta)"
                     for n, p in zip(atom.gate_names, powers, strict=True) if p]  # fmt: skip
            who = "every atom" if set(atom.shared) & set(atom.gate_names) else "one atom"
            text = f"{who}, " + " and ".join(parts)
            return [Split("scale", "gate", text, INFINITE, str(_positive(gap)))]
    return []


def _positive(e: sympy.Expr) -> sympy.Expr:
    """sqrt of a square with the factor 1 + delta > 0 taken out."""
    roots = {p: sympy.sqrt(sympy.factor(p.base)) for p in e.atoms(sympy.Pow)
             if p.exp == sympy.Rational(1, 2) and p.has(DELTA)}  # fmt: skip
    plain = e.xreplace(roots)
    return plain.replace(sympy.Abs, lambda t: t) if plain.has(sympy.Abs) else plain


def _is_gate_flat(atom: Atom, family: Family, relation: Relation) -> bool:
    terms = [family.listed[i].by for i in relation.coefficients]
    return all(len(by) == 1 and by[0] in atom.gate_names for by in terms)


def _mirror(atom: Atom) -> list[Split]:
    """sigma(z) + sigma(-z) = 1: scores z and -z, expert times the weight, if the class has it."""
    if atom.kind != "sigmoid":
        return []
    p, z, h = rational(WEIGHT), real("z"), atom.expert
    gates = 1 / (1 + sympy.exp(-z)) + 1 / (1 + sympy.exp(z))
    for degree in (1, 2):
        factor = sympy.root(p, degree)
        if not factor.is_Rational:
            continue
        shrunk = h.xreplace({real(n): factor * real(n) for n in atom.expert_names})
        change = (gates * shrunk - p * h).xreplace(atom.values())
        if is_zero(change):
            names = ", ".join(atom.expert_names)
            text = f"two atoms with scores z and -z, any z, and ({names}) times {factor}"
            return [Split("scale", "both", text, INFINITE, str(change))]
    return []


# ---- two atoms -----------------------------------------------------------------------------------


def _from_relation(atom: Atom, family: Family, relation: Relation) -> Split | None:
    """theta + delta v - delta^2 e and theta - delta v - delta^2 e from v^T H v = first order."""
    if not all(c.is_Rational for c in relation.coefficients.values()):
        return None
    second, first, weight = {}, {}, sympy.Integer(0)
    for i, c in relation.coefficients.items():
        by = family.listed[i].by
        if len(by) == 2:
            second[by] = c
        elif len(by) == 1:
            first[by[0]] = c
        else:
            weight = c
    found = _square(second)
    if found is None or (set(found[1]) | set(first)) & set(atom.shared):
        return None
    size, v = found
    steps = {n: c / (2 * size) for n, c in first.items()}
    share = 1 + DELTA**2 * weight / (2 * size)
    ends = [
        {real(n): real(n) + sign * DELTA * v.get(n, 0) + DELTA**2 * steps.get(n, 0)
         for n in (*v, *steps)}
        for sign in (1, -1)
    ]  # fmt: skip
    moved = [f"{n} +- {'' if abs(c) == 1 else f'{abs(c)} '}delta" for n, c in v.items()]
    moved += [f"{n} {_signed(c)} delta^2" for n, c in steps.items()]
    mechanism = "heat" if first else "scale" if set(v) <= _lengths(atom) else "shift"
    side = _side(atom, [*v, *first])
    return _pair(atom, ends, (share / 2, share / 2), mechanism, side, ", ".join(moved))


def _square(second: dict) -> tuple[sympy.Rational, dict[str, sympy.Rational]] | None:
    """Write the second derivatives as size times the square of one direction, if they are."""
    lead = next((by[0] for by in second if by[0] == by[1]), None)
    if lead is None:
        return None
    size = second[lead, lead]
    v = {lead: sympy.Integer(1)}
    for p, q in second:
        if lead in (p, q) and p != q:
            v[q if p == lead else p] = second[p, q] / (2 * size)
    whole = {}
    for p, q in itertools.combinations_with_replacement(v, 2):
        whole[frozenset((p, q))] = size * v[p] * v[q] * (1 if p == q else 2)
    given = {frozenset(by): c for by, c in second.items()}
    return (size, v) if whole == given else None


def _signed(c: sympy.Rational) -> str:
    size = "" if abs(c) == 1 else f"{abs(c)} "
    return f"{'-' if c < 0 else '+'} {size}".rstrip()


def _lengths(atom: Atom) -> set[str]:
    """Parameters that multiply the whole expert."""
    h = atom.expert
    return {n for n in atom.expert_names if is_zero(real(n) * h.diff(real(n)) - h)
            and h.free_symbols & {real("k")}}  # fmt: skip


def _side(atom: Atom, names) -> str:
    gate = all(n in atom.gate_names for n in names)
    expert = all(n in atom.expert_names for n in names)
    return "gate" if gate else "expert" if expert else "both"


def _rays(atom: Atom) -> list[Split]:
    """All parameters of the expert times 1 + delta and 1 - delta: homogeneous experts."""
    symbols = [real(n) for n in atom.expert_names]
    for degree in (1, 2, 3):
        up, down = (1 + DELTA) ** degree, (1 - DELTA) ** degree
        ends = [{q: q * (1 + DELTA) for q in symbols}, {q: q * (1 - DELTA) for q in symbols}]
        shares = ((1 - down) / (up - down), (up - 1) / (up - down))
        names = ", ".join(atom.expert_names)
        text = f"({names}) times 1 +- delta, weights that keep degree {degree}"
        change = _change(atom, ends, shares)
        if is_zero(change):
            return [Split("scale", "expert", text, INFINITE, str(change))]
    return []


def _change(atom: Atom, ends, shares) -> sympy.Expr:
    u = atom.expression
    parts = [w * u.xreplace(end) for w, end in zip(shares, ends, strict=True)]
    return (sympy.Add(*parts) - u).xreplace(atom.values())


def _pair(atom: Atom, ends, shares, mechanism: str, side: str, text: str) -> Split | None:
    change = _change(atom, ends, shares)
    if is_zero(change):
        return Split(mechanism, side, text, INFINITE, str(change))
    term = change
    for order in range(HIGHEST + 1):
        at_zero = term.subs(DELTA, 0)
        if not is_zero(at_zero):
            if order <= 2:
                return None
            leading = sympy.factor(at_zero / sympy.factorial(order))
            return Split(mechanism, side, text, float(order), str(change), str(leading))
        term = term.diff(DELTA)
    return None
