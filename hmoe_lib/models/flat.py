"""Flat mixtures of experts as regressions: any gate, any neuron."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hmoe_lib.arguments import number
from hmoe_lib.blocks import Block, Samples
from hmoe_lib.experts import Neuron, expert
from hmoe_lib.gates import Gate, gate
from hmoe_lib.mixing import Layout, MixingMeasure, Parts
from hmoe_lib.models.base import RegressionModel

Array = np.ndarray

__all__ = ["FlatModel"]


class _Sums(NamedTuple):
    r"""Sums of :math:`r\, \partial^2 f` over all parameters, pinned ones included."""

    whole: Array

    def matrix(self, shape: Layout) -> Array:
        return self.whole[np.ix_(shape.free, shape.free)]


class FlatModel(RegressionModel):
    r"""A mixture of experts with one gate and k atoms.

    Parameters
    ----------
    gate : str or Gate
        Gate, or the name of one in :data:`hmoe_lib.gates.GATES`.
    expert : str or Neuron
        Expert, or its name, see :func:`hmoe_lib.experts.expert`.

    Raises
    ------
    ValueError
        For an unknown name; the closest one is suggested.

    Notes
    -----
    .. math:: f_G(x) = \sum_{i=1}^k w_i(x)\, h(x, \eta_i),

    with w the softmax, perhaps of the K largest, or the sigmoid of the scores.

    Examples
    --------
    >>> model = FlatModel("linear", "tanh")
    >>> G = MixingMeasure([[1.0], [0.0]], [0.0, 0.0], [[1.0, 0.0], [-1.0, 0.0]])
    >>> model.predict(G, [[0.0], [1.0]]).round(3)
    array([0.   , 0.352])
    """

    def __init__(self, gate: str | Gate, expert: str | Neuron) -> None:
        self.gate = _GATE(gate)
        self.expert = _EXPERT(expert)

    def matching(self, G: MixingMeasure, samples: Samples) -> Samples:
        """Return the samples, or refuse a measure of another gate, expert or dimension."""
        if not isinstance(G, MixingMeasure):
            raise ValueError(f"G: expected a MixingMeasure, got {type(G).__name__}")
        d, score = samples.dim, self.gate.score
        wanted = {
            "router": (G.atoms, score.router_size(d)),
            "expert": (G.atoms, self.expert.size(d)),
            "shared": (score.shared,),
        }
        for name, shape in wanted.items():
            if getattr(G, name).shape != shape:
                raise ValueError(
                    f"{name}: expected shape {shape} for inputs of dimension {d}, got "
                    f"{getattr(G, name).shape}"
                )
        self.gate.check(G.atoms)
        score.check(G.router, G.shared, samples.X.T)
        return samples

    def weights(self, G: MixingMeasure, X) -> Array:
        """Return the gate's weights at every row of X, shape (n, k)."""
        samples = self.matching(G, Samples(X))
        return self.gate.weights(self.gate.score.value(G.router, G.bias, G.shared, samples.X.T)).T

    def sample(
        self, G: MixingMeasure, X, noise_sd: float = 0.1, *, rng: np.random.Generator
    ) -> Array:
        """Return y = predict(G, X) plus Gaussian noise, shape (n,)."""
        if not isinstance(rng, np.random.Generator):
            raise ValueError(f"rng: expected a numpy Generator, got {type(rng).__name__}")
        f = self.predict(G, X)
        return f + number("noise_sd", noise_sd, least=0.0) * rng.standard_normal(f.size)

    # ---- the formula -------------------------------------------------------------------------

    def _value(self, parts: Parts, block: Block) -> Array:
        z = self.gate.score.value(*parts[:2], parts.shared, block.x)
        return np.einsum("in,in->n", self.gate.weights(z), self.expert.value(parts.expert, block.x))

    def _jacobian(self, parts: Parts, block: Block) -> tuple[Array, Array]:
        f, J, *_ = self._first(parts, block.x)
        return f, J[parts.free]

    def _first(self, parts: Parts, x: Array):
        """f, all its derivatives, and what the second ones need: w, h, D, E."""
        z, D = self.gate.score.derivatives(*parts[:2], parts.shared, x)
        h, E = self.expert.derivatives(parts.expert, x)
        w = self.gate.weights(z)
        c, p = self.gate.first(w, h), parts.router.shape[1]
        pieces = (
            (c[:, None] * D[:, :p]).reshape(-1, x.shape[1]),
            c * D[:, p],
            (w[:, None] * E).reshape(-1, x.shape[1]),
            np.einsum("in,isn->sn", c, D[:, p + 1 :]),
        )
        return np.einsum("in,in->n", w, h), np.concatenate(pieces), w, h, c, D, E

    def _no_curvature(self, shape: Layout) -> _Sums:
        return _Sums(np.zeros((shape.values.size, shape.values.size)))

    def _second_order(self, parts: Parts, block: Block, sums: _Sums) -> tuple[Array, Array]:
        f, J, w, h, c, D, E = self._first(parts, block.x)
        r = f - block.y
        k, p = parts.router.shape
        bias = k * p + np.arange(k)
        shared = k * (p + 1) + parts.expert.size + np.arange(parts.shared.size)
        gate_at = [np.r_[i * p : (i + 1) * p, bias[i], shared] for i in range(k)]
        expert_at = k * (p + 1) + np.arange(parts.expert.size).reshape(k, -1)
        between, cross = self.gate.second(w, h) * r, self.gate.cross(w) * r
        curved = self.gate.score.second(*parts[:2], parts.shared, block.x)
        bent = self.expert.second(parts.expert, block.x)
        for i in range(k):
            for j in range(k):
                _add(sums.whole, gate_at[i], gate_at[j], (D[i] * between[i, j]) @ D[j].T)
                mixed = (D[i] * cross[i, j]) @ E[j].T
                _add(sums.whole, gate_at[i], expert_at[j], mixed)
                _add(sums.whole, expert_at[j], gate_at[i], mixed.T)
            if curved is not None:
                _add(sums.whole, gate_at[i], gate_at[i], curved[i] @ (r * c[i]))
            _add(sums.whole, expert_at[i], expert_at[i], bent[i] @ (r * w[i]))
        return f, J[parts.free]


# The model's arguments have the names of these functions.
_GATE, _EXPERT = gate, expert


def _add(matrix: Array, rows: Array, columns: Array, values: Array) -> None:
    matrix[np.ix_(rows, columns)] += values
