"""All relations of a family: proved ones and a certificate that there are no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hmoe_lib.identifiability.certificates import Certificate, certify
from hmoe_lib.identifiability.relations import Problem, Relation

__all__ = ["Solution", "complete"]


@dataclass(frozen=True)
class Solution:
    """Relations among the functions at ``places``, and the functions that remain.

    ``certificate`` proves the remaining functions independent, so that the relations are all; it
    is None when no minor could be enclosed away from zero.
    """

    places: tuple[int, ...]
    relations: tuple[Relation, ...]
    independent: tuple[int, ...]
    certificate: Certificate | None

    @property
    def rank(self) -> int:
        """Number of independent functions, as far as known."""
        return len(self.independent)

    @property
    def complete(self) -> bool:
        """Every relation proved, and certified to be all."""
        return self.certificate is not None and all(r.proved for r in self.relations)


def complete(problem: Problem, places: Sequence[int]) -> Solution:
    """Find the relations among the functions at these places, in exact arithmetic if it suffices.

    The exact search can miss a relation when kernels hide one (a root, or two constants); then no
    minor is nonzero, and the null space in high precision takes over.
    """
    relations, kept = problem.exact(places)
    certificate = certify(problem, kept) if kept else None
    if kept and certificate is None:
        more, kept = problem.numerical(kept)
        relations = [*relations, *more]
        certificate = certify(problem, kept) if kept else None
    return Solution(tuple(places), tuple(relations), tuple(kept), certificate)
