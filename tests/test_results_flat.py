"""Stored results of the gates: those of the declared config, and replicates that come out again.

Another processor may differ in the last bits, and a fit magnifies them along flat valleys: what is
compared is what the data determine, to a tolerance.
"""

from pathlib import Path

import numpy as np
import pytest

from hmoe_lib.experiments import load, replicate

RESULTS = Path(__file__).resolve().parents[1] / "book" / "results"
STORED = sorted(path.stem for path in RESULTS.glob("gates-*.json"))


@pytest.mark.parametrize("name", STORED)
def test_stored_replicates_come_out_again(name):
    result = load(name, RESULTS)  # refuses another config than the declared one
    n = result.config.sizes[0]
    for panel in result.config.panels[:: max(1, len(result.config.panels) // 4)]:
        row = result.panel(panel.name)[1]
        again = replicate(result.config, panel.name, n, 1)
        assert (row["n"], row["replicate"]) == (n, 1)
        for field in ("fit_loss", "truth_loss", "start_loss"):
            assert np.isclose(again[field], row[field], rtol=1e-4), (panel.name, field)
        assert np.isclose(again["function_error"], row["function_error"], rtol=0.05)
        other = replicate(result.config, panel.name, n, 2)
        assert not np.isclose(other["truth_loss"], row["truth_loss"], rtol=1e-4)


def test_there_are_stored_results():
    assert "gates-cosine" in STORED
