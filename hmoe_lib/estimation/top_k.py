"""Least squares with a top-K gate, whose criterion jumps where the selected set changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hmoe_lib.arguments import number
from hmoe_lib.blocks import Samples
from hmoe_lib.estimation.bounds import Box
from hmoe_lib.estimation.least_squares import fit_least_squares
from hmoe_lib.estimation.result import FitResult, make_result
from hmoe_lib.mixing import MixingMeasure
from hmoe_lib.models import FlatModel
from hmoe_lib.models.smoothed_top import SmoothedTop

__all__ = ["WIDTHS", "fit_top_k"]

WIDTHS = tuple(0.02 * 2.0 ** (-step / 2) for step in range(12))
"""From 0.02 down by factors of the root of 2: for scores with a spread of about 0.1."""


def fit_top_k(
    model: FlatModel,
    X,
    y,
    start: MixingMeasure,
    bounds: Box | None = None,
    widths: Sequence[float] = WIDTHS,
    max_iterations: int = 15,
    gain: float = 0.5,
) -> FitResult:
    r"""Minimise the mean squared residual of a top-K mixture by graduated smoothing.

    Parameters
    ----------
    model : FlatModel
        With a softmax gate that has ``top``.
    X, y : array_like, shape (n, d), (n,)
        Samples.
    start : MixingMeasure
        First iterate.
    bounds : Box, optional
        By default that of :func:`fit_least_squares`.
    widths : sequence of float
        Widths of the smoothing, one after the other.
    max_iterations : int, default 15
        Steps at each width.
    gain : float, default 0.5
        As for :func:`fit_least_squares`, at each width.

    Returns
    -------
    FitResult
        Of the best measure by the criterion itself, not by a smoothed one; ``history`` holds the
        criterion at the start, after each width, and after the last steps. It may rise. The status
        is that of these last steps.

    Raises
    ------
    ValueError
        As for :func:`fit_least_squares`, for a gate without ``top``, and without a width.

    Notes
    -----
    Derivatives of the top-K model see no set change, so steps along them are refused and a fit
    stalls. Here the sets are smoothed (:class:`SmoothedTop`), first widely, then less and less;
    each fit starts where the last one ended. The last steps, on the criterion itself, begin at
    the best measure on the way and move its experts only: the selected sets do not depend on them,
    so nothing jumps. No step guarantees the smallest value: compare it with the
    truth's where that is known.

    Examples
    --------
    >>> from hmoe_lib.gates import gate
    >>> model = FlatModel(gate("linear", top=1), "affine")
    >>> truth = MixingMeasure([[1.0], [0.0]], [0.1, 0.0], [[1.0, 0.0], [-1.0, 0.5]])
    >>> truth = truth.pinned_for(model.gate.pins(truth.router))
    >>> X = np.random.default_rng(0).uniform(-1, 1, (400, 1))
    >>> y = model.sample(truth, X, 0.1, rng=np.random.default_rng(1))
    >>> start = truth.from_vector(truth.to_vector() + [0.0, 0.3, 0.2, 0.1, -0.2, 0.1])
    >>> fit = fit_top_k(model, X, y, start, widths=(0.3, 0.1, 0.03))
    >>> bool(fit.loss <= np.mean((y - model.predict(truth, X)) ** 2))
    True
    """
    if not len(widths):
        raise ValueError("widths: expected at least one width")
    models = [SmoothedTop(model.gate, model.expert, number("width", w)) for w in widths]
    bounds = Box.around(start) if bounds is None else bounds
    samples = model.matching(start, Samples.pairs(X, y))

    def criterion(G: MixingMeasure) -> float:
        return float(model.loss_at(G.to_vector(), G.shape, samples))

    options = {"max_iterations": max_iterations, "gain": gain, "coarse": False}
    here = best = start
    path, smallest = [criterion(start)], criterion(start)
    for smoothed in models:
        here = fit_least_squares(smoothed, samples, None, here, bounds, **options).measure
        path.append(criterion(here))
        if path[-1] < smallest:
            best, smallest = here, path[-1]
    theta, last = _experts_only(model, samples, best, bounds, options)
    gradient = model.loss_and_gradient_at(theta, best.shape, samples)[1]
    return make_result(start, bounds, theta, last.status, [*path, last.loss], gradient)


def _experts_only(model, samples: Samples, G: MixingMeasure, bounds: Box, options: dict):
    """Fit the experts with the routing held: which atoms are selected does not depend on them."""
    at, held = G.shape.slices["expert"], [np.ones_like(mask) for mask in G.pinned]
    held[2] = G.pinned[2]
    frozen = MixingMeasure(G.router, G.bias, G.expert, G.shared, tuple(held))
    box = Box(bounds.lower[at], bounds.upper[at])
    last = fit_least_squares(model, samples, None, frozen, box, **options)
    theta = G.to_vector()
    theta[at] = last.measure.to_vector()
    return theta, last
