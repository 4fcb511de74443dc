"""A verdict as text and as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hmoe_lib.identifiability.verdict import Verdict

__all__ = ["as_dict", "as_text"]

NAMES = {True: "yes", False: "no", None: "undecided"}


def as_text(v: Verdict, limit: int = 12) -> str:
    """Return the verdict in readable lines; at most ``limit`` relations of each kind."""
    lines = [
        f"phi(z) = {v.phi}",
        f"condition {v.condition}, Setting {v.setting}: {v.family.name}",
        f"strongly identifiable: {NAMES[v.strongly_identifiable]}",
        f"functions: {v.listed} listed, {v.distinct} distinct, {v.rank} independent",
    ]
    lines += [f"note: {note}" for note in v.notes]
    if v.ode is not None and v.ode.satisfied:
        lines.append(f"why: {v.ode}")
    lines += _relations("relations of this activation at these atoms", v.relations, limit)
    title = "coincidences, whatever the activation"
    if v.structural:
        state = {True: "harmless", False: "not harmless", None: "harm undecided"}
        title += f" ({state[v.coincidences.holds]}: {v.coincidences.reason})"
    lines += _relations(title, v.structural, limit)
    if v.certificate is not None:
        lines.append(f"certificate: {v.certificate}")
    else:
        lines.append("certificate: none")
    lines.append(f"time: {v.seconds:.1f} s")
    return "\n".join(lines)


def _relations(title: str, relations, limit: int) -> list[str]:
    if not relations:
        return []
    proved = sum(r.proved for r in relations)
    lines = [f"{title}: {len(relations)}, proved {proved}"]
    lines += [f"  {r}" for r in relations[:limit]]
    if len(relations) > limit:
        lines.append(f"  ... and {len(relations) - limit} more")
    return lines


def as_dict(v: Verdict) -> dict:
    """Return the verdict as plain data for JSON, certificate included."""
    return {
        "phi": v.phi,
        "condition": v.condition,
        "setting": v.setting,
        "family": v.family.name,
        "strongly_identifiable": v.strongly_identifiable,
        "listed": v.listed,
        "distinct": v.distinct,
        "rank": v.rank,
        "functions": v.family.labels,
        "independent": list(v.independent),
        "relations": [r.to_dict() for r in v.relations],
        "structural": [r.to_dict() for r in v.structural],
        "coincidences": v.coincidences.to_dict(),
        "harmless": v.harmless.to_dict(),
        "ode": None if v.ode is None else list(v.ode.equations),
        "notes": list(v.notes),
        "certificate": None if v.certificate is None else dict(v.certificate.__dict__),
        "seconds": v.seconds,
    }
