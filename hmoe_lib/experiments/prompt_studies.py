"""Rates of the contaminated model, whose truth may move with the sample size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hmoe_lib.cell_losses import contamination_loss
from hmoe_lib.densities import ContaminatedMoE
from hmoe_lib.estimation import Box, fit_likelihood
from hmoe_lib.experiments.density_studies import Study
from hmoe_lib.mixing import MixingMeasure

Array = np.ndarray

__all__ = ["PromptStudy"]


@dataclass(frozen=True)
class PromptStudy(Study):
    r"""Fits of the contaminated model at several sizes, with a truth that may move.

    Parameters
    ----------
    name : str
        Origin of its random numbers and stem of its files.
    known : {"laplace", "normal"}
        Form of f0, around tanh(x_1) with scale or standard deviation ``scale``.
    share, variance : float
        The true share is ``share * (n / base)^(-share_exponent)``; nu* does not move.
    eta : tuple of float
        The true eta is eta times ``1 + away (n / base)^(-eta_exponent)``.
    base : int
        See above.
    sizes, runs : tuple of int, int
        Sample sizes, and data sets a size.
    """

    name: str
    known: str
    scale: float
    share: float
    eta: tuple[float, ...]
    variance: float
    sizes: tuple[int, ...]
    runs: int
    base: int = 1000
    share_exponent: float = 0.0
    away: float = 0.0
    eta_exponent: float = 0.0

    def settings(self) -> dict:
        """Return all that determines the numbers, as plain values."""
        return {**vars(self), "sizes": list(self.sizes), "eta": list(self.eta)}

    def model(self) -> ContaminatedMoE:
        """Return the density; inputs are standard normal."""
        log_f0, draw = KNOWN[self.known](self.scale)
        return ContaminatedMoE(log_f0, draw_known=draw)

    def truth(self, n: int) -> MixingMeasure:
        """Return the truth of size n."""
        ratio = n / self.base
        eta = np.array(self.eta) * (1.0 + self.away * ratio**-self.eta_exponent)
        share = self.share * ratio**-self.share_exponent
        return self.model().prompt(share, eta, self.variance)

    def known_row(self) -> Array | None:
        """Return (eta_0, log nu_0) where f0 has the prompt's form."""
        if self.known != "normal":
            return None
        return np.array([1.0, *np.zeros(len(self.eta) - 1), 2.0 * np.log(self.scale)])

    def replicate(self, n: int, rng: np.random.Generator) -> dict[str, float]:
        """Draw one data set of size n, fit it, and return what is measured."""
        model, truth = self.model(), self.truth(n)
        X = rng.standard_normal((n, len(self.eta)))
        y = model.sample(truth, X, rng=rng)
        start = truth.from_vector(truth.to_vector() + self._offset(truth, rng))
        fit = fit_likelihood(model, X, y, start, self.box(truth))
        fitted, true = (1.0 / (1.0 + np.exp(-G.bias[0])) for G in (fit.measure, truth))
        delta = fit.measure.expert[0] - truth.expert[0]
        variance = np.exp(fit.measure.expert[0, -1])
        return {
            "share": abs(float(fitted - true)),
            "eta": float(np.linalg.norm(delta[:-1])),
            "nu": abs(float(variance - self.variance)),
            "loss": contamination_loss(fit.measure, truth, self.known_row()),
            "converged": float(fit.converged),
            "iterations": float(fit.iterations),
        }

    def box(self, truth: MixingMeasure) -> Box:
        """Return the box of a fit: share in [1e-4, 0.999], |eta| <= 6, log nu within 3."""
        at = truth.shape.slices
        lower, upper = np.full(truth.shape.size, -6.0), np.full(truth.shape.size, 6.0)
        lower[at["bias"]], upper[at["bias"]] = np.log(1e-4 / 0.9999), np.log(0.999 / 0.001)
        log_nu = truth.expert[0, -1]
        lower[-1], upper[-1] = log_nu - 3.0, log_nu + 3.0
        return Box(lower, upper)

    def standard_errors(self, n: int, X: Array, rng: np.random.Generator) -> dict[str, float]:
        """Return the Cramér-Rao standard errors at the truth of size n, for n samples.

        The Fisher information is averaged over X and one draw at each row; the errors are those
        of the share, of eta (root of the trace) and of nu.
        """
        truth = self.truth(n)
        information = self.model().fisher_information(truth, X, rng=rng) * n
        covariance = np.linalg.inv(information)
        share = 1.0 / (1.0 + np.exp(-truth.bias[0]))
        return {
            "share": float(np.sqrt(covariance[0, 0]) * share * (1.0 - share)),
            "eta": float(np.sqrt(np.trace(covariance[1:-1, 1:-1]))),
            "nu": float(np.sqrt(covariance[-1, -1]) * self.variance),
        }

    def _offset(self, truth: MixingMeasure, rng: np.random.Generator) -> Array:
        # 30 % on share and variance; eta moves by 0.3 of its distance to eta_0 and at most 0.3.
        apart = np.linalg.norm(truth.expert[0, :-1] - np.eye(len(self.eta))[0])
        size = np.full(truth.shape.size, 0.3 * min(1.0, float(apart)))
        size[0] = size[-1] = 0.3
        return size * rng.uniform(-1.0, 1.0, size.size)


def _laplace(scale: float) -> tuple[Callable, Callable]:
    def log_f0(x: Array, y: Array) -> Array:
        return -np.abs(y - np.tanh(x[0])) / scale - np.log(2.0 * scale)

    def draw(x: Array, rng: np.random.Generator) -> Array:
        return np.tanh(x[0]) + rng.laplace(scale=scale, size=x.shape[1])

    return log_f0, draw


def _normal(scale: float) -> tuple[Callable, Callable]:
    def log_f0(x: Array, y: Array) -> Array:
        return -0.5 * ((y - np.tanh(x[0])) / scale) ** 2 - np.log(scale * np.sqrt(2.0 * np.pi))

    def draw(x: Array, rng: np.random.Generator) -> Array:
        return np.tanh(x[0]) + scale * rng.standard_normal(x.shape[1])

    return log_f0, draw


KNOWN = {"laplace": _laplace, "normal": _normal}
