"""The table of claims: slopes by a second road, exponents that would not hold, names that miss."""

from pathlib import Path

import numpy as np
import pytest

from hmoe_lib.experiments import CLAIMS, Claim, load, load_study, measured
from hmoe_lib.experiments.density_catalogue import STUDIES

RESULTS = Path(__file__).parents[1] / "book" / "results"
ALL = {claim.key: claim for claims in CLAIMS.values() for claim in claims}


def runs_of(claim):
    """Sizes and runs of a claim, read without it."""
    if claim.source in STUDIES:
        study = load_study(claim.source, RESULTS)
        return study.n, study.values[claim.field] ** claim.power
    rows = load(claim.source, RESULTS).panel(claim.panel)
    sizes = np.unique(rows["n"])
    return sizes, np.array([rows[rows["n"] == n][claim.field] for n in sizes])


@pytest.mark.parametrize("key", ALL)
def test_a_slope_is_that_of_the_stored_runs(key):
    claim = ALL[key]
    n, runs = runs_of(claim)
    middle = {"mean": np.mean, "median": np.median}[claim.statistic](runs, axis=1)
    x, y = np.log(n) - np.log(n).mean(), np.log(middle)
    found = claim.slope(RESULTS)
    assert np.isclose(found.value, x @ y / (x @ x), rtol=1e-10)
    assert found.low < found.value < found.high


def test_measured_takes_the_systems_asked_for():
    some = measured(RESULTS, "cosine", "top-K")
    assert list(some) == [c.key for name in ("cosine", "top-K") for c in CLAIMS[name]]
    assert set(measured(RESULTS)) == set(ALL) and len(CLAIMS) == 8
    row = some["cos-exact"]
    assert row.inside and "-" not in str(row) and str(row).startswith("\N{MINUS SIGN}0.")


@pytest.mark.parametrize(("key", "wrong"), [("dense", -1 / 4), ("cos-norm", -1 / 2)])
def test_a_wrong_exponent_is_outside(key, wrong):
    claim = Claim(**{**vars(ALL[key]), "exponent": wrong})
    slope = claim.slope(RESULTS)
    assert not slope.low <= wrong <= slope.high
    assert slope == ALL[key].slope(RESULTS)


BAD = [
    (lambda: measured(RESULTS, "cosin"), "did you mean 'cosine'"),
    (lambda: Claim("a", "dense-exact", "loss", np.nan), "exponent: expected a finite number"),
    (lambda: Claim("a", "dense-exact", "loss", -0.5, statistic="mode"), "statistic: 'mode'"),
    (lambda: Claim("a", "dense-exact", "los", -0.5).slope(RESULTS), "did you mean 'loss'"),
    (
        lambda: Claim("a", "starts", "loss", -0.5, "mha-c1-e0", power=2.0).slope(RESULTS),
        "power: expected 1",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_missing_result_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="no stored result starts"):
        measured(tmp_path, "attention")
