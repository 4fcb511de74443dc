"""Setting II: the gate after the output of the scaled dot product."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hmoe_lib.activations import Activation, activation
from hmoe_lib.blocks import Block
from hmoe_lib.models.base import HierarchicalModel
from hmoe_lib.models.formulas import (
    Curvature,
    contract,
    curvature_of_gates,
    empty_jacobian,
    gate_weights,
    gates,
    softmax_curvature,
)

Array = np.ndarray

__all__ = ["OutputGated"]


class _Pass(NamedTuple):
    s: Array  # gates s_{h,i}, (H, N, B)
    v: Array  # experts a_{h,i,k}^T x, (H, N, K, B)
    E: Array  # phi(f^{h,k}), (H, K, B)
    D: Array  # phi'(f^{h,k})


class OutputGated(HierarchicalModel):
    r"""Setting II: an activation after the output of the scaled dot product (position G1).

    Parameters
    ----------
    phi : str or Activation
        Activation.
    bias : float, optional
        b in phi(z + b).

    Notes
    -----
    .. math:: g_G(x) = \sum_{h,k} \omega_{h,k}\,
        \varphi\Bigl(\sum_i s_{h,i}(x)\, a_{h,i,k}^\top x\Bigr).

    ``components`` returns the inner sums f^{h,k}: the paper's cells compare those.

    References
    ----------
    Model (12) of the paper.

    Examples
    --------
    >>> from hmoe_lib.measures import HierarchicalMeasure
    >>> G = HierarchicalMeasure([[2.0]], [[[[0.0]], [[0.0]]]], [[[[1.0]], [[3.0]]]])
    >>> OutputGated("power2").predict(G, [[1.0], [-0.5]])
    array([8., 2.])
    """

    def __init__(self, phi: str | Activation = "sigmoid", bias: float | None = None) -> None:
        self.phi = activation(phi, bias)

    def _channels(self, parts, block: Block) -> Array:
        M, a, _ = parts
        return np.einsum("hnb,hnkb->hkb", gates(M, block.q), a @ block.x)

    def _value(self, parts, block: Block) -> Array:
        return np.tensordot(parts[2], self.phi(self._channels(parts, block)), 2)

    def _pass(self, parts, block: Block) -> _Pass:
        M, a, _ = parts
        s = gates(M, block.q)
        v = a @ block.x
        F = np.einsum("hnb,hnkb->hkb", s, v)
        return _Pass(s, v, *self.phi.value_and_first(F, overwrite=True))

    def _add_gradient(self, parts, block: Block, pieces) -> float:
        s, v, E, D = self._pass(parts, block)
        r = np.tensordot(parts[2], E, 2) - block.y
        pieces[2][...] += E @ r
        D = D * parts[2][:, :, None]  # not in place: a reader's phi' may return its argument
        D *= r
        pieces[0][...] += _pull(D, s, v)[:, :-1] @ block.q.T
        weighted = s[:, :, None] * block.x  # (H, N, d, B)
        pieces[1][...] += D[:, None] @ weighted.swapaxes(-1, -2)
        return r @ r

    def _jacobian(self, parts, block: Block, at: _Pass | None = None) -> tuple[Array, Array]:
        s, v, E, D = self._pass(parts, block) if at is None else at
        J, (J_M, J_a, J_omega) = empty_jacobian(parts, block.x.shape[1])
        scaled = D * parts[2][:, :, None]
        np.multiply(_pull(scaled, s, v)[:, :-1, None], block.q, out=J_M)
        np.multiply((s[:, :, None] * scaled[:, None])[:, :, :, None], block.x, out=J_a)
        J_omega[...] = E
        return np.tensordot(parts[2], E, 2), J

    def _second_order(self, parts, block: Block, sums: Curvature) -> tuple[Array, Array]:
        at = self._pass(parts, block)
        f, J = self._jacobian(parts, block, at)
        s, v, _, D = at
        F = np.einsum("hnb,hnkb->hkb", s, v)
        x, q, omega = block.x, block.q, parts[2]
        r = f - block.y
        N, d, n_free = s.shape[1], len(x), s.shape[1] - 1
        pull = r * D  # r phi'(F_k), (H, K, B)
        bend = r * self.phi.second_derivative(F)
        rise = s[:, :, None] * (v - F[:, None])  # dF_k / d score_j, (H, N, K, B)
        sums.MM[...] += curvature_of_gates(block, _gate_part(s, v, F, rise, pull, bend, omega))
        for j in range(n_free):
            sums.Mw[:, :, j] += contract(pull * rise[:, j], q)
        for i in range(N):
            gate = s[:, i, None]
            sums.aw[:, :, i] += contract(pull * gate, x)
            for i2 in range(N):
                outer = omega[:, :, None] * contract(bend * (gate * s[:, i2, None]), x, x)
                sums.aa[:, :, i, :, i2] += outer.reshape(*omega.shape, d, d)
            for j in range(n_free):
                weight = pull * gate_weights(s, i, j)[:, None] + bend * gate * rise[:, j]
                mixed = omega[:, :, None] * contract(weight, x, q)
                sums.aM[:, :, i, :, j] += mixed.reshape(*omega.shape, d, -1)
        return f, J


def _pull(weight: Array, s: Array, v: Array) -> Array:
    """Sum over channels of weight_k s_i (v_{i,k} - sum_j s_j v_{j,k}), (H, N, B)."""
    pull = np.einsum("hkb,hnkb->hnb", weight, v)
    pull -= np.einsum("hnb,hnb->hb", s, pull)[:, None]  # the sum over j needs no channels
    pull *= s
    return pull


def _gate_part(
    s: Array, v: Array, F: Array, rise: Array, pull: Array, bend: Array, omega: Array
) -> Array:
    """Second derivatives in the free scores, weighted and summed over channels."""
    weighted = pull * omega[:, :, None]
    f_i = np.einsum("hkb,hnkb->hnb", weighted, v)
    f_h = np.einsum("hkb,hkb->hb", weighted, F)
    free = rise[:, :-1]
    outer = np.einsum("hkb,hjkb,hlkb->hjlb", bend * omega[:, :, None], free, free)
    return softmax_curvature(s, f_i, f_h) + outer
