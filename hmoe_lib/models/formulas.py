"""Pieces that the models' formulas share, for one block of samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hmoe_lib.blocks import Block
from hmoe_lib.measures import Shape

Array = np.ndarray

__all__ = ["Curvature", "contract", "empty_jacobian", "gate_weights", "gates", "softmax"]


def gates(M: Array, q: Array) -> Array:
    """Softmax over the scores M @ q of the free experts and the pinned one's zero, (H, N, B)."""
    return softmax(M @ q)


def softmax(free: Array) -> Array:
    """Softmax over free scores (H, N-1, B), overwritten, and the pinned one's zero, (H, N, B)."""
    H, n_free, width = free.shape
    s = np.empty((H, n_free + 1, width), free.dtype)
    if n_free == 1:
        # Two experts: one exponential instead of two. exp(-z) = inf rightly gives a zero gate.
        with np.errstate(over="ignore"):
            np.exp(np.negative(free, out=free), out=free)
        free += 1.0
        np.divide(1.0, free, out=s[:, :1])
        np.subtract(1.0, s[:, :1], out=s[:, 1:])
        return s
    top = np.maximum(free.max(axis=1, initial=0.0), 0.0)
    np.exp(free - top[:, None], out=s[:, :-1])
    np.exp(-top, out=s[:, -1])
    s /= s.sum(axis=1, keepdims=True)
    return s


def gate_weights(s: Array, i: int, j: int) -> Array:
    """Derivative of gate i in score j, s_i (delta_ij - s_j), (H, B)."""
    return s[:, i] * ((i == j) - s[:, j])


def empty_jacobian(parts, width: int) -> tuple[Array, tuple[Array, ...]]:
    """Uninitialised (p, B) array and its views for M, a and omega."""
    sizes = [part.size for part in parts]
    J = np.empty((sum(sizes), width), parts[0].dtype)
    views = np.split(J, np.cumsum(sizes)[:-1])
    return J, tuple(
        view.reshape(*part.shape, width) for view, part in zip(views, parts, strict=True)
    )


def contract(weights: Array, *features: Array) -> Array:
    """Sum over samples of weights (..., B) times the outer product of features (f, B)."""
    product = features[0]
    for feature in features[1:]:
        product = (product[:, None] * feature).reshape(-1, product.shape[-1])
    return weights @ product.T


class Curvature(NamedTuple):
    r"""Sums of :math:`r\, \partial^2 f`, by pair of parameter blocks; zero between heads.

    MM (H, N-1, pairs, N-1, pairs); by channel: aM (H, K, N, d, N-1, pairs), aa (H, K, N, d, N, d),
    Mw (H, K, N-1, pairs), aw (H, K, N, d), where w is the channel's weight omega.
    """

    MM: Array
    aM: Array
    aa: Array
    Mw: Array
    aw: Array

    @classmethod
    def zeros(cls, shape: Shape) -> Curvature:
        """Return sums over no sample."""
        H, N, K, d = shape
        a, M = (N, d), (N - 1, shape.pairs)
        sizes = ((H, *M, *M), (H, K, *a, *M), (H, K, *a, *a), (H, K, *M), (H, K, *a))
        return cls(*(np.zeros(size) for size in sizes))

    def matrix(self, shape: Shape) -> Array:
        """Return the symmetric (p, p) matrix in the order of the parameter vector."""
        S = np.zeros((shape.size, shape.size))
        at_M, at_a, at_omega = shape.split(np.arange(shape.size))

        def put(rows: Array, columns: Array, values: Array) -> None:
            S[np.ix_(rows, columns)] = values.reshape(rows.size, columns.size)
            S[np.ix_(columns, rows)] = values.reshape(rows.size, columns.size).T

        for h in range(shape.heads):
            M = at_M[h].ravel()
            put(M, M, self.MM[h])
            for k in range(shape.channels):
                a, w = at_a[h, :, k].ravel(), at_omega[h, k : k + 1]
                put(a, M, self.aM[h, k])
                put(a, a, self.aa[h, k])
                put(M, w, self.Mw[h, k])
                put(a, w, self.aw[h, k])
        return S


def softmax_curvature(s: Array, f_i: Array, f_h: Array) -> Array:
    """Second derivatives of sum_i s_i f_i in the free scores, (H, N-1, N-1, B)."""
    gap = (f_i - f_h[:, None])[:, :-1]
    free = s[:, :-1]
    second = -(free[:, :, None] * free[:, None]) * (gap[:, :, None] + gap[:, None])
    diagonal = np.arange(free.shape[1])
    second[:, diagonal, diagonal] += free * gap
    return second


def curvature_of_gates(block: Block, weights: Array) -> Array:
    """Contract weights (H, N-1, N-1, B) with q q^T: the MM part, (H, N-1, pairs, N-1, pairs)."""
    H, n_free = weights.shape[:2]
    pairs = len(block.q)
    sums = contract(weights, block.q, block.q).reshape(H, n_free, n_free, pairs, pairs)
    return sums.swapaxes(2, 3)
