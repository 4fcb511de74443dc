"""Samples worked through in blocks, features first: memory does not grow with n."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from hmoe_lib.arguments import real_array

Array = np.ndarray

__all__ = ["BLOCK_SIZE", "Block", "Samples", "quadratic_features"]

# Large enough that the interpreter's cost of about fifty array operations a block is small beside
# the arithmetic, small enough that the arrays of a block stay in a cache: 2,048 is slower, 8,192
# no faster (tests/benchmarks).
BLOCK_SIZE = 6144

# glibc gives freed memory back to the system and has it zeroed page by page at the next request,
# which costs as much as the arithmetic. Having freed one large array, it keeps up to twice as much.
np.empty(1 << 21)


class Block(NamedTuple):
    """A block of samples: inputs x (d, B), quadratic features q (d(d+1)/2, B), responses y."""

    x: Array
    q: Array
    y: Array | None


def quadratic_features(x: Array) -> Array:
    r"""Return the derivatives of x^T M x in the free entries of a symmetric M.

    Parameters
    ----------
    x : ndarray, shape (d, B)
        Inputs, features first.

    Returns
    -------
    ndarray, shape (d(d+1)/2, B)
        :math:`x_p^2` on the diagonal and :math:`2 x_p x_q` for p < q, in the order of the upper
        triangle, so that :math:`x^T M x` is the product with the free entries of M.

    Examples
    --------
    >>> quadratic_features(np.array([[1.0], [3.0]])).ravel()
    array([1., 6., 9.])
    """
    p, q, factor = _upper_triangle(len(x))
    features = x[p] * x[q]
    features *= factor
    return features


@cache
def _upper_triangle(d: int) -> tuple[Array, Array, Array]:
    p, q = np.triu_indices(d)
    return p, q, np.where(p == q, 1.0, 2.0)[:, None]


class Samples:
    """Checked samples that iterate over blocks.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Inputs.
    y : array_like, shape (n,), optional
        Responses.
    size : int
        Samples in a block.

    Raises
    ------
    ValueError
        If X is not (n, d), y not (n,), either is empty or holds NaN or infinity.

    Examples
    --------
    >>> [len(block.y) for block in Samples(np.zeros((5, 2)), np.zeros(5), size=3)]
    [3, 2]
    """

    def __init__(self, X, y=None, size: int = BLOCK_SIZE) -> None:
        self.X = _numbers("X", X, 2, "(n, d)")
        self.y = None if y is None else _numbers("y", y, 1, "(n,)")
        if self.y is not None and len(self.y) != len(self.X):
            raise ValueError(f"y: expected shape ({len(self.X)},) to match X, got {self.y.shape}")
        self.size = size

    @classmethod
    def pairs(cls, X, y) -> Samples:
        """Return samples that need their responses."""
        if y is None:
            raise ValueError("y: expected shape (n,), got None")
        return cls(X, y)

    def __len__(self) -> int:
        return len(self.X)

    @property
    def dim(self) -> int:
        """d, the number of inputs."""
        return self.X.shape[1]

    def head(self, n: int) -> Samples:
        """Return the first n samples, as views."""
        return Samples(self.X[:n], None if self.y is None else self.y[:n], self.size)

    def __iter__(self) -> Iterator[Block]:
        for start in range(0, len(self.X), self.size):
            x = np.ascontiguousarray(self.X[start : start + self.size].T)
            y = None if self.y is None else self.y[start : start + self.size]
            yield Block(x, quadratic_features(x), y)


def _numbers(name: str, value, ndim: int, form: str) -> Array:
    array = real_array(name, value, f"numbers of shape {form}")
    if array.ndim != ndim or 0 in array.shape:
        raise ValueError(f"{name}: expected shape {form}, not empty, got {array.shape}")
    # The extremes tell as much as isfinite on all entries, without an array as long as the data.
    if not np.isfinite([array.min(), array.max()]).all():
        raise ValueError(f"{name}: expected finite numbers, got NaN or infinity")
    return array
