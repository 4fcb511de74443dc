"""Plain multi-head attention."""

from __future__ import annotations

import numpy as np

from hmoe_lib.blocks import Block, Samples
from hmoe_lib.measures import Shape
from hmoe_lib.models.base import HierarchicalModel, quiet
from hmoe_lib.models.formulas import softmax

Array = np.ndarray

__all__ = ["Mha"]


class Mha(HierarchicalModel):
    r"""Plain multi-head attention as a regression model, linear experts.

    Notes
    -----
    .. math::
        f_G(x) = \sum_{h,k} \omega_{h,k} \sum_i s_{h,i}(x)\, a_{h,i,k}^\top x, \qquad
        s_{h,i}(x) = \mathrm{softmax}_i(x^\top M_{h,i} x).

    With :math:`c_{h,i} = \sum_k \omega_{h,k} a_{h,i,k}` it is
    :math:`\sum_{h,i} s_{h,i}\, c_{h,i}^\top x`: no sum over channels is needed to predict, and
    none can be seen in the data.

    References
    ----------
    Model (2) of the paper.

    Examples
    --------
    >>> from hmoe_lib.measures import HierarchicalMeasure
    >>> G = HierarchicalMeasure([[2.0]], [[[[0.0]], [[0.0]]]], [[[[1.0]], [[3.0]]]])
    >>> Mha().predict(G, [[1.0], [-0.5]])
    array([ 4., -2.])
    """

    def _scores(self, M: Array, block: Block) -> tuple[Array, Array]:
        """Scores of the free experts (H, N-1, B), and their derivatives in M.

        The derivatives are (H, N-1, pairs, B), or (pairs, B) where all experts share them.
        """
        return M @ block.q, block.q

    def _outside(self, f: Array) -> tuple[Array, Array | None]:
        """What is done to the sum over heads, and its derivative; None for 1."""
        return f, None

    def _channels(self, parts, block: Block) -> Array:
        M, a, _ = parts
        s = softmax(self._scores(M, block)[0])
        return np.einsum("hnb,hnkb->hkb", s, a @ block.x)

    def _value(self, parts, block: Block) -> Array:
        s, v, _, _ = self._collapsed(parts, block)
        return self._outside(np.einsum("hnb,hnb->b", s, v))[0]

    def _add_gradient(self, parts, block: Block, pieces) -> float:
        _, a, omega = parts
        s, v, f_h, scores = self._collapsed(parts, block)
        f, slope = self._outside(f_h.sum(0))
        r = f - block.y
        s *= r if slope is None else r * slope
        moment = s @ block.x.T  # (H, N, d): sum_b r s_{h,i} x
        pull = (s * (v - f_h[:, None]))[:, :-1]
        shared = scores.ndim == 2
        pieces[0][...] += pull @ scores.T if shared else np.einsum("hnb,hnpb->hnp", pull, scores)
        pieces[1][...] += omega[:, None, :, None] * moment[:, :, None, :]
        pieces[2][...] += np.einsum("hnkd,hnd->hk", a, moment)
        return r @ r

    def _jacobian(self, parts, block: Block) -> tuple[Array, Array]:
        f, features = self._features(parts, block)
        return f, _spread(parts) @ features

    @quiet
    def _normal_sums(
        self, theta: Array, shape: Shape, curvature: bool, samples: Samples
    ) -> tuple[float, Array, Array]:
        """Sums over the few features that f depends on.

        Every derivative is a fixed combination of the s_{h,i} x and s_{h,i} (v_i - f_h) q: the
        p x p sums follow from those of the features, far fewer than p.
        """
        parts = shape.split(theta)
        size = _spread(parts).shape[1]
        total, gradient, gram = 0.0, np.zeros(size), np.zeros((size, size))
        for block in samples:
            f, features = self._features(parts, block)
            r = f - block.y
            total += r @ r
            gradient += features @ r
            gram += features @ features.T
        return total, gradient, gram

    def _normal_equations(self, theta: Array, shape: Shape, sums: list) -> tuple[Array, ...]:
        """From features to parameters. The curvature is left at zero: without copies to tell
        apart, Gauss-Newton converges in a few steps.
        """
        gradient, gram = sums
        B = _spread(shape.split(theta))
        gram = B @ gram @ B.T
        return B @ gradient, gram, np.zeros_like(gram)

    def _collapsed(self, parts, block: Block) -> tuple[Array, Array, Array, Array]:
        """Gates and experts summed over channels (H, N, B), heads (H, B), scores' derivatives."""
        M, a, omega = parts
        free, scores = self._scores(M, block)
        s = softmax(free)
        v = np.einsum("hk,hnkd->hnd", omega, a) @ block.x
        return s, v, np.einsum("hnb,hnb->hb", s, v), scores

    def _features(self, parts, block: Block) -> tuple[Array, Array]:
        """The function and its derivatives in M and c, (B,) and (features, B)."""
        s, v, f_h, scores = self._collapsed(parts, block)
        gate = (s * (v - f_h[:, None]))[:, :-1, None] * scores
        expert = s[:, :, None] * block.x
        width = block.x.shape[1]
        f, slope = self._outside(f_h.sum(0))
        features = np.concatenate([gate.reshape(-1, width), expert.reshape(-1, width)])
        return f, features if slope is None else features * slope


def _spread(parts) -> Array:
    """Matrix (p, features) that turns derivatives in M and c into derivatives in (M, a, omega)."""
    M, a, omega = parts
    H, N, K, d = a.shape
    B = np.zeros((M.size + a.size + omega.size, M.size + H * N * d))
    B[: M.size, : M.size] = np.eye(M.size)
    for h, i, k in np.ndindex(H, N, K):
        column = M.size + (h * N + i) * d
        row = M.size + ((h * N + i) * K + k) * d
        B[row : row + d, column : column + d] = omega[h, k] * np.eye(d)
        B[M.size + a.size + h * K + k, column : column + d] = a[h, i, k]
    return B
