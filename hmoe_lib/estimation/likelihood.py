"""Maximum likelihood inside a box by damped Newton steps, for every density of the library."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError

from hmoe_lib.arguments import number
from hmoe_lib.densities import Expansion, MixtureDensity
from hmoe_lib.estimation.bounds import Box
from hmoe_lib.estimation.likelihood_result import LikelihoodFit, make_likelihood_fit
from hmoe_lib.estimation.steps import LARGEST_DAMPING, Damping, bounded_step
from hmoe_lib.mixing import MixingMeasure

Array = np.ndarray

__all__ = ["fit_likelihood", "likelihood_box"]

CURVATURES = ("hessian", "scores")


def likelihood_box(
    model: MixtureDensity,
    G: MixingMeasure,
    y,
    gate: float = 30.0,
    factor: float = 3.0,
    floor: float = 1e-4,
) -> Box:
    r"""Return a box around a measure for maximum likelihood.

    Parameters
    ----------
    model : MixtureDensity
        A density of the library.
    G : MixingMeasure
        Its sizes, pins and largest entries count.
    y : array_like, shape (n,)
        Responses; their variance and their largest value set the scales of a normal expert.
    gate : float, default 30
        Routers and biases lie within plus and minus this, or twice their largest entry.
    factor : float, default 3
        Means lie within plus and minus this times the largest of their entries, of \|y\| and 1;
        slopes of classes within ten times this.
    floor : float, default 1e-4
        Smallest variance of an expert, as a share of the variance of y; the largest is ten times
        that of y.

    Returns
    -------
    Box
        Bounds on ``G.to_vector()``; shared parameters lie within a factor of 100.

    Raises
    ------
    ValueError
        If y is constant, so that no variance can be bounded.

    Examples
    --------
    >>> from hmoe_lib.densities import GaussianMoE
    >>> G = GaussianMoE().pinned(MixingMeasure([[1.0], [0.0]], [0.0, 0.0], np.zeros((2, 3))))
    >>> likelihood_box(GaussianMoE(), G, [-1.0, 1.0]).upper.round(2)
    array([30. , 30. ,  3. ,  3. ,  2.3,  3. ,  3. ,  2.3])
    """
    y = np.asarray(y, dtype=float)
    router = np.full(G.router.shape, max(gate, 2.0 * np.abs(G.router).max()))
    bias = np.full(G.bias.shape, max(gate, 2.0 * np.abs(G.bias).max()))
    if model.classes is not None:
        expert_upper = np.full(G.expert.shape, max(10.0 * factor, 2.0 * np.abs(G.expert).max()))
        expert_lower = -expert_upper
    else:
        variance = y.var()
        if not variance > 0:
            raise ValueError("y: expected responses that are not all equal")
        largest = max(1.0, np.abs(y).max(), np.abs(G.expert[:, :-1]).max())
        expert_upper = np.full(G.expert.shape, factor * largest)
        expert_lower = -expert_upper
        expert_upper[:, -1] = np.log(10.0 * variance)
        expert_lower[:, -1] = np.log(floor * variance)
    shared = np.abs(G.shared)
    free = G.shape.free
    whole = [
        np.concatenate([part.ravel() for part in parts])[free]
        for parts in (
            (-router, -bias, expert_lower, shared / 100.0),
            (router, bias, expert_upper, shared * 100.0),
        )
    ]
    return Box(*whole)


def fit_likelihood(
    model: MixtureDensity,
    X,
    y,
    start: MixingMeasure,
    bounds: Box | None = None,
    curvature: str = "hessian",
    max_iterations: int = 200,
    tolerance: float = 1e-8,
    few_samples: bool = False,
) -> LikelihoodFit:
    r"""Maximise the likelihood inside a box by damped Newton steps.

    Parameters
    ----------
    model : MixtureDensity
        A density of the library.
    X : array_like, shape (n, d)
        Inputs.
    y : array_like, shape (n,)
        Responses: numbers, or classes 0..S-1.
    start : MixingMeasure
        First iterate, with its pins.
    bounds : Box, optional
        By default :func:`likelihood_box` of the start.
    curvature : {"hessian", "scores"}
        The exact second derivative where it is negative definite, or always the outer product of
        scores. Where the likelihood has an exact invariance the exact one runs along it.
    max_iterations : int, default 200
        Largest number of accepted steps.
    tolerance : float, default 1e-8
        Converged when a step promises less than this many units of log-likelihood, or less than
        rounding can show.
    few_samples : bool, default False
        Fit also with fewer samples than parameters. The box and its smallest variance keep the
        likelihood bounded, so a maximum exists; the status then says ``few samples``, since
        n densities cannot determine more than n parameters.

    Returns
    -------
    LikelihoodFit
        The history never falls.

    Raises
    ------
    ValueError
        For data that do not fit the measure, a start outside the bounds, fewer samples than
        parameters without ``few_samples``, or an unknown curvature.

    Notes
    -----
    Each step maximises :math:`\nabla\ell^\top \delta - \tfrac12 \delta^\top (H + \lambda D)
    \delta` over the box, D the largest diagonal of the scores' outer product seen so far.

    Examples
    --------
    >>> from hmoe_lib.densities import GaussianMoE
    >>> rng, model = np.random.default_rng(0), GaussianMoE()
    >>> G = MixingMeasure([[3.0], [0.0]], [0.0, 0.0], [[2.0, 0.0, -1.0], [-2.0, 1.0, -1.0]])
    >>> X = rng.uniform(-1, 1, (2000, 1))
    >>> fit = fit_likelihood(model, X, model.sample(G, X, rng=rng), model.pinned(G))
    >>> fit.status, bool(np.all(np.diff(fit.history) > 0))
    ('converged', True)
    """
    if curvature not in CURVATURES:
        raise ValueError(f"curvature: expected one of {CURVATURES}, got {curvature!r}")
    X, y, theta, bounds = prepare_likelihood(
        model, X, y, start, bounds, max_iterations, tolerance, few_samples
    )
    layout = start.shape

    def look(at: Array) -> Expansion:
        return model.expansion_at(at, layout, X, y)

    theta, status, history, gradient = _climb(
        look, theta, bounds, curvature, max_iterations, tolerance
    )
    return make_likelihood_fit(model, start, bounds, theta, status, history, gradient, (X, y))


def prepare_likelihood(model, X, y, start, bounds, max_steps, tolerance, few_samples=False):
    """Return checked data, the start's vector and the box."""
    if not isinstance(model, MixtureDensity):
        raise ValueError(f"model: expected a density such as GaussianMoE(), got {model!r}")
    if y is None:
        raise ValueError("y: expected shape (n,), got None")
    X, y = model.check(start, X, y)
    if len(X) < start.shape.size and not few_samples:
        raise ValueError(
            f"X: expected at least {start.shape.size} samples, one a parameter, got {len(X)}"
        )
    if not (number("largest number of steps", max_steps, least=1) % 1 == 0):
        raise ValueError(f"largest number of steps: expected an integer, got {max_steps!r}")
    number("tolerance", tolerance, above=0.0)
    bounds = likelihood_box(model, start, y) if bounds is None else bounds
    if not isinstance(bounds, Box):
        raise ValueError(f"bounds: expected a Box or None, got {type(bounds).__name__}")
    return X, y, bounds.check_start(start), bounds


def _climb(look, theta: Array, box: Box, curvature: str, max_iterations: int, tolerance: float):
    """Run damped steps; return (theta, status, history, gradient of the log-likelihood)."""
    here = look(theta)
    if not (np.isfinite(here.value) and np.isfinite(here.gradient).all()):
        return theta, "diverged", [-np.inf], np.zeros_like(theta)
    history, status = [here.value], None
    scale, damping = np.zeros_like(theta), Damping()
    while status is None and len(history) <= max_iterations:
        negligible = max(tolerance, 1e-14 * abs(here.value))
        scale = np.maximum(scale, np.diag(here.scores))
        step, hessian = _damped_step(theta, here, damping.value, scale, box, curvature)
        promised = here.gradient @ step - 0.5 * step @ hessian @ step
        if promised <= negligible:
            status = damping.rest(negligible)
            continue
        trial = box.clip(theta + step)
        there = look(trial)
        ratio = (there.value - here.value) / promised if np.isfinite(there.value) else -1.0
        if ratio > 0:
            theta, here = trial, there
            history.append(here.value)
            damping.accept(min(ratio, 1.0))
        else:
            damping.refuse(promised)
            status = "stalled" if damping.value > LARGEST_DAMPING else None
    return theta, status or "out of steps", history, here.gradient


def _damped_step(
    theta: Array, here: Expansion, damping: float, scale: Array, box: Box, curvature: str
):
    ridge = np.diag(damping * np.maximum(scale, 1e-10 * scale.max() + np.finfo(float).tiny))
    exact = (here.hessian,) if curvature == "hessian" else ()
    for matrix in (*exact, here.scores):
        try:
            return bounded_step(theta, -here.gradient, matrix + ridge, box), matrix
        except LinAlgError:
            continue
    return np.zeros_like(theta), here.scores
