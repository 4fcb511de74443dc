"""Slopes: exact on power laws, honest about noise, and silent about nothing."""

import numpy as np
import pytest

from hmoe_lib.experiments import SlopeTable, samples_needed, slope

N = np.array([100, 200, 400, 800, 1600, 3200])


def runs(exponent, rng, replicates=20, sd=0.2, n=N):
    """A power law with lognormal noise."""
    return 3.0 * n[:, None] ** exponent * rng.lognormal(sigma=sd, size=(n.size, replicates))


@pytest.mark.parametrize("exponent", [-1.0, -0.5, -0.25, 0.0])
@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_a_noise_free_power_law_is_recovered(exponent, statistic):
    values = np.repeat(2.0 * N[:, None] ** exponent, 3, axis=1)
    fitted = slope(N, values, np.random.default_rng(0), statistic)
    assert fitted.value == pytest.approx(exponent, abs=1e-12)
    assert fitted.low == pytest.approx(exponent, abs=1e-12)
    assert fitted.high == pytest.approx(exponent, abs=1e-12)
    assert fitted.predict(N) == pytest.approx(values[:, 0], rel=1e-12)


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_the_interval_covers_about_as_often_as_it_says(statistic):
    rng = np.random.default_rng(20261130)
    intervals = [
        slope(N, runs(-0.5, rng, sd=0.5), rng, statistic, level=0.8, resamples=400)
        for _ in range(200)
    ]
    covered = np.mean([s.low <= -0.5 <= s.high for s in intervals])
    assert 0.68 < covered < 0.90
    # Negative control: the same intervals must not cover an exponent that is not the law's.
    assert np.mean([s.low <= -0.4 <= s.high for s in intervals]) < 0.2


def test_the_slope_agrees_with_polyfit():
    values = runs(-0.4, np.random.default_rng(1))
    fitted = slope(N, values, np.random.default_rng(2), "median")
    line = np.polyfit(np.log(N), np.log(np.median(values, axis=1)), 1)
    assert fitted.value == pytest.approx(line[0], rel=1e-10)
    assert fitted.intercept == pytest.approx(line[1], rel=1e-10)


def test_a_far_run_moves_the_mean_and_not_the_median():
    values = runs(-0.5, np.random.default_rng(3))
    values[-1, 0] *= 1000
    rng = np.random.default_rng(4)
    mean, median = slope(N, values, rng, "mean"), slope(N, values, rng, "median")
    assert mean.value > 0
    assert mean.high - mean.low > 10 * (median.high - median.low)
    assert median.value == pytest.approx(-0.5, abs=0.1)


def test_the_interval_is_a_function_of_the_generator():
    values = runs(-0.5, np.random.default_rng(5))
    first, second, other = (slope(N, values, np.random.default_rng(seed)) for seed in (6, 6, 7))
    assert first == second
    assert first.low != other.low
    assert first.value == other.value


def test_a_higher_level_gives_a_wider_interval():
    values = runs(-0.5, np.random.default_rng(8))
    narrow, wide = (
        slope(N, values, np.random.default_rng(9), level=level) for level in (0.5, 0.99)
    )
    assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize(
    ("n", "values", "message"),
    [
        (N[:4], np.ones((4, 3)), "n: expected at least 5 sample sizes for a slope, got 4"),
        (N, np.ones((5, 3)), r"values: expected shape \(S, R\) .* S = 6 sizes, got \(5, 3\)"),
        (N, np.ones(6), r"got \(6,\)"),
        (N, np.ones((6, 0)), r"got \(6, 0\)"),
        ([1, 2, 3, 4, 4], np.ones((5, 2)), "n: expected different positive sample sizes"),
        ([0, 1, 2, 3, 4], np.ones((5, 2)), "n: expected different positive sample sizes"),
    ],
)
def test_shapes_and_sizes_are_refused(n, values, message):
    with pytest.raises(ValueError, match=message):
        slope(n, values, np.random.default_rng(0))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0, -1.0])
def test_a_loss_without_logarithm_is_refused_by_name(bad):
    values = np.ones((6, 4))
    values[2, 3] = bad
    with pytest.raises(ValueError, match=r"positive finite losses, got .* at n = 400, run 3"):
        slope(N, values, np.random.default_rng(0), "median")


def test_statistic_and_level_are_checked():
    with pytest.raises(ValueError, match="did you mean 'median'"):
        slope(N, np.ones((6, 2)), np.random.default_rng(0), "medain")
    with pytest.raises(ValueError, match="level: expected a number between 0 and 1, got 95"):
        slope(N, np.ones((6, 2)), np.random.default_rng(0), level=95)


def test_the_table_reads_well_as_text_and_as_html():
    values = runs(-0.5, np.random.default_rng(10))
    fitted = slope(N, values, np.random.default_rng(11))
    table = SlopeTable({"value-K3": {"mean": fitted, "median": fitted}})
    assert str(fitted) in str(table)
    assert table._repr_html_().count("<td>") == 3
    assert str(SlopeTable()) == "panel"


# ---- sample sizes ----------------------------------------------------------------------------


def power_law(exponent, constant=10.0, runs=6, spread=0.0, seed=0):
    rng = np.random.default_rng(seed)
    n = np.array([1000, 2000, 4000, 8000, 16000])
    noise = rng.lognormal(sigma=spread, size=(n.size, runs))
    return n, constant * n[:, None] ** exponent * noise


@pytest.mark.parametrize("exponent", [-0.5, -0.25])
def test_the_samples_needed_invert_the_line(exponent):
    n, errors = power_law(exponent)
    target = 10.0 * 5000.0**exponent
    needed = samples_needed(n, errors, target, np.random.default_rng(1))
    assert needed.value == pytest.approx(5000.0) and needed.measured
    half = samples_needed(n, errors, target / 2, np.random.default_rng(1))
    assert half.value / needed.value == pytest.approx(2.0 ** (-1.0 / exponent))
    assert not samples_needed(n, errors, target / 100, np.random.default_rng(1)).measured


def test_the_interval_of_the_samples_needed_covers():
    n, errors = power_law(-0.25, spread=0.1, runs=20)
    needed = samples_needed(n, errors, 10.0 * 5000.0**-0.25, np.random.default_rng(2))
    assert needed.low < 5000 < needed.high and needed.high / needed.low < 2
    far = samples_needed(n, errors, 10.0 * 5e6**-0.25, np.random.default_rng(2))
    assert far.low < 5e6 < far.high and far.high / far.low > 2


def test_an_error_that_does_not_fall_needs_infinitely_many():
    n, errors = power_law(0.0, spread=0.1, runs=20, seed=3)
    needed = samples_needed(n, errors, 1.0, np.random.default_rng(2))
    assert needed.high == np.inf and str(needed).endswith("never]")
    assert samples_needed(*power_law(0.1), 1.0, np.random.default_rng(2)).value == np.inf


def test_a_target_that_is_none():
    with pytest.raises(ValueError, match="target: expected a finite number > 0"):
        samples_needed(*power_law(-0.5), 0.0, np.random.default_rng(0))
