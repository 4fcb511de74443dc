"""Setting I: the gate after the values."""

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

__all__ = ["ValueGated"]


class _Pass(NamedTuple):
    s: Array  # gates s_{h,i}, (H, N, B)
    E: Array  # experts phi(a_{h,i,k}^T x), (H, N, K, B)
    D: Array  # phi' at the same arguments
    f_i: Array  # experts summed over channels, (H, N, B)
    f_h: Array  # heads, (H, B)


class ValueGated(HierarchicalModel):
    r"""Setting I: an activation after the values (position G2).

    Parameters
    ----------
    phi : str or Activation
        Activation.
    bias : float, optional
        b in phi(z + b).

    Notes
    -----
    .. math:: g_G(x) = \sum_{h,k} \omega_{h,k} \sum_i s_{h,i}(x)\, \varphi(a_{h,i,k}^\top x).

    References
    ----------
    Model (9) of the paper.

    Examples
    --------
    >>> from hmoe_lib.measures import HierarchicalMeasure
    >>> G = HierarchicalMeasure([[2.0]], [[[[0.0]], [[0.0]]]], [[[[1.0]], [[1.0]]]])
    >>> ValueGated("power2").predict(G, [[1.0], [-0.5]])
    array([2. , 0.5])
    """

    def __init__(self, phi: str | Activation = "sigmoid", bias: float | None = None) -> None:
        self.phi = activation(phi, bias)

    def _channels(self, parts, block: Block) -> Array:
        M, a, _ = parts
        return np.einsum("hnb,hnkb->hkb", gates(M, block.q), self.phi(a @ block.x))

    def _value(self, parts, block: Block) -> Array:
        M, a, omega = parts
        f_i = (omega[:, None, None] @ self.phi(a @ block.x))[:, :, 0]
        return np.einsum("hnb,hnb->b", gates(M, block.q), f_i)

    def _pass(self, parts, block: Block) -> _Pass:
        M, a, omega = parts
        s = gates(M, block.q)
        E, D = self.phi.value_and_first(a @ block.x, overwrite=True)
        f_i = (omega[:, None, None] @ E)[:, :, 0]
        return _Pass(s, E, D, f_i, np.einsum("hnb,hnb->hb", s, f_i))

    def _add_gradient(self, parts, block: Block, pieces) -> float:
        s, E, D, f_i, f_h = self._pass(parts, block)
        r = f_h.sum(0) - block.y
        s *= r
        weighted = s[:, :, None] * block.x  # (H, N, d, B)
        free = f_i[:, :-1] - f_h[:, None]
        free *= s[:, :-1]
        pieces[0][...] += free @ block.q.T
        pieces[1][...] += parts[2][:, None, :, None] * (D @ weighted.swapaxes(-1, -2))
        pieces[2][...] += (E @ s[..., None])[..., 0].sum(1)
        return r @ r

    def _jacobian(self, parts, block: Block, at: _Pass | None = None) -> tuple[Array, Array]:
        s, E, D, f_i, f_h = self._pass(parts, block) if at is None else at
        J, (J_M, J_a, J_omega) = empty_jacobian(parts, block.x.shape[1])
        scaled = D * s[:, :, None]
        scaled *= parts[2][:, None, :, None]
        np.multiply((s * (f_i - f_h[:, None]))[:, :-1, None], block.q, out=J_M)
        np.multiply(scaled[:, :, :, None], block.x, out=J_a)
        np.einsum("hnb,hnkb->hkb", s, E, out=J_omega)
        return f_h.sum(0), J

    def _second_order(self, parts, block: Block, sums: Curvature) -> tuple[Array, Array]:
        at = self._pass(parts, block)
        f, J = self._jacobian(parts, block, at)
        s, E, D, f_i, f_h = at
        x, q, omega = block.x, block.q, parts[2]
        r = f - block.y
        N, d, n_free = s.shape[1], len(x), s.shape[1] - 1
        sums.MM[...] += curvature_of_gates(block, softmax_curvature(s, f_i, f_h) * r)
        F = np.einsum("hnb,hnkb->hkb", s, E)
        second = self.phi.second_derivative(parts[1] @ x)
        for j in range(n_free):
            sums.Mw[:, :, j] += contract((E[:, j] - F) * (r * s[:, j])[:, None], q)
        for i in range(N):
            weight = (r * s[:, i])[:, None]
            sums.aw[:, :, i] += contract(D[:, i] * weight, x)
            by_channel = omega[:, :, None] * contract(second[:, i] * weight, x, x)
            sums.aa[:, :, i, :, i] += by_channel.reshape(*omega.shape, d, d)
            for j in range(n_free):
                mixed = contract(D[:, i] * (r * gate_weights(s, i, j))[:, None], x, q)
                sums.aM[:, :, i, :, j] += (omega[:, :, None] * mixed).reshape(*omega.shape, d, -1)
        return f, J
