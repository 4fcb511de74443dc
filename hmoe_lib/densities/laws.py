"""Densities of a response given an expert: Gaussian and multinomial, with two derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hmoe_lib.experts import Neuron, expert

Array = np.ndarray

__all__ = ["Expanded", "Gaussian", "Multinomial"]

LOG_2PI = float(np.log(2.0 * np.pi))


class Expanded(NamedTuple):
    """Log densities f (k, B), derivatives (k, q, B), and the weighted sums of second ones.

    ``curvature(w)`` returns the sum over samples of w (k, B) times the second derivatives of f,
    shape (k, q, q).
    """

    f: Array
    jacobian: Array
    curvature: Callable[[Array], Array]


@dataclass(frozen=True)
class Gaussian:
    r"""Normal density around the mean of an expert, :math:`N(y \mid h(x, \eta), \nu)`.

    Parameters
    ----------
    mean : Neuron, default affine
        :math:`h(x, \eta)`, by default :math:`a^\top x + b`.

    Notes
    -----
    The coordinates of an atom are those of the mean, then :math:`\log \nu`.

    Examples
    --------
    >>> f, *_ = Gaussian().expand(np.array([[1.0, 0.0, 0.0]]), np.ones((1, 1)), np.ones(1))
    >>> round(float(f[0, 0]), 6)
    -0.918939
    """

    mean: Neuron = field(default_factory=lambda: expert("affine"))

    def size(self, d: int) -> int:
        """Return q, the coordinates of one atom."""
        return self.mean.size(d) + 1

    def log(self, eta: Array, x: Array, y: Array) -> Array:
        """Return the log densities (k, B)."""
        log_nu = eta[:, -1:]
        square = (y - self.mean.value(eta[:, :-1], x)) ** 2 * np.exp(-log_nu)
        return -0.5 * (LOG_2PI + log_nu + square)

    def expand(self, eta: Array, x: Array, y: Array) -> Expanded:
        """Return the log densities with two derivatives."""
        h, E = self.mean.derivatives(eta[:, :-1], x)
        log_nu = eta[:, -1:]
        precision = np.exp(-log_nu)
        e = (y - h) * precision  # residual over variance
        square = e * (y - h)
        J = np.concatenate([E * e[:, None], 0.5 * (square - 1.0)[:, None]], axis=1)

        def curvature(w: Array) -> Array:
            H = np.empty((len(J), J.shape[1], J.shape[1]))
            H[:, :-1, :-1] = (E * (-precision * w)[:, None]) @ E.swapaxes(1, 2)
            if self.mean.phi.name != "identity" or self.mean.amplitude:
                H[:, :-1, :-1] += np.einsum("kpqn,kn->kpq", self.mean.second(eta[:, :-1], x), w * e)
            H[:, -1, :-1] = H[:, :-1, -1] = -(E @ (w * e)[..., None])[..., 0]
            H[:, -1, -1] = -0.5 * np.sum(w * square, axis=1)
            return H

        return Expanded(-0.5 * (LOG_2PI + log_nu + square), J, curvature)

    def draw(self, eta: Array, x: Array, rng: np.random.Generator) -> Array:
        """Return a response of every atom at every input, (k, B)."""
        h = self.mean.value(eta[:, :-1], x)
        return h + np.exp(0.5 * eta[:, -1:]) * rng.standard_normal(h.shape)


@dataclass(frozen=True)
class Multinomial:
    r"""Multinomial logistic regression, :math:`\mathrm{softmax}_s(d_s^\top x + l_s)`, S classes.

    Parameters
    ----------
    classes : int
        S >= 2; the last class has d = 0 and l = 0.

    Notes
    -----
    The coordinates of an atom are (d_1, l_1), ..., (d_{S-1}, l_{S-1}).

    Examples
    --------
    >>> f, *_ = Multinomial(2).expand(np.zeros((1, 2)), np.ones((1, 1)), np.array([1]))
    >>> bool(np.isclose(f[0, 0], -np.log(2)))
    True
    """

    classes: int

    def size(self, d: int) -> int:
        """Return q, the coordinates of one atom."""
        return (self.classes - 1) * (d + 1)

    def log_probabilities(self, eta: Array, x: Array) -> Array:
        """Return the log probability of every class, (k, S, B)."""
        slopes = eta.reshape(len(eta), self.classes - 1, -1)
        z = np.zeros((len(eta), self.classes, x.shape[1]))
        z[:, :-1] = slopes[..., :-1] @ x + slopes[..., -1:]
        z -= z.max(axis=1, keepdims=True)
        z -= np.log(np.exp(z).sum(axis=1, keepdims=True))
        return z

    def log(self, eta: Array, x: Array, y: Array) -> Array:
        """Return the log probabilities of the observed classes, (k, B)."""
        return self.log_probabilities(eta, x)[:, y, np.arange(len(y))]

    def expand(self, eta: Array, x: Array, y: Array) -> Expanded:
        """Return the log probabilities of the observed classes with two derivatives."""
        log_p = self.log_probabilities(eta, x)
        p = np.exp(log_p[:, :-1])  # (k, S-1, B)
        features = np.vstack([x, np.ones(x.shape[1])])
        residual = (y == np.arange(self.classes - 1)[:, None]) - p
        k, q = len(eta), self.size(len(x))
        J = (residual[:, :, None] * features).reshape(k, q, -1)

        def curvature(w: Array) -> Array:
            inner = p[:, :, None] * p[:, None]  # (k, S-1, S-1, B)
            inner[:, range(p.shape[1]), range(p.shape[1])] -= p
            weighted = (inner * w[:, None, None])[:, :, :, None] * features
            blocks = weighted @ features.T  # (k, s, t, p, q)
            return blocks.transpose(0, 1, 3, 2, 4).reshape(k, q, q)

        return Expanded(log_p[:, y, np.arange(len(y))], J, curvature)

    def draw(self, eta: Array, x: Array, rng: np.random.Generator) -> Array:
        """Return a class of every atom at every input, (k, B)."""
        below = np.cumsum(np.exp(self.log_probabilities(eta, x)), axis=1)[:, :-1]
        return (rng.random((len(eta), 1, x.shape[1])) > below).sum(axis=1)
