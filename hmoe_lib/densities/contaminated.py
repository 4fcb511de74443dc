"""A known density with a prompt: the contaminated mixture of experts."""

from __future__ import annotations

import numpy as np

from hmoe_lib.arguments import number, real_array
from hmoe_lib.densities.laws import Gaussian
from hmoe_lib.densities.moe import MixtureDensity, coordinate_index
from hmoe_lib.densities.terms import Terms
from hmoe_lib.experts import Neuron, expert
from hmoe_lib.gates import Linear
from hmoe_lib.mixing import Layout, MixingMeasure

Array = np.ndarray

__all__ = ["ContaminatedMoE"]


class ContaminatedMoE(MixtureDensity):
    r"""A known density f0 beside one normal expert, the prompt, whose share is a sigmoid.

    Parameters
    ----------
    known : callable
        ``known(x, y)`` returns log f0(y | x), for x features first (d, B) and y (B,).
    mean : Neuron, str, default "tanh" without bias
        The mean h(x, eta) of the prompt.
    draw_known : callable, optional
        ``draw_known(x, rng)`` returns draws of f0, (B,); ``sample`` needs it.

    Notes
    -----
    .. math:: p_G(y \mid x) = (1 - \lambda) f_0(y \mid x) + \lambda N(y \mid h(x, \eta), \nu),
        \qquad \lambda = \sigma(\beta_1^\top x + \beta_0)

    G has one atom. With a constant share its router is 0 and pinned (:meth:`pinned`), and its
    bias is :math:`\log(\lambda / (1 - \lambda))`; the expert row ends with :math:`\log \nu`.

    References
    ----------
    arXiv 2410.12258.

    Examples
    --------
    >>> flat = ContaminatedMoE(lambda x, y: np.zeros(len(y)))
    >>> G = flat.prompt(0.5, [0.0], 1.0)
    >>> flat.log_density(G, [[1.0]], [0.0]).round(4)
    array([-0.3574])
    """

    def __init__(self, known, mean: str | Neuron | None = None, draw_known=None) -> None:
        for name, function in (("known", known), ("draw_known", draw_known)):
            if not callable(function) and (name == "known" or function is not None):
                raise ValueError(f"{name}: expected a function, got {function!r}")
        mean = expert("tanh", bias=False) if mean is None else expert(mean)
        self.known, self.draw_known, self.law = known, draw_known, Gaussian(mean)

    def prompt(self, share: float, eta, variance: float) -> MixingMeasure:
        """Return the pinned measure of a constant share in (0, 1), a mean and a variance."""
        share, variance = number("share", share, above=0.0), number("variance", variance, above=0.0)
        if share >= 1.0:
            raise ValueError(f"share: expected a number between 0 and 1, got {share!r}")
        eta = real_array("eta", eta, "a vector of numbers")
        d = eta.size - (self.law.mean.size(1) - 1)
        logit = np.log(share) - np.log1p(-share)
        expert_row = np.append(eta, np.log(variance))[None]
        return self.pinned(MixingMeasure(np.zeros((1, d)), [logit], expert_row))

    def pinned(self, G: MixingMeasure) -> MixingMeasure:
        """Return the measure with its router held."""
        return G.pinned_for((np.ones(G.router.shape, bool), np.zeros(1, bool), np.zeros(0, bool)))

    def terms(self, layout: Layout, theta: Array, x: Array, y: Array) -> Terms:
        """Return the terms of a block: the known density is the first atom, without parameters."""
        router, bias, eta, shared = layout.split(theta)[:4]
        z, D = Linear().derivatives(router, bias, shared, x)
        f, E, second = self.law.expand(eta, x, y)
        m, q = D.shape[1], D.shape[1] + E.shape[1]

        def curvature(r: Array, pi: Array) -> Array:
            H = np.zeros((2, q, q))
            H[1:, m:, m:] = second(r[1:])
            return H

        s = np.concatenate([np.zeros_like(z), z])
        J = np.zeros((2, q, x.shape[1]))
        J[1] = np.concatenate([D[0], E[0]])
        index = np.full((2, q), layout.size)
        index[1] = coordinate_index(layout)[0]
        return Terms(s + np.vstack([self.known(x, y), f]), s, J, index, m, curvature)

    def levels(self, G: MixingMeasure, x: Array, y: Array) -> tuple[Array, Array]:
        """Return u and s of a block, the known density first."""
        z = Linear().value(G.router, G.bias, G.shared, x)
        s = np.concatenate([np.zeros_like(z), z])
        return s + np.vstack([self.known(x, y), self.law.log(G.expert, x, y)]), s

    def _check_sizes(self, G: MixingMeasure, d: int) -> None:
        q = self.law.size(d)
        found = (G.atoms, G.router.shape[1], G.expert.shape[1])
        if found != (1, d, q):
            raise ValueError(f"G: expected one atom, router (1, {d}), expert (1, {q}), got {found}")

    def _draw(self, G: MixingMeasure, x: Array, rng: np.random.Generator) -> Array:
        if self.draw_known is None:
            raise ValueError("draw_known: sampling needs a function that draws from f0, got None")
        z = Linear().value(G.router, G.bias, G.shared, x)[0]
        prompt = rng.random(x.shape[1]) < 1.0 / (1.0 + np.exp(-z))
        return np.where(prompt, self.law.draw(G.expert, x, rng)[0], self.draw_known(x, rng))
