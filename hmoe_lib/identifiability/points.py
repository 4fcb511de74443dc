"""Deterministic points: rational and spread over the cube, and integers for exact evaluation."""

from __future__ import annotations

from collections.abc import Iterator

import flint

__all__ = ["integers", "interior"]

_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)


def interior(d: int, count: int, skip: int = 20) -> list[tuple[flint.fmpq, ...]]:
    """Return rational points of (-1, 1)^d, a Halton sequence.

    Examples
    --------
    >>> interior(2, 2, skip=1)
    [(0, -1/3), (-1/2, 1/3)]
    """
    if not 1 <= d <= len(_PRIMES):
        raise ValueError(f"dim: expected 1 to {len(_PRIMES)}, got {d}")
    return [
        tuple(2 * _radical_inverse(n, p) - 1 for p in _PRIMES[:d])
        for n in range(skip, skip + count)
    ]


def _radical_inverse(n: int, base: int) -> flint.fmpq:
    value, place = flint.fmpq(0), flint.fmpq(1)
    while n:
        n, digit = divmod(n, base)
        place = place / base
        value += digit * place
    return value


def integers() -> Iterator[flint.fmpq]:
    """Yield small nonzero integers without a pattern, always the same."""
    state = 12345
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        value = (state >> 33) % 37 - 18
        if value:
            yield flint.fmpq(value)
