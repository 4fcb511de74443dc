"""Gradient descent with a backtracking line search: the optimiser of the paper's experiments."""

from __future__ import annotations

import numpy as np

from hmoe_lib.arguments import number
from hmoe_lib.blocks import Samples
from hmoe_lib.estimation.bounds import Box
from hmoe_lib.estimation.result import FitResult, make_result
from hmoe_lib.estimation.setup import prepare
from hmoe_lib.measures import HierarchicalMeasure
from hmoe_lib.mixing import MixingMeasure

__all__ = ["fit_gradient_descent"]

ARMIJO = 1e-4  # share of the promised decrease that a step must deliver
HALVINGS = 40  # after these the step is below rounding


def fit_gradient_descent(
    model,
    X,
    y,
    start: HierarchicalMeasure | MixingMeasure,
    step: float = 0.05,
    max_epochs: int = 1000,
    bounds: Box | None = None,
    tolerance: float = 1e-9,
) -> FitResult:
    r"""Minimise the mean squared residual by gradient descent with backtracking.

    Parameters
    ----------
    model : HierarchicalModel or FlatModel
        Model to fit.
    X : array_like, shape (n, d), or Samples
    y : array_like, shape (n,), or None
    start : HierarchicalMeasure or MixingMeasure
        First iterate.
    step : float, default 0.05
        Step tried first in every epoch; halved until the Armijo condition holds.
    max_epochs : int, default 1000
        Largest number of steps.
    bounds : Box, optional
        By default only omega >= 0.
    tolerance : float, default 1e-9
        Converged when a full step would lower the loss by less than this fraction of it.

    Returns
    -------
    FitResult

    Raises
    ------
    ValueError
        For data or a start that do not fit each other, and n smaller than the number of
        parameters.

    Notes
    -----
    :math:`\theta_{t+1} = \Pi(\theta_t - \eta \nabla L(\theta_t))`, :math:`\eta` the largest of
    ``step``, ``step``/2, ... with :math:`L(\theta_{t+1}) \le L(\theta_t) -
    10^{-4} \|\theta_{t+1} - \theta_t\|^2 / \eta`.

    References
    ----------
    Section 5 of the paper, training procedure (at most 1000 epochs, learning rate 0.05).

    Examples
    --------
    >>> from hmoe_lib.models import Mha
    >>> truth = HierarchicalMeasure([[1.0]], np.zeros((1, 1, 1, 1)), [[[[2.0]]]])
    >>> X, y = Mha().sample(truth, 50, noise_sd=0.0, rng=np.random.default_rng(0))
    >>> start = HierarchicalMeasure([[1.0]], np.zeros((1, 1, 1, 1)), [[[[1.0]]]])
    >>> fit_gradient_descent(Mha(), X, y, start).loss < 1e-6
    True
    """
    step = number("step", step, above=0.0)
    bounds = Box.nonnegative_weights(start) if bounds is None else bounds
    samples, theta = prepare(model, X, y, start, bounds, max_epochs, tolerance)
    shape = start.shape
    loss, gradient = model.loss_and_gradient_at(theta, shape, samples)
    history, status = [loss], "out of steps"
    if not np.isfinite(loss):
        return make_result(start, bounds, theta, "diverged", [np.inf], np.zeros_like(theta))
    for _ in range(max_epochs):
        full = bounds.clip(theta - step * gradient) - theta
        if -(gradient @ full) <= tolerance * loss:
            status = "converged"
            break
        moved = _backtrack(model, theta, shape, samples, loss, gradient, step, bounds)
        if moved is None:
            status = "stalled"
            break
        theta, loss, gradient = moved
        history.append(loss)
    return make_result(start, bounds, theta, status, history, gradient)


def _backtrack(model, theta, shape, samples: Samples, loss, gradient, step, bounds: Box):
    """Return the first acceptable point along the projected gradient with loss and gradient."""
    for _ in range(HALVINGS):
        trial = bounds.clip(theta - step * gradient)
        required = ARMIJO * np.sum((trial - theta) ** 2) / step
        # With the gradient at once: most first trials are accepted, and then need it.
        there = model.loss_and_gradient_at(trial, shape, samples)
        if there[0] <= loss - required:
            return trial, *there
        step *= 0.5
    return None
