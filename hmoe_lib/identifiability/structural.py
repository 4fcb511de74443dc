r"""When relations do no harm: no split of an atom can use them.

A relation among derivatives reads :math:`\tfrac12 S : \nabla^2 u + b^\top \nabla u = 0`, with
symmetric blocks S, one an atom. In the expansion of a fitted function, S is a second moment of the
fitted atoms around the true one, hence positive semidefinite. So a space of relations is harmless
if it holds no nonzero (S, b) with every block of S positive semidefinite. A positive definite W
with :math:`\langle W, S\rangle = 0` for all of its S proves that such an S is 0, and linear
algebra that then b = 0 too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import flint
import numpy as np

from hmoe_lib.identifiability.families import Family
from hmoe_lib.identifiability.relations import Relation

__all__ = ["Harmless", "check_witness", "harmless"]

STEPS = 4000


@dataclass(frozen=True)
class Harmless:
    """The outcome: ``holds`` is True (proved), False (a relation of first order) or None.

    ``witness`` maps each block to its parameters and the rational entries of W there.
    """

    holds: bool | None
    reason: str
    witness: dict | None = None

    def to_dict(self) -> dict:
        """Return plain data for JSON."""
        if self.witness is None:
            return {"holds": self.holds, "reason": self.reason}
        W = {
            cell: {"parameters": names, "W": [[str(v) for v in row] for row in block]}
            for cell, (names, block) in self.witness.items()
        }
        return {"holds": self.holds, "reason": self.reason, "witness": W}


def harmless(family: Family, relations: Sequence[Relation]) -> Harmless:
    """Decide whether a set of relations can be used by a split of atoms.

    Parameters
    ----------
    family : Family
        The functions, with the cell and the parameters of each.
    relations : sequence of Relation
        Relations with rational coefficients; other coefficients leave the question open.
    """
    if not relations:
        return Harmless(True, "there is none")
    if not all(c.is_Rational for r in relations for c in r.coefficients.values()):
        return Harmless(None, "coefficients that are not rational are not examined")
    blocks = _blocks(family)
    forms = _forms(family, relations, blocks)
    if flint.fmpq_mat(forms).rank() < len(relations):
        return Harmless(False, "one of their combinations has no second derivative in it")
    for relation, form in zip(relations, forms, strict=True):
        if _usable(form, blocks):
            return Harmless(False, f"a split of an atom can use {relation}")
    W = _witness(forms, blocks)
    if W is None:
        return Harmless(None, "no positive definite witness was found")
    text = "a positive definite W is orthogonal to all of them, so no second moment matches them"
    return Harmless(True, text, W)


def check_witness(family: Family, relations: Sequence[Relation], witness: dict) -> bool:
    """Check exactly that a witness is positive definite and orthogonal to the relations."""
    blocks = _blocks(family)
    if set(blocks) != set(witness):
        return False
    if not all(_positive_definite(block) for _, block in witness.values()):
        return False
    forms = _forms(family, relations, blocks)
    flat = [flint.fmpq(v.p, v.q) for v in _flatten(witness, blocks)]
    return all(sum(a * w for a, w in zip(form, flat, strict=True)) == 0 for form in forms)


def _blocks(family: Family) -> dict[str, list[str]]:
    """Parameters of each cell that has second derivatives."""
    blocks: dict[str, list[str]] = {}
    for f in family.listed:
        if len(f.by) == 2:
            names = blocks.setdefault(f.cell, [])
            names.extend(p for p in f.by if p not in names)
    return blocks


def _entries(blocks: dict[str, list[str]]) -> dict[tuple, int]:
    keys = (
        (cell, *sorted((p, q)))
        for cell, names in blocks.items()
        for i, p in enumerate(names)
        for q in names[: i + 1]
    )
    return {key: i for i, key in enumerate(keys)}


def _forms(family: Family, relations, blocks) -> list[list[flint.fmpq]]:
    """Each relation as a linear form in W: <W, S> with S_pp = 2 c and S_pq = S_qp = c."""
    places = _entries(blocks)
    forms = []
    for relation in relations:
        form = [flint.fmpq(0)] * len(places)
        for i, c in relation.coefficients.items():
            f = family.listed[i]
            if len(f.by) == 2:
                # Pure: S_pp W_pp = 2 c W_pp. Mixed: twice S_pq W_pq = 2 c W_pq.
                form[places[(f.cell, *sorted(f.by))]] += 2 * flint.fmpq(int(c.p), int(c.q))
        forms.append(form)
    return forms


def _witness(forms, blocks) -> dict | None:
    places = _entries(blocks)
    exact = flint.fmpq_mat(forms)
    A = np.array([[float(v.p) / float(v.q) for v in row] for row in forms])
    # Entries off the diagonal count twice in the inner product of symmetric matrices.
    w = np.array([1.0 if p == q else 0.0 for _, p, q in places])
    inverse = np.linalg.pinv(A @ A.T)
    for _ in range(STEPS):
        w = w - A.T @ (inverse @ (A @ w))
        matrices = _matrices(w, blocks, places)
        lowest = min(np.linalg.eigvalsh(m)[0] for m in matrices.values())
        if lowest > 0.2:
            break
        w = _raised(matrices, blocks, places)
    return _exact_witness(w, exact, blocks, places)


def _matrices(w, blocks, places) -> dict[str, np.ndarray]:
    return {
        cell: np.array([[w[places[(cell, *sorted((p, q)))]] for q in names] for p in names])
        for cell, names in blocks.items()
    }


def _raised(matrices, blocks, places) -> np.ndarray:
    """Lift the eigenvalues below 1/2 to 1/2: the nearest such matrix."""
    w = np.zeros(len(places))
    for cell, names in blocks.items():
        values, vectors = np.linalg.eigh(matrices[cell])
        lifted = (vectors * np.maximum(values, 0.5)) @ vectors.T
        for i, p in enumerate(names):
            for j, q in enumerate(names[: i + 1]):
                w[places[(cell, *sorted((p, q)))]] = lifted[i, j]
    return w


def _usable(form, blocks) -> bool:
    """Is every block of S, or of -S, positive semidefinite?"""
    places = _entries(blocks)
    for sign in (1, -1):
        matrices = (
            [
                [sign * form[places[(cell, *sorted((p, q)))]] / (1 if p == q else 2) for q in names]
                for p in names
            ]
            for cell, names in blocks.items()
        )
        if all(_semidefinite(m) for m in matrices):
            return True
    return False


def _semidefinite(block) -> bool:
    """The characteristic polynomial of a symmetric matrix alternates iff no root is negative."""
    n = len(block)
    coefficients = flint.fmpq_mat(block).charpoly().coeffs()
    return all((-1) ** (n - k) * c >= 0 for k, c in enumerate(coefficients))


def _exact_witness(w, exact, blocks, places) -> dict | None:
    """Round to rationals, project exactly onto the orthogonal space, check positivity exactly."""
    rounded = flint.fmpq_mat([[flint.fmpq(round(v * 2**16), 2**16)] for v in w])
    defect = exact * rounded
    correction = exact.transpose() * (exact * exact.transpose()).solve(defect)
    flat = [row[0] for row in (rounded - correction).tolist()]
    witness = {}
    for cell, names in blocks.items():
        block = [[flat[places[(cell, *sorted((p, q)))]] for q in names] for p in names]
        if not _positive_definite(block):
            return None
        witness[cell] = (names, block)
    return witness


def _flatten(witness: dict, blocks) -> list[flint.fmpq]:
    flat = []
    for cell, p, q in _entries(blocks):
        names, block = witness[cell]
        flat.append(flint.fmpq(block[names.index(p)][names.index(q)]))
    return flat


def _positive_definite(block) -> bool:
    """Sylvester: all leading minors positive, and symmetric."""
    n = len(block)
    symmetric = all(block[i][j] == block[j][i] for i in range(n) for j in range(i))
    minors = (flint.fmpq_mat([row[:k] for row in block[:k]]).det() for k in range(1, n + 1))
    return symmetric and all(m > 0 for m in minors)
