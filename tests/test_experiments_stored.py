"""The stored variations: whole, of today's config, and the same when some runs are repeated."""

from pathlib import Path

import numpy as np
import pytest

from hmoe_lib.experiments import get, load, replicate
from hmoe_lib.experiments.variations import VARIATIONS

RESULTS = Path(__file__).parents[1] / "book" / "results"
# The cheapest panels of each, at the smallest size: an exact fit or linear experts, and one
# over-specified fit, whose flat valley makes more of the last bits.
REPEATED = {
    "channels": ("value-K2", "output-K2", "mha-K3-var0.1", "value-K3"),
    "places": ("G1-e0.25", "G3-e0", "G4-e0.083", "G5-e0.25"),
    "dimension8": ("value-H2-d8-K2",),
    "heads": ("output-H1-d2-K2", "value-H4-d2-K2"),
    "dimension4": ("value-H2-d4-K2", "output-H2-d4-K2"),
}


def check_repeated(row, again, heavy):
    """Other processors differ in the last bits, and a fit may then stop at another step."""
    for name in ("truth_loss", "start_loss"):
        assert again[name] == pytest.approx(row[name], rel=1e-9), name
    assert again["fit_loss"] == pytest.approx(row["fit_loss"], rel=1e-6), "fit_loss"
    for name in ("loss", "error_single", "error_shared", "function_error"):
        assert again[name] == pytest.approx(row[name], rel=0.05 if heavy else 1e-4), name


def test_every_variation_is_stored():
    assert set(REPEATED) == {experiment.name for experiment in VARIATIONS}


@pytest.mark.parametrize("name", REPEATED)
def test_a_stored_variation_is_whole(name):
    result = load(name, RESULTS)
    assert result.config.hash() == get(name).hash()
    assert np.isfinite(result.rows["loss"]).all() and np.all(result.rows["loss"] > 0)
    # What the basic inequality of least squares asks of an estimate.
    assert np.all(result.rows["fit_loss"] <= result.rows["truth_loss"])


@pytest.mark.parametrize(
    ("name", "panel"), [(name, panel) for name, panels in REPEATED.items() for panel in panels]
)
def test_a_stored_run_can_be_repeated(name, panel):
    result = load(name, RESULTS)
    config = result.config
    row = result.panel(panel)[0]
    again = replicate(config, panel, config.sizes[0], 0)
    heavy = config.panel(panel).setting in ("value", "output") and config.panel(panel).channels > 2
    check_repeated(row, again, heavy)
    # Negative control: another run of the same panel is not the same.
    with pytest.raises(AssertionError):
        check_repeated(result.panel(panel)[1], again, heavy)
