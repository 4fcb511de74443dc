"""Gates: weights from the k scores, by a softmax or a sigmoid. Arrays are features first."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit, logsumexp

from hmoe_lib.gates.scores import Linear, Score

Array = np.ndarray

__all__ = ["Gate", "Sigmoid", "Softmax"]


@dataclass(frozen=True)
class Gate:
    """Weights from scores; use :class:`Softmax` or :class:`Sigmoid`.

    h (k, n) are values of the experts: f = sum_i w_i h_i is what a gate can be differentiated in.
    """

    score: Score = field(default_factory=Linear)

    def pins(self, router: Array) -> tuple[Array, Array, Array]:
        """Return masks of router (k, p), bias (k,) and shared (s,): what invariances pin."""
        raise NotImplementedError

    def check(self, atoms: int) -> None:
        """Refuse a number of atoms that the gate cannot serve."""

    def weights(self, z: Array) -> Array:
        """Return the weights w, (k, n)."""
        raise NotImplementedError

    def first(self, w: Array, h: Array) -> Array:
        """Return the derivatives of f in the scores, (k, n)."""
        raise NotImplementedError

    def cross(self, w: Array) -> Array:
        """Return the derivatives of weight j in score i at [i, j], (k, k, n)."""
        raise NotImplementedError

    def second(self, w: Array, h: Array) -> Array:
        """Return the second derivatives of f in the scores, (k, k, n)."""
        raise NotImplementedError


@dataclass(frozen=True)
class Softmax(Gate):
    r"""Weights that compete: :math:`w_i = e^{z_i} / \sum_j e^{z_j}`.

    Parameters
    ----------
    score : Score
        The formula of the scores.
    top : int, optional
        Keep the K largest scores, the others become minus infinity; ties go to the lowest index.
        Derivatives are those inside a region where the selected set does not change.

    Examples
    --------
    >>> Softmax(Linear(), top=1).weights(np.array([[0.0, 3.0], [1.0, 2.0]]))
    array([[0., 1.],
           [1., 0.]])
    """

    top: int | None = None

    def __post_init__(self) -> None:
        whole = isinstance(self.top, int | np.integer) and not isinstance(self.top, bool)
        if self.top is not None and not (whole and self.top >= 1):
            raise ValueError(f"top: expected an integer >= 1 or None, got {self.top!r}")

    def check(self, atoms: int) -> None:
        """Refuse K > k."""
        if self.top is not None and self.top > atoms:
            raise ValueError(f"top: expected at most k = {atoms} atoms, got {self.top}")

    def pins(self, router: Array) -> tuple[Array, Array, Array]:
        """Return the score's pins: a softmax does not see what all scores have in common."""
        return self.score.pins(router)

    def log_weights(self, z: Array) -> Array:
        """Return the logarithms of the weights, minus infinity where not selected."""
        kept = self._kept(z)
        return kept - logsumexp(kept, axis=0)

    def weights(self, z: Array) -> Array:
        """Return the weights, which sum to one."""
        kept = self._kept(z)
        w = np.exp(kept - kept.max(axis=0))
        return w / w.sum(axis=0)

    def first(self, w: Array, h: Array) -> Array:
        """Return w_i (h_i - f)."""
        return w * (h - np.einsum("in,in->n", w, h))

    def cross(self, w: Array) -> Array:
        """Return w_i (delta_ij - w_j)."""
        C = -w[:, None] * w
        C[np.arange(len(w)), np.arange(len(w))] += w
        return C

    def second(self, w: Array, h: Array) -> Array:
        """Return delta_ij w_i g_i - w_i w_j (g_i + g_j) with g = h - f."""
        gap = h - np.einsum("in,in->n", w, h)
        S = -(w[:, None] * w) * (gap[:, None] + gap)
        S[np.arange(len(w)), np.arange(len(w))] += w * gap
        return S

    def _kept(self, z: Array) -> Array:
        if self.top is None or self.top >= len(z):
            return z
        order = np.argsort(-z, axis=0, kind="stable")
        kept = np.full_like(z, -np.inf)
        chosen = order[: self.top]
        np.put_along_axis(kept, chosen, np.take_along_axis(z, chosen, axis=0), axis=0)
        return kept


@dataclass(frozen=True)
class Sigmoid(Gate):
    r"""Weights without competition, :math:`w_i = 1 / (1 + e^{-z_i})`; nothing is pinned."""

    def pins(self, router: Array) -> tuple[Array, Array, Array]:
        """Return empty masks: every score counts by itself."""
        return np.zeros(router.shape, bool), np.zeros(len(router), bool), np.zeros(0, bool)

    def weights(self, z: Array) -> Array:
        """Return the weights, each in (0, 1)."""
        return expit(z)

    def first(self, w: Array, h: Array) -> Array:
        """Return w_i (1 - w_i) h_i."""
        return w * (1.0 - w) * h

    def cross(self, w: Array) -> Array:
        """Return w_i (1 - w_i) on the diagonal."""
        return np.eye(len(w))[..., None] * (w * (1.0 - w))

    def second(self, w: Array, h: Array) -> Array:
        """Return w_i (1 - w_i)(1 - 2 w_i) h_i on the diagonal."""
        return np.eye(len(w))[..., None] * (w * (1.0 - w) * (1.0 - 2.0 * w) * h)
