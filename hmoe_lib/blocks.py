"""Samples worked through in blocks, features first: memory does not grow with n.

Sums over a sample are a map and a reduction: blocks are added inside a part of the sample, the
sums of the parts in their order. Who computes a part does not change a bit of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from hmoe_lib.arguments import real_array

Array = np.ndarray

__all__ = ["BLOCK_SIZE", "PART", "Block", "Samples", "Stream", "quadratic_features"]

# Large enough that the interpreter's cost of about fifty array operations a block is small beside
# the arithmetic, small enough that the arrays of a block stay in a cache: 2,048 is slower, 8,192
# no faster (tests/benchmarks).
BLOCK_SIZE = 6144
# Blocks a worker adds up in one go. Fixed, since the order of the additions follows from it; long
# enough (a tenth of a second) that sending a task and its sums to another machine costs little.
PART = 64

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
    d = len(x)
    features = np.empty((d * (d + 1) // 2, *x.shape[1:]), x.dtype)
    twice, row = 2.0 * x, 0
    for p in range(d):  # rows as views: gathering them by index would copy x twice
        np.multiply(x[p], x[p], out=features[row])
        np.multiply(x[p], twice[p + 1 :], out=features[row + 1 : row + d - p])
        row += d - p
    return features


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

    Attributes
    ----------
    map : callable
        Maps the work over the parts, in their order; Python's own map unless an engine of
        :mod:`hmoe_lib.experiments` puts its own here.
    dtype : type
        float64, or float32 after :meth:`single`.

    Raises
    ------
    ValueError
        If X is not (n, d), y not (n,), either is empty or holds NaN or infinity.

    Examples
    --------
    >>> [len(block.y) for block in Samples(np.zeros((5, 2)), np.zeros(5), size=3)]
    [3, 2]
    """

    map: Callable[[Callable, Iterable], Iterable] = staticmethod(map)
    dtype: type = np.float64

    def __init__(self, X, y=None, size: int = BLOCK_SIZE) -> None:
        self.X = _numbers("X", X, 2, "(n, d)")
        self.y = None if y is None else _numbers("y", y, 1, "(n,)")
        if self.y is not None and len(self.y) != len(self.X):
            raise ValueError(f"y: expected shape ({len(self.X)},) to match X, got {self.y.shape}")
        self.size = size

    @classmethod
    def pairs(cls, X, y) -> Samples:
        """Return samples with responses; where X has them already, X itself."""
        if isinstance(X, Stream) or (isinstance(X, Samples) and y is None and X.y is not None):
            return X
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
        if n < 1:
            raise ValueError(f"n: expected an integer >= 1, got {n!r}")
        first = self._run(0, n)
        first.map = self.map
        return first

    @np.errstate(over="ignore")
    def single(self) -> Samples:
        """Return the samples in single precision: half the memory, about half the time."""
        rounded = self._run(0, len(self))
        rounded.X = self.X.astype(np.float32)
        rounded.y = None if self.y is None else self.y.astype(np.float32)
        rounded.map, rounded.dtype = self.map, np.float32
        return rounded

    def sums(self, work: Callable[[Samples], tuple]) -> tuple:
        """Return the sums over the sample of what work returns for a part of it.

        Parameters
        ----------
        work : callable
            Takes samples, returns a tuple of numbers and arrays.

        Returns
        -------
        tuple
            Added in the order of the parts, whoever computes them, so that the bits are the same
            for any number of workers.

        Examples
        --------
        >>> Samples(np.zeros((5, 2)), np.ones(5)).sums(lambda part: (sum(b.y.sum() for b in part),))
        (np.float64(5.0),)
        """
        parts = iter(self.map(work, self.parts()))
        total = next(parts)
        for sums in parts:
            total = tuple(a + b for a, b in zip(total, sums, strict=True))
        return total

    def squares(self) -> float:
        """Return the sum of the squared responses."""
        return self.y @ self.y

    def parts(self) -> Iterator[Samples]:
        """Yield the sample in runs of PART blocks."""
        step = PART * self.size
        for start in range(0, len(self), step):
            yield self._run(start, start + step)

    def __iter__(self) -> Iterator[Block]:
        for start in range(0, len(self.X), self.size):
            x = np.ascontiguousarray(self.X[start : start + self.size].T)
            y = None if self.y is None else self.y[start : start + self.size]
            yield Block(x, quadratic_features(x), y)

    def _run(self, start: int, stop: int) -> Samples:
        part = object.__new__(Samples)  # checked as a whole: a look at its parts reads them once
        part.X, part.y = self.X[start:stop], None if self.y is None else self.y[start:stop]
        part.size, part.dtype = (
            self.size,
            self.dtype,
        )  # and Python's own map: parts are sent to those who map
        return part


class Stream(Samples):
    """Samples that are drawn anew, block by block, whenever they are looked at, and never held.

    Parameters
    ----------
    draw : callable
        ``draw(index)`` returns the :class:`Block` of ``size`` samples with that index, 0, 1, ...;
        the same numbers at every call, in every process. To be sent to workers it has to be
        picklable.
    n : int
        Number of samples, at least 1; of the last block the first ones are taken.
    size : int
        Samples in a block.

    Raises
    ------
    ValueError
        If n is not an integer of at least 1 or, when it is drawn, a block has not its size.

    Examples
    --------
    >>> def draw(index):
    ...     rng = np.random.default_rng([7, index])
    ...     x = rng.uniform(-1, 1, (2, 4))
    ...     return Block(x, quadratic_features(x), rng.standard_normal(4))
    >>> stream = Stream(draw, n=10, size=4)
    >>> [len(block.y) for block in stream], stream.dim
    ([4, 4, 2], 2)
    """

    def __init__(self, draw: Callable[[int], Block], n: int, size: int = BLOCK_SIZE) -> None:
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"n: expected an integer >= 1, got {n!r}")
        self.draw, self.n, self.size, self.first = draw, int(n), size, 0

    def __len__(self) -> int:
        return self.n

    @property
    def dim(self) -> int:
        """d, the number of inputs."""
        return len(self.draw(self.first).x)

    def head(self, n: int) -> Stream:
        """Return the first n samples."""
        first = self._run(self.first, min(n, self.n))
        first.map = self.map
        return first

    def single(self) -> Stream:
        """Return the stream whose blocks are rounded to single precision."""
        rounded = self._run(self.first, self.n)
        rounded.draw, rounded.dtype = partial(_single_block, self.draw), np.float32
        rounded.map = self.map
        return rounded

    def squares(self) -> float:
        """Return the sum of the squared responses."""
        return self.sums(_squares)[0]

    def parts(self) -> Iterator[Stream]:
        """Yield the sample in runs of PART blocks."""
        for at in range(0, self.n, PART * self.size):
            yield self._run(self.first + at // self.size, min(PART * self.size, self.n - at))

    def __iter__(self) -> Iterator[Block]:
        for at in range(math.ceil(self.n / self.size)):
            block = self.draw(self.first + at)
            if block.x.shape[1:] != (self.size,) or block.y.shape != (self.size,):
                raise ValueError(
                    f"draw: expected a block of {self.size} samples, got x {block.x.shape} and "
                    f"y {block.y.shape}"
                )
            width = self.n - at * self.size
            yield block if width >= self.size else Block(*(part[..., :width] for part in block))

    def _run(self, first: int, n: int) -> Stream:
        part = Stream(self.draw, n, self.size)
        part.first, part.dtype = (
            first,
            self.dtype,
        )  # and Python's own map: parts are sent to those who map
        return part


@np.errstate(over="ignore")
def _single_block(draw: Callable[[int], Block], index: int) -> Block:
    return Block(*(part.astype(np.float32) for part in draw(index)))


def _squares(samples: Samples) -> tuple[float]:
    return (sum(block.y @ block.y for block in samples),)


def _numbers(name: str, value, ndim: int, form: str) -> Array:
    array = real_array(name, value, f"numbers of shape {form}")
    if array.ndim != ndim or 0 in array.shape:
        raise ValueError(f"{name}: expected shape {form}, not empty, got {array.shape}")
    # The extremes tell as much as isfinite on all entries, without an array as long as the data.
    if not np.isfinite([array.min(), array.max()]).all():
        raise ValueError(f"{name}: expected finite numbers, got NaN or infinity")
    return array
