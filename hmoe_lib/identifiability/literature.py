"""Who states what about a gate and an expert, and what removes the harm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hmoe_lib.identifiability.splits import Split

__all__ = ["STATED", "repair", "source"]

# Cells whose relation, or whose freedom from one, a companion paper states; keys of
# book/references.bib. Everything else in the atlas is ours.
STATED = {
    ("linear softmax", "Gaussian density"): "nguyen2024topk",
    ("top-K", "Gaussian density"): "nguyen2024topk",
    ("temperature", "Gaussian density"): "nguyen2024temperature",
    ("activated temperature", "Gaussian density"): "nguyen2024temperature",
    ("linear softmax", "multinomial"): "nguyen2024multinomial",
    ("transformed input", "multinomial"): "nguyen2024multinomial",
    ("cosine", "linear"): "nguyen2025cosine",
    ("cosine", "affine"): "nguyen2025cosine",
    ("cosine", "tanh neuron"): "nguyen2025cosine",
    ("cosine", "GELU neuron"): "nguyen2025cosine",
    ("perturbed cosine", "linear"): "nguyen2025cosine",
    ("perturbed cosine", "affine"): "nguyen2025cosine",
    ("perturbed cosine", "tanh neuron"): "nguyen2025cosine",
    ("perturbed cosine", "GELU neuron"): "nguyen2025cosine",
    ("polynomial quadratic", "affine"): "akbarian2024quadratic",
    ("monomial quadratic", "affine"): "akbarian2024quadratic",
    ("sigmoid, linear score", "affine"): "nguyen2024sigmoid",
    ("sigmoid, linear score", "polynomial"): "nguyen2024sigmoid",
    ("sigmoid, quadratic score", "affine"): "yan2025sigmoid",
    ("sigmoid, quadratic score", "polynomial"): "yan2025sigmoid",
    ("sigmoid, quadratic score", "GELU neuron"): "yan2025sigmoid",
}
_GATES = {
    "cosine": "perturb the norms: the perturbed cosine gate",
    "temperature": "an activation on the score, or a known temperature",
    "polynomial quadratic": "drop the linear term: the monomial gate",
}
_GENERAL = {
    ("scale", "gate"): "fix a norm of the gate's parameters",
    ("heat", "gate"): "drop the parameter whose square meets a first derivative",
    ("heat", "expert"): "drop the parameter whose square meets a first derivative",
    ("shift", "expert"): "a nonlinear neuron instead of a linear expert",
    ("scale", "expert"): "fix the length, or a neuron without a free amplitude",
    ("scale", "both"): "a neuron without a free amplitude",
}


def source(gate: str, expert: str) -> str | None:
    """Return the key of the reference that states a cell, None where it is ours."""
    return STATED.get((gate, expert))


def repair(gate: str, splits: Sequence[Split]) -> str:
    """Return what removes the harm of these splits, in words."""
    words = []
    for s in splits:
        known = _GATES.get(gate) if s.side == "gate" else None
        if s.mechanism == "heat" and "nu " in s.text:
            known = "a known or common variance"
        words.append(known or _GENERAL.get((s.mechanism, s.side), "change what the relation ties"))
    return "; ".join(dict.fromkeys(words)) or "none needed"
