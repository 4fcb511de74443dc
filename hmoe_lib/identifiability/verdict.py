"""The verdict: does a condition of strong identifiability hold, with proofs and certificates."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import NamedTuple

import sympy

from hmoe_lib.activations import Activation
from hmoe_lib.identifiability import conditions
from hmoe_lib.identifiability.admission import admit
from hmoe_lib.identifiability.certificates import Certificate
from hmoe_lib.identifiability.families import Family
from hmoe_lib.identifiability.odes import OdeTest, ode_test
from hmoe_lib.identifiability.parsing import parse_activation
from hmoe_lib.identifiability.relations import Problem, Relation
from hmoe_lib.identifiability.report import as_dict, as_text
from hmoe_lib.identifiability.solve import Solution, complete
from hmoe_lib.identifiability.structural import Harmless, harmless
from hmoe_lib.identifiability.truths import (
    generic_atoms,
    generic_truth,
    read_atoms,
    read_truth,
)

__all__ = ["CONDITIONS", "SETTINGS", "Examination", "Verdict", "examine", "verdict"]

CONDITIONS = ("listed", "sharp", "model")
SETTINGS = ("I", "II")
LARGEST_FAMILY = 400


@dataclass(frozen=True)
class Verdict:
    """What was found, and how it is known.

    Attributes
    ----------
    strongly_identifiable : bool or None
        True: no relation beyond harmless coincidences, certified. False: proved relations.
        None: undecided, a relation was found but not proved, or no certificate was found.
    relations : tuple of Relation
        Relations that this activation (or these atoms) causes.
    structural : tuple of Relation
        Relations that hold for every activation.
    coincidences : Harmless
        Whether a split of atoms can use the structural ones.
    harmless : Harmless
        The same for all relations together.
    certificate : Certificate or None
        Independence of the functions that remain; with the relations it fixes the rank.
    """

    phi: str
    condition: str
    setting: str
    family: Family = field(repr=False)
    strongly_identifiable: bool | None
    relations: tuple[Relation, ...] = field(repr=False)
    structural: tuple[Relation, ...] = field(repr=False)
    coincidences: Harmless = field(repr=False)
    harmless: Harmless = field(repr=False)
    independent: tuple[int, ...] = field(repr=False)
    certificate: Certificate | None = field(repr=False)
    ode: OdeTest | None = field(repr=False, default=None)
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def listed(self) -> int:
        """Number of functions in the list."""
        return len(self.family)

    @property
    def distinct(self) -> int:
        """Number of functions once the coincidences are taken out."""
        return len(self.family) - len(self.structural)

    @property
    def rank(self) -> int:
        """Number of independent functions."""
        return len(self.independent)

    def __str__(self) -> str:
        return as_text(self)

    def to_dict(self) -> dict:
        """Return plain data for JSON, certificate included."""
        return as_dict(self)


def verdict(
    phi: str | Activation | sympy.Expr,
    dim: int = 2,
    condition: str = "listed",
    setting: str = "I",
    atoms=None,
) -> Verdict:
    """Decide a condition of strong identifiability for an activation.

    Parameters
    ----------
    phi : str, Activation or sympy.Expr
        Expression in z, a name of ``hmoe_lib.ACTIVATIONS``, an activation, or a sympy expression.
    dim : int, default 2
        d, the number of inputs.
    condition : {"listed", "sharp", "model"}
        The paper's list; the list without second derivatives in M (Setting II: the repaired
        list); the derivatives of the regression function itself.
    setting : {"I", "II"}
        Activation after the values, or after the output.
    atoms : optional
        A list of {"M": ..., "a": ...}, or a whole truth (omega, M, a): a dict or a measure. By
        default generic rational ones: two atoms, or for the model two heads of two experts and
        two channels. Numbers are exact: text such as "1/3", and a float as the
        decimal number it prints as.

    Returns
    -------
    Verdict

    Raises
    ------
    ValueError
        If the expression is refused (not allowed, constant, a kink, a pole) or an argument is
        wrong.

    Examples
    --------
    >>> v = verdict("sigmoid(z + 1)", dim=1)
    >>> v.strongly_identifiable, v.rank, v.listed
    (True, 12, 12)
    >>> print(verdict("exp(z)", dim=1).relations[0])
    [d/dM11 u1] - [d2/da1^2 u1] = 0
    """
    began = time.perf_counter()
    _check(condition, setting, dim)
    family, reach = place_of(dim, condition, setting, atoms)
    expression = parse_activation(phi)
    solution, structural, coincidences, both = _examine(family, admit(expression, reach))
    holds = _decide(solution, coincidences)
    test = ode_test(expression, condition) if setting == "I" and solution.relations else None
    return Verdict(
        phi=str(expression),
        condition=condition,
        setting=setting,
        family=family,
        strongly_identifiable=holds,
        relations=solution.relations,
        structural=structural,
        coincidences=coincidences,
        harmless=both,
        independent=solution.independent,
        certificate=solution.certificate,
        ode=test,
        notes=tuple(_notes(holds, solution, coincidences, both, atoms)),
        seconds=time.perf_counter() - began,
    )


class Examination(NamedTuple):
    """What :func:`examine` finds about a family.

    ``solution`` holds the relations, their proofs and the certificate; ``structural`` the
    coincidences that hold for every activation; ``coincidences`` says whether those can be used by
    a split of atoms, ``harmless`` the same of all relations together.
    """

    solution: Solution
    structural: tuple[Relation, ...]
    coincidences: Harmless
    harmless: Harmless


def examine(family: Family, phi: str | Activation | sympy.Expr | None = None) -> Examination:
    """Find everything about a family: relations, coincidences, whether they harm, a certificate.

    Parameters
    ----------
    family : Family
        From :func:`family` or :func:`custom`.
    phi : str, Activation or sympy.Expr, optional
        What to put in the place of ``phi``, if the family leaves it open.

    Examples
    --------
    >>> from hmoe_lib.identifiability.families import custom
    >>> u = "(a1*x1 + a2*x2) / (1 + exp(-c1*x1 - c2*x2))"
    >>> found = examine(custom(u, [{"a1": 1, "a2": 2, "c1": 1, "c2": -1}], order=1))
    >>> print(*found.solution.relations)
    [u1] - [d/da1 u1] - 2 * [d/da2 u1] = 0
    """
    return _examine(family, None if phi is None else admit(parse_activation(phi)))


def _examine(family: Family, phi: sympy.Expr | None) -> Examination:
    if len(family) > LARGEST_FAMILY:
        raise ValueError(f"atoms: {len(family)} functions, more than {LARGEST_FAMILY}")
    problem = Problem(family, phi)
    structural, kept = problem.coincidences()
    solution = complete(problem, kept)
    coincidences = harmless(family, structural)
    both = harmless(family, [*structural, *solution.relations])
    return Examination(solution, tuple(structural), coincidences, both)


def _check(condition: str, setting: str, dim: int) -> None:
    if condition not in CONDITIONS:
        raise ValueError(f"condition: expected one of {list(CONDITIONS)}, got {condition!r}")
    if setting not in SETTINGS:
        raise ValueError(f"setting: expected one of {list(SETTINGS)}, got {setting!r}")
    if isinstance(dim, bool) or not isinstance(dim, int) or not 1 <= dim <= 6:
        raise ValueError(f"dim: expected an integer from 1 to 6, got {dim!r}")


def place_of(dim: int, condition: str, setting: str, atoms) -> tuple[Family, float]:
    """The functions, and how far the arguments of phi reach on the cube."""
    if condition == "model" or setting == "II":
        sizes = (2, 2, 2) if condition == "model" else (1, 2, 1)
        truth = generic_truth(dim, *sizes) if atoms is None else read_truth(atoms, dim)
        place, vectors = truth, [a for _, a in truth.atoms()]
    else:
        place = generic_atoms(dim) if atoms is None else read_atoms(atoms, dim)
        vectors = [a for _, a in place]
    reach = max(4.0, *(float(sum(abs(c) for c in a)) for a in vectors))
    return conditions.family(condition, setting, place), reach


def _decide(solution: Solution, coincidences: Harmless) -> bool | None:
    if coincidences.holds is False or any(r.proved for r in solution.relations):
        return False
    if solution.relations or solution.certificate is None or coincidences.holds is None:
        return None
    return True


def _notes(holds, solution: Solution, coincidences, both, atoms) -> list[str]:
    notes = []
    if coincidences.holds is False:
        notes.append("fails for every activation: " + coincidences.reason)
    if holds and atoms is None:
        notes.append(
            "certified at generic atoms; for an activation that is analytic on the whole line the "
            "minor is analytic in the parameters, so the condition holds for almost all of them"
        )
    if holds is False and solution.relations and both.holds:
        notes.append("no split of atoms can use the relations: " + both.reason)
    if any(not r.proved for r in solution.relations):
        notes.append("a relation was found numerically and not proved: it decides nothing")
    return notes
