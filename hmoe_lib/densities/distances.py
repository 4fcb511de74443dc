"""Total variation and Hellinger distance between two conditional densities, with an error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hmoe_lib.arguments import number
from hmoe_lib.densities.moe import MixtureDensity
from hmoe_lib.mixing import MixingMeasure

Array = np.ndarray

__all__ = ["Distance", "density_distance"]

KINDS = ("total variation", "hellinger")
PANELS = 64  # intervals of the quadrature in y, refined once to tell its error


class Distance(NamedTuple):
    """A distance and an estimate of the error of its quadrature."""

    value: float
    error: float


def density_distance(
    model: MixtureDensity, G: MixingMeasure, H: MixingMeasure, X, kind: str = "total variation"
) -> Distance:
    r"""Return the mean distance between p_G(. | x) and p_H(. | x) over the rows of X.

    Parameters
    ----------
    model : MixtureDensity
        A density of the library.
    G, H : MixingMeasure
        Two measures for it.
    X : array_like, shape (n, d)
        Points whose empirical law stands for that of the inputs.
    kind : {"total variation", "hellinger"}
        :math:`\tfrac12 \int |p_G - p_H|` or :math:`(\tfrac12 \int (\sqrt{p_G} -
        \sqrt{p_H})^2)^{1/2}` at each x, before the mean over x.

    Returns
    -------
    Distance
        Exact sums over classes have error 0. Integrals over y use Gauss's rule with 16 points on
        64 intervals; the error is the change under 128.

    Raises
    ------
    ValueError
        For an unknown kind, or where the two do not fit the model.

    Examples
    --------
    >>> from hmoe_lib.densities import GaussianMoE
    >>> G = MixingMeasure([[0.0]], [0.0], [[0.0, 0.0, 0.0]])
    >>> H = MixingMeasure([[0.0]], [0.0], [[0.0, 1.0, 0.0]])
    >>> round(density_distance(GaussianMoE(), G, H, [[0.0]]).value, 6)
    0.382925
    """
    if kind not in KINDS:
        raise ValueError(f"kind: expected one of {KINDS}, got {kind!r}")
    X, _ = model.check(G, X, None)
    model.check(H, X, None)
    if model.classes is not None:
        p, q = (_over_classes(model, F, X) for F in (G, H))
        return Distance(float(_pointwise(p, q, kind, np.ones(model.classes)).mean()), 0.0)
    low, high = _range(model, G, H, X)
    values = []
    for panels in (PANELS, 2 * PANELS):
        y, weights = _rule(low, high, panels)
        p, q = (_over_grid(model, F, X, y) for F in (G, H))
        values.append(float(_pointwise(p, q, kind, weights).mean()))
    return Distance(values[1], abs(values[1] - values[0]))


def monte_carlo_hellinger(
    model: MixtureDensity, G: MixingMeasure, H: MixingMeasure, X, rng: np.random.Generator
) -> Distance:
    r"""Return the squared Hellinger distance by sampling from p_G, with its standard error.

    Notes
    -----
    :math:`1 - E_{p_G} \sqrt{p_H/p_G}`, one draw at each row of X: a second road to the quadrature.
    """
    y = model.sample(G, X, rng=rng)
    ratio = np.exp(0.5 * (model.log_density(H, X, y) - model.log_density(G, X, y)))
    error = ratio.std(ddof=1) / np.sqrt(len(ratio))
    return Distance(float(1.0 - ratio.mean()), float(number("error", float(error))))


def _pointwise(p: Array, q: Array, kind: str, weights: Array) -> Array:
    if kind == "total variation":
        return 0.5 * np.abs(p - q) @ weights
    return np.sqrt(0.5 * (np.sqrt(p) - np.sqrt(q)) ** 2 @ weights)


def _over_classes(model, G: MixingMeasure, X: Array) -> Array:
    every = [model.log_density(G, X, np.full(len(X), s)) for s in range(model.classes)]
    return np.exp(np.stack(every, axis=1))


def _over_grid(model, G: MixingMeasure, X: Array, y: Array) -> Array:
    log_p = model.log_density(G, np.repeat(X, len(y), axis=0), np.tile(y, len(X)))
    return np.exp(log_p).reshape(len(X), len(y))


def _range(model, G: MixingMeasure, H: MixingMeasure, X: Array) -> tuple[float, float]:
    means = [model.law.mean.value(F.expert[:, :-1], X.T) for F in (G, H)]
    spread = max(np.exp(0.5 * F.expert[:, -1]).max() for F in (G, H))
    return min(m.min() for m in means) - 9.0 * spread, max(m.max() for m in means) + 9.0 * spread


def _rule(low: float, high: float, panels: int) -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(16)
    width = (high - low) / panels
    left = low + width * np.arange(panels)[:, None]
    y = left + 0.5 * width * (nodes + 1.0)
    return y.ravel(), np.tile(0.5 * width * weights, panels)
