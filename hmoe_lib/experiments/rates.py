"""Rates of convergence: log-log slopes with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hmoe_lib.arguments import is_finite, number, real_array
from hmoe_lib.experiments.checks import integer, one_of

Array = np.ndarray

__all__ = ["SampleSize", "Slope", "SlopeTable", "samples_needed", "slope"]

FEWEST_SIZES = 5
STATISTICS = {"mean": np.mean, "median": np.median}


@dataclass(frozen=True)
class Slope:
    """A fitted exponent: loss about exp(intercept) n^value, with a percentile interval.

    Examples
    --------
    >>> print(Slope(-0.5, -0.56, -0.43, intercept=0.0, statistic="mean", level=0.95))
    -0.50 [-0.56, -0.43]
    """

    value: float
    low: float
    high: float
    intercept: float
    statistic: str
    level: float

    def predict(self, n: Array) -> Array:
        """Return the fitted line exp(intercept) n^value."""
        return np.exp(self.intercept) * np.asarray(n, dtype=float) ** self.value

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def slope(
    n: Array,
    values: Array,
    rng: np.random.Generator,
    statistic: str = "mean",
    level: float = 0.95,
    resamples: int = 2000,
) -> Slope:
    r"""Return the least squares slope of the log mean (or median) of runs against log n.

    Parameters
    ----------
    n : array_like, shape (S,)
        Sample sizes, all different, at least five.
    values : array_like, shape (S, R)
        A positive loss of each of R runs at each size.
    rng : numpy.random.Generator
        Draws the bootstrap samples.
    statistic : {"mean", "median"}, default "mean"
        What is taken over the runs of a size before the logarithm.
    level : float, default 0.95
        Coverage the interval aims at, in (0, 1).
    resamples : int, default 2000
        Number of bootstrap samples.

    Returns
    -------
    Slope
        The exponent with its interval.

    Raises
    ------
    ValueError
        For fewer than five sizes, for a shape that does not fit, and for a loss that is NaN,
        infinite, zero or negative: such a run must be looked at, not averaged away.

    Notes
    -----
    A bootstrap sample draws R runs with replacement within each size. The interval holds the
    sizes fixed, so it speaks of the noise of the runs, not of the choice of the window of n.
    With one run a size it has no width.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> n = np.array([100, 200, 400, 800, 1600])
    >>> runs = n[:, None] ** -0.5 * rng.lognormal(sigma=0.1, size=(5, 20))
    >>> fitted = slope(n, runs, rng)
    >>> fitted.low < -0.5 < fitted.high
    True
    """
    lines = _lines(n, values, rng, statistic, level, resamples)
    low, high = _interval(lines[0][1:], level)
    value, intercept = (float(part[0]) for part in lines)
    return Slope(value, low, high, intercept, statistic, level)


@dataclass(frozen=True)
class SampleSize:
    """The n at which a fitted line meets a target, with a percentile interval.

    ``measured`` says whether the line meets it inside the window of sizes; outside, the number is
    an extrapolation. Infinity: the line does not fall.

    Examples
    --------
    >>> print(SampleSize(25_400.0, 21_000.0, 33_000.0, measured=True))
    25,000 [21,000, 33,000]
    """

    value: float
    low: float
    high: float
    measured: bool

    def __str__(self) -> str:
        value, low, high = map(_two_digits, (self.value, self.low, self.high))
        return f"{value} [{low}, {high}]"


def _two_digits(n: float) -> str:
    if not np.isfinite(n):
        return "never"
    if n >= 1e7:
        return f"1e{np.log10(n):.0f}"
    return f"{float(f'{n:.2g}'):,.0f}"


def samples_needed(
    n: Array,
    values: Array,
    target: float,
    rng: np.random.Generator,
    statistic: str = "median",
    level: float = 0.95,
    resamples: int = 2000,
) -> SampleSize:
    r"""Return the sample size at which an error reaches a target, from a fitted power of n.

    Parameters
    ----------
    n, values, rng, statistic, level, resamples
        As for :func:`slope`.
    target : float
        The error wanted, > 0.

    Returns
    -------
    SampleSize
        Infinite where the fitted line, or a line of the bootstrap, does not fall.

    Raises
    ------
    ValueError
        As for :func:`slope`, and for a target that is not positive.

    Notes
    -----
    With the fitted line :math:`\log e = b + m \log n`, it is
    :math:`n(\epsilon) = \exp((\log \epsilon - b) / m)` for :math:`m < 0`. An error of order
    :math:`n^{-1/4}` needs :math:`n \asymp \epsilon^{-4}`.

    Examples
    --------
    >>> n = np.array([100, 200, 400, 800, 1600])
    >>> errors = np.repeat(10.0 / np.sqrt(n)[:, None], 3, axis=1)
    >>> print(samples_needed(n, errors, 0.5, np.random.default_rng(0)))
    400 [400, 400]
    """
    target = number("target", target, above=0.0)
    slopes, intercepts = _lines(n, values, rng, statistic, level, resamples)
    falling = slopes < 0.0
    needed = np.full(slopes.size, np.inf)
    with np.errstate(over="ignore"):
        needed[falling] = np.exp((np.log(target) - intercepts[falling]) / slopes[falling])
    low, high = _interval(needed[1:], level)
    value, sizes = float(needed[0]), np.asarray(n)
    return SampleSize(value, low, high, bool(sizes.min() <= value <= sizes.max()))


def _lines(n, values, rng, statistic: str, level: float, resamples: int) -> tuple[Array, Array]:
    """Slopes and intercepts of the log-log line: of the runs, then of each bootstrap sample."""
    n, values = _checked(n, values)
    one_of("statistic", statistic, STATISTICS)
    if not is_finite(level) or not 0.0 < level < 1.0:
        raise ValueError(f"level: expected a number between 0 and 1, got {level!r}")
    if not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng: expected a numpy Generator, got {type(rng).__name__}")
    integer("resamples", resamples, least=1)
    summary = STATISTICS[statistic]
    centred = np.log(n) - np.log(n).mean()
    weights = centred / (centred @ centred)
    draws = rng.integers(values.shape[1], size=(resamples, *values.shape))
    resampled = values[np.arange(n.size)[:, None], draws]
    logs = np.log(np.vstack([summary(values, axis=1), summary(resampled, axis=2)]))
    slopes = logs @ weights
    return slopes, logs.mean(axis=1) - slopes * np.log(n).mean()


def _interval(values: Array, level: float) -> tuple[float, float]:
    tail = 50.0 * (1.0 - level)
    # Between infinities the linear method would give NaN.
    method = "linear" if np.isfinite(values).all() else "nearest"
    low, high = np.percentile(values, [tail, 100.0 - tail], method=method)
    return float(low), float(high)


def _checked(n: Array, values: Array) -> tuple[Array, Array]:
    n, values = real_array("n", n, "sample sizes"), real_array("values", values, "losses")
    if n.ndim != 1 or values.ndim != 2 or values.shape[0] != n.size or values.shape[1] < 1:
        raise ValueError(
            f"values: expected shape (S, R) with one row of runs for each of the S = {n.size} "
            f"sizes, got {values.shape}"
        )
    if np.unique(n).size < n.size or not np.all((n > 0) & np.isfinite(n)):
        raise ValueError(f"n: expected different positive sample sizes, got {n.tolist()}")
    if n.size < FEWEST_SIZES:
        raise ValueError(
            f"n: expected at least {FEWEST_SIZES} sample sizes for a slope, got {n.size}"
        )
    bad = ~(np.isfinite(values) & (values > 0.0))
    if bad.any():
        size, run = np.argwhere(bad)[0]
        raise ValueError(
            f"values: expected positive finite losses, got {values[size, run]!r} at "
            f"n = {n[size]:.0f}, run {run} ({bad.sum()} such runs)"
        )
    return n, values


class SlopeTable(dict):
    """Slopes by panel and statistic, ``table[panel][statistic]``, printed as a table.

    Examples
    --------
    >>> s = Slope(-0.5, -0.56, -0.43, intercept=0.0, statistic="mean", level=0.95)
    >>> print(SlopeTable({"value-K3": {"mean": s, "median": s}}))
    panel     slope of the mean     slope of the median
    value-K3  -0.50 [-0.56, -0.43]  -0.50 [-0.56, -0.43]
    """

    def rows(self) -> list[Sequence[str]]:
        """Return the table as text, the header first."""
        first = next(iter(self.values()), {})
        header = ["panel", *(f"slope of the {statistic}" for statistic in first)]
        return [header, *([name, *map(str, by.values())] for name, by in self.items())]

    def __str__(self) -> str:
        rows = self.rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        header, *body = self.rows()
        head = "".join(f"<th>{cell}</th>" for cell in header)
        lines = ("".join(f"<td>{cell}</td>" for cell in row) for row in body)
        body_html = "".join(f"<tr>{line}</tr>" for line in lines)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body_html}</tbody></table>"
