"""Expectation maximisation with a Newton step for the gate: monotone, taught, and slow."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, lstsq

from hmoe_lib.blocks import BLOCK_SIZE
from hmoe_lib.densities import GaussianMoE, MixtureDensity
from hmoe_lib.densities.terms import log_density, lower_bound, responsibilities, surrogate
from hmoe_lib.estimation.bounds import Box
from hmoe_lib.estimation.likelihood import prepare_likelihood
from hmoe_lib.estimation.likelihood_result import LikelihoodFit, make_likelihood_fit
from hmoe_lib.estimation.steps import bounded_step
from hmoe_lib.mixing import MixingMeasure

Array = np.ndarray

__all__ = ["fit_em"]

HALVINGS = 30


def fit_em(
    model: MixtureDensity,
    X,
    y,
    start: MixingMeasure,
    bounds: Box | None = None,
    max_iterations: int = 1500,
    tolerance: float = 1e-8,
    newton_steps: int = 2,
    few_samples: bool = False,
) -> LikelihoodFit:
    r"""Maximise the likelihood by expectation maximisation.

    Parameters
    ----------
    model : MixtureDensity
        A density of the library.
    X : array_like, shape (n, d)
        Inputs.
    y : array_like, shape (n,)
        Responses.
    start : MixingMeasure
        First iterate, with its pins.
    bounds : Box, optional
        As for :func:`fit_likelihood`.
    max_iterations : int, default 1500
        Largest number of iterations.
    tolerance : float, default 1e-8
        Converged when an iteration gains less than this many units of log-likelihood. An
        over-fitted mixture gains ever less without being near its maximum: compare with
        :func:`fit_likelihood`.
    newton_steps : int, default 2
        Newton steps of an M-step, each halved until the lower bound does not fall.
    few_samples : bool, default False
        As for :func:`fit_likelihood`.

    Returns
    -------
    LikelihoodFit
        The history never falls, up to rounding.

    Raises
    ------
    ValueError
        As :func:`fit_likelihood`.

    Notes
    -----
    E: :math:`r_i = \mathrm{softmax}_i(u)`. M: :math:`Q = \sum r_i u_i - \mathrm{LSE}\, s` is
    raised; affine normal experts have their weighted least squares in closed form, all other
    parameters take Newton steps on Q inside the box.

    Examples
    --------
    >>> rng, model = np.random.default_rng(0), GaussianMoE()
    >>> G = MixingMeasure([[3.0], [0.0]], [0.0, 0.0], [[2.0, 0.0, -1.0], [-2.0, 1.0, -1.0]])
    >>> X = rng.uniform(-1, 1, (500, 1))
    >>> fit = fit_em(model, X, model.sample(G, X, rng=rng), model.pinned(G))
    >>> fit.status, bool(np.diff(fit.history).min() > -1e-9)
    ('converged', True)
    """
    X, y, theta, bounds = prepare_likelihood(
        model, X, y, start, bounds, max_iterations, tolerance, few_samples
    )
    layout = start.shape
    run = _Iteration(model, start, X, y, bounds)
    r, value = run.expect(theta)
    history, status = [value], None
    if not np.isfinite(value):
        history, status = [-np.inf], "diverged"
    while status is None and len(history) <= max_iterations:
        theta = run.maximise(theta, r, newton_steps)
        r, value = run.expect(theta)
        history.append(value)
        if history[-1] - history[-2] < max(tolerance, 1e-14 * abs(value)):
            status = "converged"
    gradient = np.zeros_like(theta)
    if status != "diverged":
        gradient = model.expansion_at(theta, layout, X, y).gradient
    status = status or "out of steps"
    return make_likelihood_fit(model, start, bounds, theta, status, history, gradient, (X, y))


class _Iteration:
    """The two halves of an iteration on checked data."""

    def __init__(self, model, start: MixingMeasure, X: Array, y: Array, box: Box) -> None:
        self.model, self.start, self.layout, self.box = model, start, start.shape, box
        self.blocks = [
            (np.ascontiguousarray(X[i : i + BLOCK_SIZE].T), y[i : i + BLOCK_SIZE])
            for i in range(0, len(X), BLOCK_SIZE)
        ]
        mean = model.law.mean if isinstance(model, GaussianMoE) else None
        self.affine = mean is not None and mean.phi.name == "identity" and not mean.amplitude

    def expect(self, theta: Array) -> tuple[list[Array], float]:
        """Return the responsibilities of each block and the log-likelihood."""
        weights, value = [], 0.0
        for u, s in self.levels(theta):
            weights.append(responsibilities(u, s)[0])
            value += float(log_density(u, s).sum())
        return weights, value

    def levels(self, theta: Array):
        G = self.start.from_vector(theta)
        return (self.model.levels(G, *block) for block in self.blocks)

    def maximise(self, theta: Array, r: list[Array], steps: int) -> Array:
        """Return parameters at which the lower bound is larger."""
        if self.affine:
            theta = self.regress(theta, r)
        for _ in range(steps):
            theta = self.newton(theta, r)
        return theta

    def bound(self, theta: Array, r: list[Array]):
        terms = (self.model.terms(self.layout, theta, *block) for block in self.blocks)
        return surrogate(terms, r, self.layout.size)

    def height(self, theta: Array, r: list[Array]) -> float:
        """Return the value of the lower bound."""
        return sum(lower_bound(*pair, w) for pair, w in zip(self.levels(theta), r, strict=True))

    def newton(self, theta: Array, r: list[Array]) -> Array:
        here = self.bound(theta, r)
        ridge = 1e-10 * np.abs(np.diag(here.hessian)).max() * np.eye(len(theta))
        for _ in range(12):  # a surrogate that is not concave here gets more ridge until it is
            try:
                step = bounded_step(theta, -here.gradient, here.hessian + ridge, self.box)
                break
            except LinAlgError:
                ridge = ridge * 10.0
        else:
            return theta
        for _ in range(HALVINGS):
            trial = self.box.clip(theta + step)
            if self.height(trial, r) >= here.value:
                return trial
            step = 0.5 * step
        return theta

    def regress(self, theta: Array, r: list[Array]) -> Array:
        """Weighted least squares for each affine expert, kept only where it is in the box."""
        whole = self.layout.values.copy()
        whole[self.layout.free] = theta
        _, _, eta, _ = self.layout.blocks(whole)  # a view: writing changes ``whole``
        x = np.concatenate([block[0] for block in self.blocks], axis=1)
        features = np.vstack([x, np.ones(x.shape[1])]) if self.model.law.mean.bias else x
        y = np.concatenate([block[1] for block in self.blocks])
        for i, w in enumerate(np.concatenate(r, axis=1)):
            root = np.sqrt(w)
            coefficients = lstsq((features * root).T, y * root)[0]
            square = w @ (y - coefficients @ features) ** 2
            if w.sum() > 0:
                eta[i, :-1] = coefficients
                eta[i, -1] = np.log(max(square / w.sum(), np.finfo(float).tiny))
        at_floor = self.box.clip(whole[self.layout.free])
        inside = np.isclose(at_floor, whole[self.layout.free], rtol=0, atol=0)
        log_nu = np.zeros(len(whole), bool)
        self.layout.blocks(log_nu)[2][:, -1] = True
        # A variance below its floor is best at the floor; anything else outside is not clipped
        # but left as it was, and the Newton step moves it.
        if not (inside | log_nu[self.layout.free]).all():
            return theta
        return at_floor
