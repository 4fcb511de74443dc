"""An independent check of the atlas, from its stored form: own evaluation, own linear algebra.

Like :mod:`hmoe_lib.identifiability.recheck`, whose interval arithmetic it uses, this shares no code
with what made the atlas. A relation and an identity are evaluated over intervals at rational
points: that refutes a wrong one and does not prove a right one, whose proof was the engine's.
Ranks, certificates and witnesses are checked in full.
"""

from __future__ import annotations

import ast
from fractions import Fraction

from mpmath import iv

from hmoe_lib.identifiability.recheck import _Derivatives, _interval, recheck

__all__ = ["recheck_cell"]

BITS = 400
TINY = 2**-200
POINTS = 3
SIZES = (Fraction(1, 10**5), Fraction(1, 10**6))


def recheck_cell(cell: dict) -> list[str]:
    """Check a cell of the full format; return what is wrong with it, nothing if all is right.

    Examples
    --------
    >>> from hmoe_lib.identifiability.atlas import atom_verdict
    >>> from hmoe_lib.identifiability.export import cell_to_dict
    >>> cell = cell_to_dict(atom_verdict("linear softmax", "tanh neuron"))
    >>> recheck_cell(cell)
    []
    >>> cell["relations"][0]["terms"][0][0] = "2"
    >>> recheck_cell(cell)
    ['relation [d/da u1] - [d2/dbeta db u1] = 0 does not vanish']
    """
    before = iv.prec
    try:
        iv.prec = BITS
        return list(_faults(cell))
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        return [f"cannot be read: {type(error).__name__} {error}"]
    finally:
        iv.prec = before


def _faults(cell: dict):
    for name in ("certificate", "exact_certificate"):
        if cell[name] is not None and not recheck(cell[name]):
            yield f"{name} does not hold"
    if cell["certificate"]["definitions"] != cell["definitions"]:
        yield "certificate is about another atom"
    if len(cell["relations"]) + len(cell["certificate"]["functions"]) != len(cell["functions"]):
        yield "relations and certificate do not add up to the list"
    for r in cell["relations"]:
        if not _vanishes(cell, r["terms"]):
            yield f"relation {r['text']} does not vanish"
    for r in cell["numerator"]:
        # The numerator is what is left at f = 0.
        if not _vanishes(cell, r["terms"], at_zero=("f",)) or _vanishes(cell, r["terms"]):
            yield f"relation {r['text']} is not one of the numerator alone"
    if _rank([_row(cell, r) for r in cell["relations"]]) < len(cell["relations"]):
        yield "relations are dependent"
    for s in cell["splits"]:
        if not _split_holds(cell, s):
            yield f"split {s['text']} does not hold"
    yield from _order_faults(cell)


def _order_faults(cell: dict):
    orders = [s["order"] for s in cell["splits"]]
    order = "inf" if "inf" in orders else max(orders, default=2)
    if cell["order"] not in (None, order):
        yield f"order {cell['order']} does not follow from the splits"
    if cell["order"] == 2 and not _no_split(cell):
        yield "nothing shows that a split cannot use the relations"


# ---- values --------------------------------------------------------------------------------------


def _points(names, count: int):
    for i in range(count):
        yield {n: Fraction((7 * i + 5 * j) % 17 - 8, 9) + Fraction(1, 31)
               for j, n in enumerate(names)}  # fmt: skip


def _vanishes(cell: dict, terms, at_zero=()) -> bool:
    definition = cell["definitions"]["u1"]
    tree = ast.parse(definition["text"], mode="eval").body
    at = {n: _interval(v) for n, v in definition["at"].items()}
    for x in _points(cell["inputs"], POINTS):
        x |= dict.fromkeys(at_zero, Fraction(0))
        values = _Derivatives(tree, at | {n: _interval(str(v)) for n, v in x.items()})
        total, size = iv.mpf(0), iv.mpf(0)
        for c, by in terms:
            term = _number(c) * values.of(tuple(sorted(by)))
            total, size = total + term, size + abs(term)
        if not _is_zero(total, size):
            return False
    return True


def _number(text: str):
    return _Derivatives(ast.parse(text, mode="eval").body, {}).of(())


def _is_zero(total, size) -> bool:
    return bool(0 in total and abs(total) < iv.mpf(TINY) * (1 + size))


def _split_holds(cell: dict, split: dict) -> bool:
    change = ast.parse(split["change"], mode="eval").body
    leading = ast.parse(split["leading"], mode="eval").body
    seen = False
    names = [*dict.fromkeys([*cell["inputs"], "z"])]
    for x in _points(names, POINTS):
        at = {n: _interval(str(v)) for n, v in x.items()}
        if split["order"] == "inf":
            value = _Derivatives(change, at | {"delta": _interval("3/7")}).of(())
            if not _is_zero(value, iv.mpf(1)):
                return False
            continue
        limit = _Derivatives(leading, at).of(())
        for delta in SIZES:
            value = _Derivatives(change, at | {"delta": _interval(str(delta))}).of(())
            ratio = value / _interval(str(delta ** split["order"]))
            if not abs(ratio - limit) < iv.mpf(1e-3) * (1 + abs(limit)):
                return False
        seen = seen or bool(abs(limit) > 0)
    return split["order"] == "inf" or seen


# ---- linear algebra ------------------------------------------------------------------------------


def _row(cell: dict, relation: dict) -> list[Fraction]:
    places = {tuple(f[0][1]): j for j, f in enumerate(cell["functions"])}
    row = [Fraction(0)] * len(places)
    for c, by in relation["terms"]:
        row[places[tuple(by)]] += Fraction(c)
    return row


def _rank(rows: list[list[Fraction]]) -> int:
    rows, rank = [list(r) for r in rows], 0
    for j in range(len(rows[0]) if rows else 0):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][j] != 0), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        head = rows[rank]
        for i in range(rank + 1, len(rows)):
            c = rows[i][j] / head[j]
            rows[i] = [v - c * w for v, w in zip(rows[i], head, strict=True)]
        rank += 1
    return rank


def _no_split(cell: dict) -> bool:
    """A positive definite W is orthogonal to the second moments of all relations."""
    relations = [_row(cell, r) for r in cell["relations"]]
    by = [tuple(f[0][1]) for f in cell["functions"]]
    second = [[v for v, p in zip(row, by, strict=True) if len(p) == 2] for row in relations]
    if _rank(second) < len(relations):
        return False
    W = {}
    for block in cell["harmless"].get("witness", {}).values():
        names = block["parameters"]
        for i, p in enumerate(names):
            for j, q in enumerate(names):
                W[p, q] = Fraction(block["W"][i][j])
    names = sorted({p for pair in by for p in pair})
    matrix = [[W.get((p, q), Fraction(p == q and not W)) for q in names] for p in names]
    if not _positive(matrix):
        return False
    place = {n: i for i, n in enumerate(names)}
    return all(
        sum(v * matrix[place[p[0]]][place[p[1]]]
            for v, p in zip(row, by, strict=True) if len(p) == 2) == 0
        for row in relations
    )  # fmt: skip


def _positive(matrix: list[list[Fraction]]) -> bool:
    """Elimination without exchanges: all pivots positive, and symmetric."""
    rows = [list(r) for r in matrix]
    n = len(rows)
    if any(rows[i][j] != rows[j][i] for i in range(n) for j in range(i)):
        return False
    for j in range(n):
        if rows[j][j] <= 0:
            return False
        for i in range(j + 1, n):
            c = rows[i][j] / rows[j][j]
            rows[i] = [v - c * w for v, w in zip(rows[i], rows[j], strict=True)]
    return True
