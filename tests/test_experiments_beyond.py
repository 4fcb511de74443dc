"""The stored result beyond n = 1e5: of today's config, and the same when it is computed again."""

from pathlib import Path

import numpy as np
import pytest

from hmoe_lib.experiments import get, load, replicate

CONFIG = get("beyond-1e5")
FOLDER = Path(__file__).resolve().parents[1] / "book" / "results"


@pytest.fixture(scope="module")
def stored():
    return load(CONFIG, FOLDER)


def test_it_reaches_ten_million_from_data_never_held(stored):
    assert stored.config.streamed
    assert (stored.config.sizes[0], stored.config.sizes[-1]) == (100_000, 10_000_000)
    assert set(stored.rows["status"]) <= {"converged", "hit bounds"}
    assert np.all(stored.rows["fit_loss"] < stored.rows["truth_loss"])


@pytest.mark.parametrize("panel", ["mha-K3", "value-K3", "output-K4"])
def test_a_fit_computed_again_is_the_stored_one(stored, panel):
    """Processors differ in the last bits, and a flat valley makes more of them: hence bounds."""
    n = CONFIG.sizes[0]
    (row,) = stored.panel(panel)[stored.panel(panel)["n"] == n]
    again = replicate(CONFIG, panel, n, 0)
    assert again["truth_loss"] == pytest.approx(row["truth_loss"], rel=1e-10)
    assert again["fit_loss"] == pytest.approx(row["fit_loss"], rel=0.05 * 2 / n)
    assert again["start_loss"] == pytest.approx(row["start_loss"], rel=1e-10)
    assert again["function_error"] == pytest.approx(row["function_error"], rel=0.02)
    assert again["loss"] == pytest.approx(row["loss"], rel=0.1)
    # Negative control: another run's data would not pass.
    other = replicate(CONFIG, "mha-K3", n, 1)
    assert other["truth_loss"] != pytest.approx(row["truth_loss"], rel=1e-6)
