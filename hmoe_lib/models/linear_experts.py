"""Gates that leave the experts linear: on the keys (G3), on the queries (G4), at the end (G5)."""

from __future__ import annotations

import numpy as np

from hmoe_lib.activations import Activation, activation
from hmoe_lib.blocks import Block
from hmoe_lib.models.mha import Mha

Array = np.ndarray

__all__ = ["KeyGated", "LayerGated", "QueryGated"]


class _WithActivation(Mha):
    def __init__(self, phi: str | Activation = "sigmoid", bias: float | None = None) -> None:
        self.phi = activation(phi, bias)


class KeyGated(_WithActivation):
    r"""An activation after the keys (position G3); experts stay linear.

    Parameters
    ----------
    phi : str or Activation
        Activation.
    bias : float, optional
        b in phi(z + b).

    Notes
    -----
    As :class:`Mha`, with the scores :math:`x^\top \varphi(M_{h,i} x)` in place of
    :math:`x^\top M_{h,i} x`, :math:`\varphi` entry by entry. In a layer the score of token j is
    :math:`(W_Q^\top x_i)^\top \varphi(W_K^\top x_j)`; with the query projection absorbed, the query
    is x and the key of expert i is :math:`M_{h,i} x`. The pinned expert's key is
    :math:`\varphi(0)`, so M = 0 is still the gate of equal weights.

    References
    ----------
    Section 2 of the paper, position G3; practical implication I.2.

    Examples
    --------
    >>> from hmoe_lib.measures import HierarchicalMeasure
    >>> G = HierarchicalMeasure([[2.0]], [[[[3.0]], [[0.0]]]], [[[[1.0]], [[3.0]]]])
    >>> s = 1 / (1 + np.exp(-0.5 * (3.0 * 0.5) ** 2))  # phi(z) = z^2, so the score is x (3 x)^2
    >>> bool(np.isclose(KeyGated("power2").predict(G, [[0.5]])[0], s + 3 * (1 - s)))
    True
    """

    def _scores(self, M: Array, block: Block) -> tuple[Array, Array]:
        x, d = block.x, len(block.x)
        p, q = np.triu_indices(d)
        full = np.zeros((*M.shape[:2], d, d))
        full[..., p, q] = full[..., q, p] = M
        keys, slopes = self.phi.value_and_first(full @ x)
        scores = np.einsum("pb,hnpb->hnb", x, keys - self.phi(0.0))
        return scores, block.q * (0.5 * (slopes[:, :, p] + slopes[:, :, q]))


class QueryGated(_WithActivation):
    r"""An activation after the queries (position G4); experts stay linear.

    Parameters
    ----------
    phi : str or Activation
        Activation.
    bias : float, optional
        b in phi(z + b).

    Notes
    -----
    As :class:`Mha`, with the scores :math:`\varphi(x)^\top M_{h,i} x` in place of
    :math:`x^\top M_{h,i} x`: the query is x, and :math:`\varphi` acts on it entry by entry. The
    scores stay linear in M.

    References
    ----------
    Section 2 of the paper, position G4; practical implication I.2.

    Examples
    --------
    >>> from hmoe_lib.measures import HierarchicalMeasure
    >>> G = HierarchicalMeasure([[2.0]], [[[[3.0]], [[0.0]]]], [[[[1.0]], [[3.0]]]])
    >>> s = 1 / (1 + np.exp(-3.0 * 0.5**3))  # phi(x) = x^2, so the score is 3 x^3
    >>> bool(np.isclose(QueryGated("power2").predict(G, [[0.5]])[0], s + 3 * (1 - s)))
    True
    """

    def _scores(self, M: Array, block: Block) -> tuple[Array, Array]:
        x, query = block.x, self.phi(block.x)
        p, q = np.triu_indices(len(x))
        features = query[p] * x[q] + query[q] * x[p]
        features[p == q] *= 0.5
        return M @ features, features


class LayerGated(_WithActivation):
    r"""An activation at the end, after W_O and the sum over heads (position G5).

    Parameters
    ----------
    phi : str or Activation
        Activation.
    bias : float, optional
        b in phi(z + b).

    Notes
    -----
    .. math:: g_G(x) = \varphi(f_G(x)),

    :math:`f_G` the function of :class:`Mha`. For an injective :math:`\varphi` two measures agree
    with this gate exactly where they agree without it. ``components`` returns the channels of
    :math:`f_G`.

    References
    ----------
    Section 2 of the paper, position G5; practical implication I.2.

    Examples
    --------
    >>> from hmoe_lib.measures import HierarchicalMeasure
    >>> G = HierarchicalMeasure([[2.0]], [[[[0.0]], [[0.0]]]], [[[[1.0]], [[3.0]]]])
    >>> LayerGated("power2").predict(G, [[1.0], [-0.5]])
    array([16.,  4.])
    """

    def _outside(self, f: Array) -> tuple[Array, Array]:
        return self.phi.value_and_first(f)
