"""Where a condition is examined: atoms (M, a), or a whole truth (omega, M, a), exact rationals."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import sympy

from hmoe_lib.identifiability.families import rational

__all__ = ["Truth", "generic_atoms", "generic_truth", "read_atoms", "read_truth"]

Matrix = tuple[tuple[sympy.Rational, ...], ...]
Atom = tuple[Matrix, tuple[sympy.Rational, ...]]


@dataclass(frozen=True)
class Truth:
    """omega[h][k], M[h][i], a[h][i][k], with M[h][N-1] = 0."""

    omega: tuple
    M: tuple
    a: tuple

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(H, N, K, d)."""
        return len(self.omega), len(self.M[0]), len(self.omega[0]), len(self.a[0][0][0])

    def atoms(self) -> list[Atom]:
        """All (M, a) of the truth."""
        H, N, K, _ = self.shape
        places = itertools.product(range(H), range(N), range(K))
        return [(self.M[h][i], self.a[h][i][k]) for h, i, k in places]


def _numbers():
    """Fifths without a pattern: successive powers of 7 modulo the prime 101."""
    value = 5
    while True:
        value = value * 7 % 101
        if value % 19 != 9:
            yield sympy.Rational(value % 19 - 9, 5)


def _symmetric(numbers, d: int) -> Matrix:
    upper = {(p, q): next(numbers) for p, q in itertools.combinations_with_replacement(range(d), 2)}
    return tuple(tuple(upper[min(p, q), max(p, q)] for q in range(d)) for p in range(d))


def generic_atoms(d: int, count: int = 2) -> list[Atom]:
    """Return atoms with different M and different a, the same at every call."""
    numbers = _numbers()
    return [(_symmetric(numbers, d), tuple(next(numbers) for _ in range(d))) for _ in range(count)]


def generic_truth(d: int, heads: int = 2, experts: int = 2, channels: int = 2) -> Truth:
    """Return a truth with different gates and positive weights, the same at every call."""
    numbers = _numbers()
    zero = ((sympy.Integer(0),) * d,) * d
    omega = tuple(
        tuple(sympy.Rational(1 + h + 2 * k, 2) for k in range(channels)) for h in range(heads)
    )
    M = tuple((*(_symmetric(numbers, d) for _ in range(experts - 1)), zero) for _ in range(heads))
    a = tuple(
        tuple(
            tuple(tuple(next(numbers) for _ in range(d)) for _ in range(channels))
            for _ in range(experts)
        )
        for _ in range(heads)
    )
    return Truth(omega, M, a)


def _nested(field: str, value, depth: int):
    """Nested tuples of exact rationals; every level a non-empty list."""
    if depth == 0:
        return rational(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"{field}: expected a non-empty list of depth {depth}, got {value!r}")
    return tuple(_nested(field, v, depth - 1) for v in value)


def _check_matrix(field: str, M: Matrix, d: int) -> None:
    if len(M) != d or any(len(row) != d for row in M):
        raise ValueError(f"{field}: expected a {d} x {d} matrix, got {len(M)} rows")
    if any(M[p][q] != M[q][p] for p in range(d) for q in range(p)):
        raise ValueError(f"{field}: expected a symmetric matrix")


def _fields(value, names: tuple[str, ...]) -> list | None:
    if isinstance(value, dict):
        return [value[n] for n in names] if all(n in value for n in names) else None
    found = [getattr(value, n, None) for n in names]
    return None if any(f is None for f in found) else found


def read_truth(value, d: int) -> Truth:
    """Return a truth from a HierarchicalMeasure, a dict or JSON with omega, M and a.

    Raises
    ------
    ValueError
        If a field is missing or has the wrong shape.
    """
    if isinstance(value, Truth):
        truth = value
    else:
        fields = _fields(value, ("omega", "M", "a"))
        if fields is None:
            raise ValueError("atoms: this condition needs a whole truth: omega, M and a")
        truth = Truth(*(_nested(n, v, k) for n, v, k in zip("ωMa", fields, (2, 4, 4), strict=True)))
    H, N = len(truth.omega), len(truth.M[0])
    K = len(truth.omega[0])
    shapes = (
        len(truth.M) == H,
        len(truth.a) == H,
        all(len(row) == K for row in truth.omega),
        all(len(head) == N for head in (*truth.M, *truth.a)),
        all(len(expert) == K for head in truth.a for expert in head),
        all(len(a) == d for head in truth.a for expert in head for a in expert),
    )
    if not all(shapes):
        raise ValueError(
            f"atoms: expected omega (H, K), M (H, N, {d}, {d}), a (H, N, K, {d}) that agree"
        )
    for head in truth.M:
        for M in head:
            _check_matrix("M", M, d)
        if any(v != 0 for row in head[-1] for v in row):
            raise ValueError("M: expected M[h][N-1] = 0, the pinned expert")
    return truth


def read_atoms(value, d: int) -> list[Atom]:
    """Return atoms from a list of {"M": ..., "a": ...} or (M, a), or from a whole truth."""
    if isinstance(value, Truth) or _fields(value, ("omega", "M", "a")) is not None:
        return read_truth(value, d).atoms()
    if not isinstance(value, list | tuple) or not value:
        raise ValueError("atoms: expected a non-empty list of atoms, or omega, M and a")
    atoms = []
    for j, atom in enumerate(value, start=1):
        if isinstance(atom, dict):
            pair = _fields(atom, ("M", "a"))
        else:
            pair = atom if isinstance(atom, list | tuple) and len(atom) == 2 else None
        if pair is None:
            raise ValueError(f"atoms: expected M and a in atom {j}, got {atom!r}")
        M, a = _nested(f"M of atom {j}", pair[0], 2), _nested(f"a of atom {j}", pair[1], 1)
        if len(a) != d:
            raise ValueError(f"a of atom {j}: expected {d} entries, got {len(a)}")
        _check_matrix(f"M of atom {j}", M, d)
        atoms.append((M, a))
    if len(set(atoms)) < len(atoms):
        raise ValueError("atoms: expected pairwise different atoms, got one twice")
    return atoms
