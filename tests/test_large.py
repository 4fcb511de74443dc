"""The runs at the literature's size: small ones compute, stored ones are what they say."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hmoe_lib.experiments import load_study
from hmoe_lib.experiments.density_catalogue import replicate_study
from hmoe_lib.experiments.large import BOX, LARGE, LargeStudy
from hmoe_lib.experiments.runner import generator

RESULTS = Path(__file__).parents[1] / "book" / "results"


@pytest.mark.parametrize("system", LARGE)
def test_a_truth_is_drawn_as_declared(system):
    study = LARGE[system]
    G, d = study.truth(), study.dim
    zero = np.flatnonzero(~G.router.any(axis=1)).tolist()
    assert zero == ([6, 7] if system == "cosine" else [0]) and G.atoms == 8 and d == 32
    others = np.delete(G.router, zero, axis=0)
    assert np.isclose(others.std(), study.scales()["router"], rtol=0.15)
    assert np.isclose(G.expert[:, :-1].std(), d**-0.5, rtol=0.15) and not G.expert[:, -1].any()
    assert study.truth() == G
    assert replace(study, name="another").truth() != G


@pytest.mark.parametrize("system", LARGE)
def test_a_start_is_near_the_truth_and_in_the_box(system):
    study = LARGE[system]
    start, box = study.start(np.random.default_rng(1))
    theta = start.to_vector()
    assert np.all((theta > box.lower) & (theta < box.upper))
    assert start.atoms == 8 + (system == "sigmoid")
    at, unit = start.shape.slices["expert"], study.scales()["expert"]
    assert np.all(box.upper[at] >= BOX * unit)
    G = study.truth() if system == "cosine" else study.truth().split_atom(0, [0.5] * 2, "sigmoid")
    assert np.isclose((theta - G.to_vector())[at].std(), 0.3 * unit, rtol=0.15)


@pytest.mark.parametrize("system", LARGE)
def test_a_small_one_computes(system):
    tiny = LargeStudy(f"tiny-{system}", system, (600,), dim=3, atoms=4)
    row = replicate_study(tiny, 600, 0)
    assert row["loss_1"] > 0 and row["fit_loss"] < 1.1 * row["truth_loss"]
    assert row["fit_loss"] <= row["plain_loss"] + 1e-12 and 0.005 < row["truth_loss"] < 0.015
    assert np.isnan(row["same"]) if system == "sigmoid" else row["same"] > 0.3
    again = replicate_study(tiny, 600, 0)
    assert again["fit_loss"] == row["fit_loss"] != replicate_study(tiny, 600, 1)["fit_loss"]


@pytest.mark.parametrize("system", LARGE)
def test_a_stored_fit_has_the_loss_that_is_stored(system):
    """The fit itself takes minutes; its data and its criterion are computed anew."""
    study = LARGE[system]
    values = load_study(study, RESULTS).values
    for row, n in enumerate(study.sizes[:2]):
        rng = generator(study.name, n, 0)
        model, truth = study.model(), study.truth()
        X = rng.uniform(-1.0, 1.0, (n, study.dim))
        y = model.sample(truth, X, study.noise_sd, rng=rng)
        start, _ = study.start(rng)
        fit = start.from_vector(values["theta"][row, 0])
        found = [np.mean((y - model.predict(G, X)) ** 2) for G in (fit, truth)]
        stored = [values[key][row, 0] for key in ("fit_loss", "truth_loss")]
        assert np.allclose(found, stored, rtol=1e-7)
        assert not np.allclose(found[0], values["fit_loss"][row - 1, 0], rtol=1e-3)


def test_an_unknown_system_is_named():
    with pytest.raises(ValueError, match="system: 'cosin' is not known; did you mean 'cosine'"):
        LargeStudy("a", "cosin", (10,))
