"""Random small problems of every kind: no exception, no NaN, and no status that lies.

HMOE_SOAK problems are fitted, 40 by default; `make soak` and .ci/run fit 500.
"""

import os
from typing import NamedTuple

import numpy as np
import pytest
from checks import random_measure

import hmoe_lib as hl
from hmoe_lib.estimation import STATUSES

PROBLEMS = int(os.environ.get("HMOE_SOAK", "40"))
ACTIVATIONS = (
    "sigmoid",
    "tanh",
    "gelu",
    "silu",
    "relu",
    "sin",
    "power2",
    "power3",
    "softplus",
    "exp",
)
STEPS = {hl.fit_least_squares: "max_iterations", hl.fit_gradient_descent: "max_epochs"}
GAIN = 0.01  # the default of fit_least_squares, in units of log-likelihood
NOTHING = 1.92  # units: no test at level 0.95 of one parameter would tell two fits apart


class Problem(NamedTuple):
    model: object
    X: np.ndarray
    y: np.ndarray
    start: hl.HierarchicalMeasure
    box: hl.Box


def scale(rng):
    """A size between 1e-3 and 1e3."""
    return 10 ** rng.uniform(-3, 3)


def problem(seed):
    """Shapes, truths, starts, boxes and scales at random, all from one seed."""
    rng = np.random.default_rng(seed)
    phi = hl.activation(ACTIVATIONS[seed % len(ACTIVATIONS)], bias=rng.normal())
    model = (hl.Mha(), hl.ValueGated(phi), hl.OutputGated(phi))[seed % 3]
    size = {letter: int(rng.integers(1, 4)) for letter in "HNKd"}
    truth = random_measure(rng, **size, spread=scale(rng))
    start = (
        hl.near_truth_start(truth, size["K"] + int(rng.integers(0, 3)), scale(rng), rng=rng)
        if rng.uniform() < 0.5
        else random_measure(rng, **size, spread=scale(rng))
    )
    n = start.shape.size * int(rng.integers(1, 5)) + int(rng.integers(0, 30))
    X = scale(rng) ** rng.choice([0.0, 0.5]) * rng.uniform(-1, 1, (n, truth.dim))
    try:
        y = model.predict(truth, X)
    except ValueError:  # the truth itself overflows there
        y = np.zeros(n)
    y = y + rng.choice([0.0, 1.0]) * scale(rng) * rng.standard_normal(n)
    boxes = (hl.Box.around(start), hl.Box.around(start, 1.0 + scale(rng)))
    boxes = (*boxes, hl.Box.nonnegative_weights(start))
    return Problem(model, X, y, start, boxes[int(rng.integers(3))])


class Truth(NamedTuple):
    """What the fit's end looks like to code that shares nothing with the estimators' loops."""

    loss: float
    gradient: np.ndarray
    promise: float  # decrease that the undamped quadratic promises, over the loss
    best: float  # largest decrease found along damped steps and the gradient, over the loss


def losses(at, theta):
    try:
        G = at.start.from_vector(theta)
        return float(np.mean((at.model.predict(G, at.X) - at.y) ** 2))
    except ValueError:
        return np.inf


def look(at, fit, box):
    with np.errstate(all="ignore"):
        theta = fit.measure.to_vector()
        residual = at.model.predict(fit.measure, at.X) - at.y
        J = at.model.jacobian(fit.measure, at.X)
        loss, gradient = np.mean(residual**2), 2.0 * J.T @ residual / len(residual)
        free = ~box.outward(theta, -gradient)
        size = np.linalg.norm(J, axis=0)
        free &= size > 0
        if not free.any() or loss == 0.0:
            return Truth(float(loss), gradient, 0.0, 0.0)
        scaled = J[:, free] / size[free]
        U, s, Vt = np.linalg.svd(scaled, full_matrices=False)
        inside = U.T @ residual
        promise = np.sum(inside[s > 1e-7 * s[0]] ** 2) / (len(residual) * loss)
        best = 0.0
        for damping in 10.0 ** np.arange(-14, 5):
            step = np.zeros_like(theta)
            step[free] = -(Vt.T @ (s / (s**2 + damping) * inside)) / size[free]
            best = max(best, 1.0 - losses(at, box.clip(theta + step)) / loss)
    return Truth(float(loss), gradient, float(promise), float(best))


def check_status(at, fit, limit, descent):
    """Every field of a result against what an independent look at its end says."""
    theta, box = fit.measure.to_vector(), at.box
    assert fit.status in STATUSES
    assert np.isfinite(theta).all()
    assert np.all((theta >= box.lower) & (theta <= box.upper))
    assert np.array_equal(fit.at_bound, (theta <= box.lower) | (theta >= box.upper))
    assert np.all(np.diff(fit.history) <= 0)
    assert fit.iterations == len(fit.history) - 1 <= limit
    if fit.status == "diverged":
        G = at.start
        with np.errstate(all="ignore"):
            normal = at.model.normal_equations(G, at.X, at.y)
        assert not np.isfinite(normal.loss)
        assert np.array_equal(theta, G.to_vector())
        return
    if fit.loss > 1e100:  # squares of derivatives beyond the precision of any step
        return
    truth = look(at, fit, box)
    if fit.loss <= 1e-18 * np.mean(at.y**2):  # near rounding, where gains are no statistics
        assert fit.status != "stalled" or fit.loss > 1e-24 * np.mean(at.y**2)
        return
    assert truth.loss == pytest.approx(fit.loss, rel=1e-9)
    sizes = 1e-9 * np.sqrt(fit.loss) + 1e-13 * np.sqrt(np.mean(at.y**2))
    rounding = 1e-9 * np.abs(truth.gradient).max() + sizes * _reach(at, fit)
    assert np.abs(truth.gradient - fit.gradient).max() <= rounding
    if fit.status == "out of steps":
        assert fit.iterations == limit
    elif fit.status == "hit bounds":
        assert fit.at_bound.any()
    elif fit.status == "converged":
        assert not fit.at_bound.any()
    if fit.converged:
        assert _settled(at, fit, truth, descent), truth
    if fit.status == "stalled":
        assert truth.promise > 1e-9
        assert descent or truth.best * len(at.y) / 2 < NOTHING, truth


def _reach(at, fit):
    """How far one sample moves with a parameter: the size of the terms of the gradient."""
    return np.abs(at.model.jacobian(fit.measure, at.X)).max()


def _settled(at, fit, truth, descent):
    """Whether nothing is promised, the loss is nothing, or what steps gain does not matter."""
    n = len(at.y)
    if descent:  # its own step, 0.05, and its own tolerance
        theta = fit.measure.to_vector()
        full = at.box.clip(theta - 0.05 * fit.gradient) - theta
        return -(fit.gradient @ full) <= 1e-9 * fit.loss
    recent = fit.history[-6] - fit.history[-1] if fit.iterations >= 5 else np.inf
    slow = recent * n / 2 < GAIN * fit.loss
    still = slow or truth.promise <= 1e-6 or truth.best <= 1e-6
    return still and truth.best * n / 2 < NOTHING


@pytest.mark.parametrize("fit", STEPS, ids=lambda fit: fit.__name__)
def test_random_problems_end_with_a_true_word(fit):
    descent, seen = fit is hl.fit_gradient_descent, {}
    limit = 60 if descent else 200
    for seed in range(PROBLEMS):
        at = problem(seed)
        options = {STEPS[fit]: limit}
        if not descent:
            options |= {"newton": bool(seed % 2), "single": seed % 4 > 1}
        result = fit(at.model, at.X, at.y, at.start, bounds=at.box, **options)
        try:
            check_status(at, result, limit, descent)
        except AssertionError as error:
            raise AssertionError(f"problem {seed}: {result.message}") from error
        seen[result.status] = seen.get(result.status, 0) + 1
    assert {"converged", "hit bounds"} <= set(seen) or PROBLEMS < 40, seen
    print(fit.__name__, seen)


def test_a_last_look_for_a_longer_step_makes_no_step_too_many():
    """Of this problem, 26 steps end in convergence that a longer step would put in question."""
    at = problem(10)
    for limit in range(20, 32):
        fit = hl.fit_least_squares(
            at.model, at.X, at.y, at.start, bounds=at.box, max_iterations=limit
        )
        check_status(at, fit, limit, False)
