"""Bounded least squares by the Levenberg-Marquardt method on blockwise normal equations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from hmoe_lib.arguments import number
from hmoe_lib.blocks import Samples
from hmoe_lib.estimation.bounds import Box
from hmoe_lib.estimation.result import FitResult, make_result
from hmoe_lib.estimation.setup import prepare
from hmoe_lib.estimation.steps import LARGEST_DAMPING, Damping, bounded_step
from hmoe_lib.measures import HierarchicalMeasure, Shape
from hmoe_lib.mixing import Layout, MixingMeasure
from hmoe_lib.models import NormalEquations

Array = np.ndarray

__all__ = ["fit_least_squares"]

# Tried before a descent ends under heavy damping.
LESS_DAMPING = 10.0 ** np.arange(6, -11, -1)
ROUNDING = 1e-24  # of the mean square of y: a loss of this size is an exact fit
WINDOW = 5  # steps whose joint gain decides whether going on is worth it
SHARE = 8  # a coarse stage sees an eighth of the next one's sample, J^T J an eighth of its own
SHARE_MINIMUM = 50  # ... but at least this many samples for each parameter
COARSE_GAIN = 3.0  # where a coarse stage stops: the next one moves further than that anyway
SINGLE_GAIN = 0.1  # where single precision stops: its rounding hides steps that gain much less


def fit_least_squares(
    model,
    X,
    y,
    start: HierarchicalMeasure | MixingMeasure,
    bounds: Box | None = None,
    max_iterations: int = 200,
    tolerance: float = 1e-9,
    gain: float = 0.01,
    newton: bool = False,
    coarse: bool = True,
    shares: bool = False,
    single: bool = False,
) -> FitResult:
    r"""Minimise the mean squared residual inside a box.

    Parameters
    ----------
    model : HierarchicalModel or FlatModel
        Model to fit.
    X : array_like, shape (n, d), or Samples
        Samples with responses, such as a :class:`hmoe_lib.blocks.Stream`, come without y.
    y : array_like, shape (n,), or None
    start : HierarchicalMeasure or MixingMeasure
        First iterate; its K is the number of channels fitted.
    bounds : Box, optional
        By default twice the start's largest entry in each block, omega in [0, twice its largest].
    max_iterations : int, default 200
        Largest number of accepted steps on the full sample.
    tolerance : float, default 1e-9
        Converged when the step promises a decrease below this fraction of the loss.
    gain : float, default 0.01
        Converged, too, when five steps together gained less than this many units of Gaussian
        log-likelihood, n/2 times the relative decrease of the loss; 0 turns the rule off.
    newton : bool, default False
        Use the exact Hessian where it is positive definite. Slower by half a step, it follows
        the curved valleys of over-specified fits to their bottom.
    coarse : bool, default True
        Begin on a fixed share of the sample, when n is large enough for it to pay.
    shares : bool, default False
        Begin on a ladder of shares, an eighth of the next each, and take :math:`J^\top J` from
        the first eighth too, where that is large enough: about half the work for large n.
    single : bool, default False
        Descend in single precision first: with ``shares`` about a fifth less work, alone hardly
        any less. The last steps, and what is returned, are in double precision.

    Returns
    -------
    FitResult
        ``history`` covers the full sample only.

    Raises
    ------
    ValueError
        For data or a start that do not fit each other, a start outside the bounds, and n smaller
        than the number of parameters.

    Notes
    -----
    Each step minimises :math:`g^\top \delta + \tfrac12 \delta^\top (J^\top J/n + \lambda D)
    \delta` over the box, D the largest diagonal seen so far; the damping follows Nielsen's rule.
    Loss and gradient are always those of the whole sample, and so is the minimum that is found;
    :math:`J^\top J` only shapes the way to it. Sums go over blocks, so memory does not grow with n.

    Examples
    --------
    >>> from hmoe_lib.models import ValueGated
    >>> model = ValueGated("sigmoid", bias=1.0)
    >>> truth = HierarchicalMeasure([[1.5]], np.zeros((1, 1, 1, 1)), [[[[1.5]]]])
    >>> X, y = model.sample(truth, 500, noise_sd=0.0, rng=np.random.default_rng(0))
    >>> start = HierarchicalMeasure([[1.0]], np.zeros((1, 1, 1, 1)), [[[[1.0]]]])
    >>> fit = fit_least_squares(model, X, y, start)
    >>> fit.status, bool(fit.loss < 1e-12)
    ('converged', True)
    """
    gain = number("gain", gain, least=0.0)
    bounds = Box.around(start) if bounds is None else bounds
    samples, theta = prepare(model, X, y, start, bounds, max_iterations, tolerance)
    shape = start.shape
    rules = Rules(max_iterations, tolerance, gain, newton, shares)
    ladder = _ladder(len(samples), shape.size) if coarse else []
    rough = rules._replace(gain=max(gain, COARSE_GAIN)) if shares else rules
    rounded = samples.single() if single else samples
    for few in ladder if shares else ladder[-1:]:
        theta, *_ = _descend(model, theta, shape, rounded.head(few), bounds, rough)
    damping = Damping()
    if single:  # where little damping was needed, more would only slow the last steps down
        near = rules.near(len(samples))
        theta, *_ = _descend(model, theta, shape, rounded, bounds, near, damping)
    theta, *end = _descend(
        model, theta, shape, samples, bounds, rules, Damping(min(damping.value, Damping().value))
    )
    return make_result(start, bounds, theta, *end)


def _ladder(n: int, p: int) -> list[int]:
    """Sizes of the coarse stages, increasing.

    Examples
    --------
    >>> _ladder(1_000_000, 46)
    [2300, 15625, 125000]
    """
    sizes = [n]
    while few := _share(sizes[0], p):
        sizes.insert(0, few)
    return sizes[:-1]


def _share(n: int, p: int) -> int:
    """Size of the share of n samples that stands for all of them, 0 if none can."""
    few = max(n // SHARE, SHARE_MINIMUM * p)
    return few if 2 * few <= n else 0


class Rules(NamedTuple):
    """When to stop, and which Hessian to use."""

    max_iterations: int
    tolerance: float
    gain: float
    newton: bool
    shares: bool = False

    def near(self, n: int) -> Rules:
        """Return rules that stop where no step promises a gain that single precision shows."""
        gain, tolerance = max(self.gain, SINGLE_GAIN), max(self.tolerance, 2.0 * SINGLE_GAIN / n)
        return self._replace(gain=gain, tolerance=tolerance)

    def slow(self, history: list[float], n: int) -> bool:
        """Whether the last steps together gained too little to matter statistically."""
        if len(history) <= WINDOW:
            return False
        decrease = history[-1 - WINDOW] - history[-1]
        return decrease * n / 2 < self.gain * history[-1]


class Surface:
    """The loss on one sample as a function of the parameters, and how it bends."""

    def __init__(self, model, shape: Shape | Layout, samples: Samples, rules: Rules) -> None:
        self.model, self.shape, self.samples, self.newton = model, shape, samples, rules.newton
        shared = rules.shares and not rules.newton
        few = _share(len(samples), shape.size) if shared else 0
        self.share = samples.head(few) if few else None

    def look(self, at: Array, above: float = np.inf) -> NormalEquations:
        """Look at a point; where the loss is not below, no step begins, and it is enough."""
        at = at.astype(self.samples.dtype)  # else every array would be in double precision
        if self.share is None:
            return self.model.normal_equations_at(at, self.shape, self.samples, self.newton)
        loss, gradient = self.model.loss_and_gradient_at(at, self.shape, self.samples)
        if not loss < above:
            return NormalEquations(loss, gradient / 2.0, None, None)
        share = self.model.normal_equations_at(at, self.shape, self.share)
        loss = loss if np.isfinite(share.loss) else np.inf
        return NormalEquations(loss, gradient / 2.0, share.gram, None)


def _descend(model, theta, shape, samples: Samples, box: Box, rules: Rules, damping=None):
    """Run the method on one sample; return (theta, status, history, gradient of the loss)."""
    look = Surface(model, shape, samples, rules).look
    here = look(theta)
    if not np.isfinite(here.loss):
        return theta, "diverged", [np.inf], np.zeros_like(theta)
    history, status, fresh = [here.loss], None, 0
    scale, damping = np.zeros_like(theta), damping or Damping()
    while status is None and len(history) <= rules.max_iterations:
        scale = np.maximum(scale, np.diag(here.gram))
        step, promised = _damped_step(theta, here, damping.value, scale, box)
        if promised <= rules.tolerance * here.loss:
            exact = _exact(here.loss, samples)
            status = "converged" if exact else damping.rest(rules.tolerance * here.loss)
        else:
            trial = box.clip(theta + step)
            there = look(trial, here.loss)
            ratio = (here.loss - there.loss) / promised if np.isfinite(there.loss) else -1.0
            if ratio > 0:
                theta, here = trial, there
                history.append(here.loss)
                damping.accept(ratio)
                status = "converged" if rules.slow(history[fresh:], len(samples)) else None
            else:
                damping.refuse(promised)
                status = "stalled" if damping.value > LARGEST_DAMPING else None
        if status is not None:
            ridge = damping.value * scale
            status, longer = _end(status, look, theta, here, ridge, box, rules, samples)
            if longer is not None and len(history) > rules.max_iterations:
                status = "out of steps"
            elif longer is not None:
                theta, here, value = longer
                history.append(here.loss)
                scale, damping, fresh = np.zeros_like(theta), Damping(value), len(history) - 1
    return theta, status or "out of steps", history, 2.0 * here.gradient


def _end(status: str, look, theta: Array, here, ridge: Array, box: Box, rules: Rules, samples):
    """Confirm how a descent ends, or find a step that gains what matters.

    Where damping is as large as the Hessian, perhaps it alone keeps steps short, left over from
    where the loss was of another scale. Returns (status, None) or (None, (theta, look, damping)).
    """
    if _exact(here.loss, samples):
        return "converged", None
    scale, offer = np.diag(here.gram), 0.0
    if np.all(ridge <= scale):
        return status, None
    worth = max(2.0 * rules.gain / len(samples), rules.tolerance) * here.loss
    for damping in LESS_DAMPING:
        step, promised = _damped_step(theta, here, damping, scale, box)
        offer = max(offer, promised)
        if np.all(damping * scale >= ridge) or promised <= worth:
            continue
        trial = box.clip(theta + step)
        there = look(trial, here.loss)
        if here.loss - there.loss > worth:
            return None, (trial, there, damping)
    return "stalled" if offer > 100.0 * worth else status, None


def _exact(loss: float, samples: Samples) -> bool:
    return loss <= ROUNDING * samples.squares() / len(samples)


def _damped_step(theta: Array, here: NormalEquations, damping: float, scale: Array, box: Box):
    """Return a step and the decrease of the loss that it promises.

    Newton's step where the damped Hessian is known and positive definite, else Gauss-Newton's.

    Where channels are fitted twice, Gauss-Newton alone creeps: the derivative that separates two
    copies vanishes with their distance, and r times the second derivative is as large as its
    square.
    """
    # The floor keeps parameters without influence (omega = 0 hides its a) from a zero pivot.
    ridge = damping * np.maximum(scale, 1e-10 * scale.max() + np.finfo(float).tiny)
    second = [] if here.curvature is None else [here.gram + here.curvature]
    for hessian in (*second, here.gram):
        try:
            step = bounded_step(theta, here.gradient, hessian + np.diag(ridge), box)
        except LinAlgError:
            continue
        # The loss is the mean square, the normal equations those of half of it: hence the 2.
        return step, -2.0 * (here.gradient @ step) - step @ hessian @ step
    return np.zeros_like(theta), 0.0
