"""Slopes: exact on power laws, honest about noise, and silent about nothing."""

import numpy as np
import pytest

from hmoe_lib.experiments import SlopeTable, slope

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
