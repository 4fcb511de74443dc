"""Stored studies: runs recomputed, settings that bind, and slopes that a control can fail."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hmoe_lib.experiments import (
    STUDIES,
    DamagedResultError,
    StaleResultError,
    load_study,
    run_study,
    slope,
)
from hmoe_lib.experiments.density_catalogue import replicate_study

STORED = Path(__file__).resolve().parents[1] / "book" / "results"
# Sums of floating point numbers depend on the machine's vector width in the last bits, and a
# fit multiplies the difference by its conditioning: hence a tolerance, not equality.
TOLERANCE = {"rtol": 1e-4, "atol": 1e-6}


@pytest.mark.parametrize("name", STUDIES)
def test_a_stored_run_is_recomputed(name):
    result = load_study(name, STORED)
    study = result.study
    for run in (0, study.runs - 1):
        again = replicate_study(study, study.sizes[0], run)
        for field, value in again.items():
            if field not in ("iterations", "start_loss"):
                stored = result.values[field][0, run]
                np.testing.assert_allclose(value, stored, **TOLERANCE, err_msg=field)
    assert all(v.shape == (len(study.sizes), study.runs) for v in result.values.values())


def test_another_seed_is_not_the_stored_run():
    """Negative control of the comparison above."""
    result = load_study("dense-exact", STORED)
    other = replicate_study(replace(result.study, name="other"), result.study.sizes[0], 0)
    assert not np.isclose(other["loss"], result.values["loss"][0, 0], **TOLERANCE)


def test_other_settings_and_damage_are_refused(tmp_path, monkeypatch):
    tiny = replace(STUDIES["dense-exact"], sizes=(200, 300), runs=1)
    run_study(tiny, tmp_path)
    monkeypatch.setitem(STUDIES, "dense-exact", tiny)
    assert load_study("dense-exact", tmp_path).values["loss"].shape == (2, 1)
    monkeypatch.setitem(STUDIES, "dense-exact", replace(tiny, half=1.0))
    with pytest.raises(StaleResultError, match="other settings"):
        load_study("dense-exact", tmp_path)
    (tmp_path / "study-dense-exact.npz").write_bytes(b"nothing")
    with pytest.raises(DamagedResultError, match="not the file"):
        load_study("dense-exact", tmp_path)
    with pytest.raises(ValueError, match="study"):
        load_study("dense-exakt", tmp_path)


def test_every_study_declares_itself_in_plain_values():
    hashes = {study.hash() for study in STUDIES.values()}
    assert len(hashes) == len(STUDIES)
    for study in STUDIES.values():
        json.dumps(study.settings(), allow_nan=False)


def test_the_slope_of_an_exact_fit_is_not_that_of_its_start():
    result = load_study("dense-exact", STORED)
    assert abs(result.slope("loss", "median").value + 0.5) < 0.1
    rng = np.random.default_rng(0)
    start = slope(result.n, result.values["start_loss"], rng, "median")
    assert abs(start.value + 0.5) > 0.2
