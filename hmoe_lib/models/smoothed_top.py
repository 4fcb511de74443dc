"""Top-K gates smoothed: all sets of K atoms at once, so that a step sees where sets change."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.special import logsumexp

from hmoe_lib.arguments import number
from hmoe_lib.blocks import Block
from hmoe_lib.experts import Neuron
from hmoe_lib.gates import Gate, Softmax
from hmoe_lib.mixing import Parts
from hmoe_lib.models.flat import FlatModel

Array = np.ndarray

__all__ = ["SmoothedTop"]


class SmoothedTop(FlatModel):
    r"""A flat mixture whose top-K softmax is replaced by a smooth one.

    Parameters
    ----------
    gate : str or Gate
        A softmax gate with ``top``.
    expert : str or Neuron
        Expert, or its name.
    width : float
        kappa > 0, in the units of the scores; for kappa to 0 the model is the top-K mixture
        wherever the K-th and the next score differ.

    Raises
    ------
    ValueError
        If the gate keeps all scores, or the width is not positive.

    Notes
    -----
    With all sets S of K atoms, and :math:`f_S` the softmax mixture of the atoms in S,

    .. math:: f_\kappa(x) = \sum_S P_S(x)\, f_S(x) , \qquad
        P_S \propto \exp\Bigl(\frac1\kappa \sum_{i \in S} z_i\Bigr) .

    The derivative in :math:`z_i` is :math:`\sum_{S \ni i} P_S \{ (f_S - f_\kappa)/\kappa + p_{i|S}
    (h_i - f_S) \}`. Its first part is what a derivative of the top-K model misses: a set that
    changes. It costs as many mixtures as there are sets.

    Examples
    --------
    >>> from hmoe_lib.gates import gate
    >>> from hmoe_lib.mixing import MixingMeasure
    >>> G = MixingMeasure([[1.0], [0.5], [0.0]], [0.0] * 3, [[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
    >>> hard, soft = FlatModel(gate("linear", top=1), "affine"), []
    >>> for width in (1.0, 0.1, 0.01):
    ...     model = SmoothedTop(gate("linear", top=1), "affine", width)
    ...     soft.append(float(abs(model.predict(G, [[1.0]]) - hard.predict(G, [[1.0]]))[0]))
    >>> soft[0] > soft[1] > soft[2], soft[2] < 1e-15
    (True, True)
    """

    def __init__(self, gate: str | Gate, expert: str | Neuron, width: float) -> None:
        super().__init__(gate, expert)
        if not (isinstance(self.gate, Softmax) and self.gate.top is not None):
            raise ValueError(f"gate: expected a softmax gate with top = K, got {self.gate!r}")
        self.width = number("width", width, above=0.0)

    def _value(self, parts: Parts, block: Block) -> Array:
        z = self.gate.score.value(*parts[:2], parts.shared, block.x)
        return self._mixed(z, self.expert.value(parts.expert, block.x))[0]

    def _jacobian(self, parts: Parts, block: Block) -> tuple[Array, Array]:
        z, D = self.gate.score.derivatives(*parts[:2], parts.shared, block.x)
        h, E = self.expert.derivatives(parts.expert, block.x)
        f, w, c = self._mixed(z, h)
        p, n = parts.router.shape[1], block.x.shape[1]
        pieces = (
            (c[:, None] * D[:, :p]).reshape(-1, n),
            c * D[:, p],
            (w[:, None] * E).reshape(-1, n),
            np.einsum("in,isn->sn", c, D[:, p + 1 :]),
        )
        return f, np.concatenate(pieces)[parts.free]

    def _second_order(self, parts, block, sums):
        raise ValueError("newton: expected False, a smoothed top-K gate has first derivatives only")

    def _mixed(self, z: Array, h: Array) -> tuple[Array, Array, Array]:
        """f, the weights of the experts, and the derivatives of f in the scores."""
        sets = np.array(list(itertools.combinations(range(len(z)), self.gate.top)))
        chosen = z[sets]  # (sets, K, n)
        log_P = chosen.sum(axis=1) / self.width
        P = np.exp(log_P - logsumexp(log_P, axis=0))
        inside = np.exp(chosen - chosen.max(axis=1, keepdims=True))
        inside /= inside.sum(axis=1, keepdims=True)
        f_set = np.einsum("sjn,sjn->sn", inside, h[sets])
        f = np.einsum("sn,sn->n", P, f_set)
        w, c, moves = np.zeros_like(z), np.zeros_like(z), (f_set - f) / self.width
        for j in range(self.gate.top):
            np.add.at(w, sets[:, j], P * inside[:, j])
            np.add.at(c, sets[:, j], P * (moves + inside[:, j] * (h[sets[:, j]] - f_set)))
        return f, w, c
