r"""The atlas as plain data, as a table, and in small for a page that lets a reader choose.

Two formats. The *full* one, :func:`atlas_to_dict`, holds everything that :func:`recheck_cell`
needs: definitions, relations by terms, certificates, splits. The *small* one,
:func:`atlas_for_page`, is what an interactive figure loads:

.. code-block:: text

    {"gates": [name, ...], "experts": [name, ...],
     "cells": {gate: {expert: {
         "word": "harmless" | "slow" | "not identifiable" | "undecided",
         "order": 2 | 4 | "inf" | null,
         "exact": true | false | null,          the exact fit: first derivatives independent?
         "mechanisms": ["scale" | "shift" | "heat", ...],
         "u": text of the atom,
         "relations": [{"tex": "u_{A} = u_{\\beta\\beta}", "html": "...", "harm": true}, ...],
         "splits": [{"mechanism": ..., "order": 4 | "inf", "text": ...}, ...],
         "source": key of a reference | "ours",
         "repair": text, "notes": [text, ...], "rank": n, "functions": n}}}}

``harm`` is true for a relation with a pure second derivative, or with no second derivative at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hmoe_lib.identifiability.atlas import AtomVerdict
from hmoe_lib.identifiability.splits import INFINITE

__all__ = ["atlas_for_page", "atlas_table", "atlas_to_dict", "cell_to_dict"]

FORMAT = "hmoe atlas 1"
_GREEK = {"beta": ("\N{GREEK SMALL LETTER BETA}", r"\beta"),
          "tau": ("\N{GREEK SMALL LETTER TAU}", r"\tau"),
          "nu": ("\N{GREEK SMALL LETTER NU}", r"\nu")}  # fmt: skip
_SUBSCRIPTS = str.maketrans("0123456789", "".join(chr(0x2080 + k) for k in range(10)))


def atlas_to_dict(cells: Sequence[AtomVerdict], contacts: dict | None = None) -> dict:
    """Return the full format: a list of cells.

    Parameters
    ----------
    cells : sequence of AtomVerdict
    contacts : dict, optional
        (gate, expert) to measured orders of contact by coordinate, from :func:`cell_contacts`.
    """
    contacts = contacts or {}
    found = [cell_to_dict(v, contacts.get((v.gate, v.expert))) for v in cells]
    return {"format": FORMAT, "cells": found}


def cell_to_dict(v: AtomVerdict, contact: dict | None = None) -> dict:
    """Return one cell of the full format."""
    certificates = (v.certificate, v.exact_certificate)
    first, second = (None if c is None else dict(c.__dict__) for c in certificates)
    definition = v.family.definitions["u1"]
    return {
        "gate": v.gate,
        "expert": v.expert,
        "word": v.word,
        "order": _order(v.order),
        "exact": v.exact,
        "mechanisms": list(v.mechanisms),
        "inputs": [s.name for s in v.family.inputs],
        "definitions": {"u1": {"text": str(definition.expression),
                               "at": {s.name: str(c) for s, c in definition.at.items()}}},
        "functions": [[["u1", list(f.by)]] for f in v.family.listed],
        "independent": list(v.independent),
        "relations": [_relation(v, r) for r in v.relations],
        "numerator": [_relation(v, r) for r in v.numerator],
        "harmless": v.harmless.to_dict(),
        "splits": [s.to_dict() for s in v.splits],
        "source": v.literature or "ours",
        "repair": v.repair,
        "notes": list(v.notes),
        "contact": contact,
        "certificate": first,
        "exact_certificate": second,
    }  # fmt: skip


def atlas_for_page(data: dict) -> dict:
    """Return the small format from the full one."""
    cells: dict = {}
    for c in data["cells"]:
        cells.setdefault(c["gate"], {})[c["expert"]] = {
            **{k: c[k] for k in ("word", "order", "exact", "mechanisms", "source", "repair",
                                 "notes")},
            "u": c["definitions"]["u1"]["text"],
            "relations": [{k: r[k] for k in ("tex", "html", "harm")} for r in c["relations"]],
            "splits": [{k: s[k] for k in ("mechanism", "order", "text")} for s in c["splits"]],
            "rank": len(c["independent"]),
            "functions": len(c["functions"]),
        }  # fmt: skip
    experts = list(dict.fromkeys(c["expert"] for c in data["cells"]))
    return {"gates": list(cells), "experts": experts, "cells": cells}


def atlas_table(data: dict) -> str:
    """Return the full format as a text table: order of contact and mechanisms, gates by experts.

    Examples
    --------
    >>> from hmoe_lib.identifiability.atlas import atlas
    >>> two = atlas(["polynomial quadratic"], ["linear", "GELU neuron"])
    >>> print(atlas_table(atlas_to_dict(two)))
    gate                  linear          GELU neuron
    polynomial quadratic  inf heat shift  4 heat
    """
    page = atlas_for_page(data)
    rows = [["gate", *page["experts"]]]
    for gate in page["gates"]:
        cells = [page["cells"][gate].get(e) for e in page["experts"]]
        rows.append([gate, *("" if c is None else _short(c) for c in cells)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _short(cell: dict) -> str:
    order = "?" if cell["order"] is None else str(cell["order"])
    return " ".join(
        [order, *cell["mechanisms"], *([] if cell["exact"] is not False else ["exact"])]
    )


def _order(order: float | None):
    return None if order is None else "inf" if order == INFINITE else int(order)


def _relation(v: AtomVerdict, r) -> dict:
    terms = [[str(c), list(v.family.listed[i].by)] for i, c in r.coefficients.items()]
    orders = [len(by) for _, by in terms]
    pure = any(len(by) == 2 and by[0] == by[1] for _, by in terms)
    return {
        "text": str(r),
        "tex": _written(terms, 1),
        "html": _written(terms, 0),
        "terms": terms,
        "proved": r.proved,
        "harm": pure or max(orders) < 2,
    }


def _written(terms, kind: int) -> str:
    """Positive terms on the left, negative ones on the right; HTML or TeX."""
    sides: tuple[list, list] = ([], [])
    for text, by in terms:
        size = text.removeprefix("-")
        factor = "" if size == "1" else size + ("\N{THIN SPACE}" if kind == 0 else r"\,")
        sides[text.startswith("-")].append(factor + _derivative(by, kind))
    return " = ".join(" + ".join(side) or "0" for side in sides)


def _derivative(by, kind: int) -> str:
    if not by:
        return ("u", "u")[kind]
    names = [_letter(n, kind) for n in by]
    return f"u_{{{' '.join(names)}}}" if kind else f"u<sub>{''.join(names)}</sub>"


def _letter(name: str, kind: int) -> str:
    stem, digits = re.fullmatch(r"(.*?)(\d*)", name).groups()
    letter = _GREEK.get(stem, (stem, stem))[kind]
    if not digits:
        return letter
    return f"{letter}_{{{digits}}}" if kind else letter + digits.translate(_SUBSCRIPTS)
