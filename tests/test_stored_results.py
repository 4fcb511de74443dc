"""Every stored result of the book: declared in the catalogue, whole, and computed by this code."""

import json
from pathlib import Path

import numpy as np
import pytest

from hmoe_lib.experiments import Panel, get, load, replicate
from hmoe_lib.experiments.store import FORMAT

FOLDER = Path(__file__).parents[1] / "book" / "results"
MANIFESTS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
NAMES = [name for name, about in MANIFESTS.items() if about.get("format") == FORMAT]
# Those of flat mixtures have rows and a test of their own.
HIERARCHICAL = [
    name for name in NAMES if isinstance(get(MANIFESTS[name]["config"]["name"]).panels[0], Panel)
]
LARGEST = 1_000_000  # bytes of one file of numbers; a clone of the book must stay light


def check_replicate(row, again, noise_sd):
    """Compare a stored row with a computed one, as far as another processor may differ.

    Data, start and truth are sums of the same terms: nine digits. A fit takes the same steps until
    rounding makes it stop one earlier or later, in a valley that is level to 0.01 units of
    log-likelihood: its loss is held to 0.05 of them, distances to the truth to five percent.
    """
    for field in ("start_loss", "truth_loss"):
        assert again[field] == pytest.approx(row[field], rel=1e-9), field
    units = (again["fit_loss"] - row["fit_loss"]) * row["n"] / (2 * max(noise_sd, 1e-9) ** 2)
    assert abs(units) < 0.05, f"fit_loss differs by {units:.3g} units"
    for field in ("loss", "loss_r1", "loss_voronoi", "function_error"):
        assert again[field] == pytest.approx(row[field], rel=0.05), field
    assert again["starts"] == row["starts"]


def some_rows(result, count=3):
    """Rows at the smallest size, of panels spread over the experiment."""
    smallest = result.rows[result.rows["n"] == result.config.sizes[0]]
    first = smallest[smallest["replicate"] == 0]
    chosen = np.unique(np.linspace(0, len(first) - 1, count).round().astype(int))
    return first[chosen]


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_result_is_declared_and_small(name):
    result = load(name, FOLDER)
    assert result.config == get(result.config.name)
    assert (FOLDER / f"{name}.npz").stat().st_size < LARGEST
    assert np.all(np.isfinite(result.rows["loss"]))
    assert set(MANIFESTS[name]["versions"]) >= {"python", "numpy", "scipy", "code", "machine"}


@pytest.mark.parametrize("name", HIERARCHICAL)
def test_replicates_of_a_stored_result_are_computed_again(name):
    result = load(name, FOLDER)
    for row in some_rows(result):
        panel = result.config.panel(str(row["panel"]))
        noise_sd = result.config.noise_sd if panel.noise_sd is None else panel.noise_sd
        again = replicate(result.config, panel.name, int(row["n"]), int(row["replicate"]))
        check_replicate(row, again, noise_sd)


def test_another_replicate_and_a_changed_fit_are_noticed():
    """Negative control: the next replicate, and a fit stopped early, are not what is stored."""
    result = load("starts", FOLDER)
    row, other = result.panel("value-c1-e0.083")[:2]
    again = replicate(result.config, "value-c1-e0.083", int(row["n"]), 0)
    check_replicate(row, again, 0.1)
    with pytest.raises(AssertionError):
        check_replicate(other, again, 0.1)
    with pytest.raises(AssertionError, match="fit_loss"):
        check_replicate(row, {**again, "fit_loss": again["fit_loss"] * 1.001}, 0.1)


def test_both_files_of_every_result_are_there():
    assert {path.stem for path in FOLDER.glob("*.npz")} >= set(NAMES)
    assert {path.stem for path in FOLDER.glob("*.npz")} <= set(MANIFESTS)
