"""Runs: the same bits however many workers, whatever else runs, and after an interruption."""

import os
import subprocess
import sys
import time
from dataclasses import replace

import joblib
import numpy as np
import pytest

import hmoe_lib as hl
from hmoe_lib.experiments import (
    Optimiser,
    Start,
    generator,
    get,
    grid,
    replicate,
    run,
    runner,
)
from hmoe_lib.experiments.journal import Journal
from hmoe_lib.experiments.result import ROW

FIGURE1 = get("figure1")
TINY = replace(
    FIGURE1.select(["mha-K3", "value-K3"]), name="tiny", sizes=(200, 300), replicates=2, grid=8
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("HMOE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def quiet(config, **options):
    return run(config, **{"jobs": 1, "progress": False, **options})


def same(first, second):
    return first.digest() == second.digest()


# ---- one replicate -------------------------------------------------------------------------------


def test_a_row_says_what_its_fit_did():
    panel = TINY.panel("value-K3")
    row = replicate(TINY, "value-K3", 300, 1)
    fit = quiet(TINY).measure("value-K3", 300, 1)
    points, model = grid(8, 2), panel.model()
    difference = model.predict(fit, points) - model.predict(panel.truth, points)
    assert row["loss"] == row["loss_voronoi"] == hl.voronoi_loss(model, fit, panel.truth, points)
    assert row["loss_r1"] == hl.voronoi_loss_r(model, fit, panel.truth, points, r=1)
    assert row["function_error"] == pytest.approx(np.sqrt(np.mean(difference**2)), rel=1e-12)
    assert row["theta"] == fit.to_vector().tolist()
    assert row["start_loss"] > 0
    assert set(ROW.names) <= row.keys()


def test_the_loss_of_plain_attention_is_the_first_one():
    row = replicate(TINY, "mha-K3", 300, 0)
    assert row["loss"] == row["loss_r1"] != row["loss_voronoi"]


def test_the_start_follows_its_distance():
    near, far = (
        replace(
            TINY,
            panels=[replace(TINY.panel("mha-K3"), start=Start(constant, 0.0))],
        )
        for constant in (0.01, 1.0)
    )
    losses = [replicate(config, "mha-K3", 300, 0)["start_loss"] for config in (near, far)]
    assert 50 < losses[1] / losses[0] < 200


def test_the_optimiser_and_its_options_are_used():
    def with_optimiser(optimiser):
        panel = replace(TINY.panel("value-K3"), optimiser=optimiser)
        return replicate(replace(TINY, panels=[panel]), "value-K3", 300, 0)

    full = with_optimiser(Optimiser())
    short = with_optimiser(Optimiser(options={"max_iterations": 2, "coarse": False}))
    descent = with_optimiser(Optimiser("gradient_descent", options={"max_epochs": 3}))
    assert short["iterations"] == 2
    assert short["status"] == "out of steps"
    assert descent["iterations"] == 3
    assert full["fit_loss"] < short["fit_loss"]
    assert full["fit_loss"] < descent["fit_loss"]
    assert full["start_loss"] == short["start_loss"] == descent["start_loss"]


def test_the_box_bounds_the_fit():
    panel = replace(TINY.panel("value-K3"), optimiser=Optimiser(box=1.0))
    row = replicate(replace(TINY, panels=[panel]), "value-K3", 300, 0)
    truth = panel.truth.to_vector()
    assert np.abs(row["theta"]).max() <= np.abs(truth).max()
    assert isinstance(row["hit_bounds"], bool)


def panel_row(**changes):
    panel = replace(TINY.panel("value-K3"), **changes)
    return replicate(replace(TINY, panels=[panel], epochs=(0, 1, 10_000)), "value-K3", 300, 0)


def test_a_row_tells_experts_and_combinations():
    row = panel_row(loss="experts")
    parts = ("gates", "weights", "single", "shared_squared")
    assert row["loss"] == row["loss_experts"]
    assert row["loss"] == pytest.approx(sum(row[f"error_{part}"] for part in parts), rel=1e-12)
    assert row["error_combinations"] > 0
    assert row["starts"] == 1


def test_the_best_of_several_starts_is_kept():
    counted = {m: panel_row(start=Start(1.0, 0.0, "random", m)) for m in (1, 4)}
    assert counted[4]["starts"] == 4
    assert counted[4]["fit_loss"] <= counted[1]["fit_loss"]
    assert counted[4]["iterations"] > counted[1]["iterations"]
    assert 0 <= counted[4]["reached"] <= 4
    assert (counted[4]["reached"] > 0) == (counted[4]["fit_loss"] <= counted[4]["truth_loss"])
    # The first of the four starts is the one of the single run.
    assert panel_row(start=Start(1.0, 0.0, "random", 1)) != panel_row()


def test_without_a_box_a_fit_may_leave_it():
    options = {"max_iterations": 60, "gain": 0.0}
    boxed, free = (
        panel_row(optimiser=Optimiser(box=box, options=options)) for box in (1.0, "open")
    )
    largest = np.abs(TINY.panel("value-K3").truth.a).max()
    shape = TINY.panel("value-K3").truth.shape._replace(channels=3)
    a = {name: np.abs(np.array(row["theta"])[shape.slices["a"]]).max()
         for name, row in (("boxed", boxed), ("free", free))}  # fmt: skip
    assert a["boxed"] <= largest < a["free"]
    assert min(np.array(free["theta"])[shape.slices["omega"]]) >= 0


def test_noise_of_a_panel_replaces_that_of_the_experiment():
    quiet_row, loud = panel_row(noise_sd=0.0), panel_row(noise_sd=1.0)
    assert quiet_row["truth_loss"] == 0.0
    assert loud["truth_loss"] == pytest.approx(100 * panel_row()["truth_loss"], rel=1e-9)


def test_losses_are_kept_at_the_epochs_asked_for():
    config = replace(TINY, epochs=(0, 1, 10_000))
    result = quiet(config)
    assert result.history.shape == (8, 3)
    assert np.all(result.history[:, 1] < result.history[:, 0])
    assert np.all(np.isnan(result.history[:, 2]))
    assert quiet(TINY).history.shape == (8, 0)
    # The digest sees them.
    other = result.history.copy()
    other[0, 0] = np.nextafter(other[0, 0], 1.0)
    assert not same(result, replace(result, history=other))
    with pytest.raises(ValueError, match="history: expected 8 rows, got 7"):
        replace(result, history=result.history[:-1])


# ---- seeds ---------------------------------------------------------------------------------------


def test_replicates_differ_in_number_size_and_name_of_the_experiment():
    rows = [
        replicate(TINY, "mha-K3", 300, 0),
        replicate(TINY, "mha-K3", 300, 1),
        replicate(TINY, "mha-K3", 301, 0),
        replicate(replace(TINY, name="other"), "mha-K3", 300, 0),
    ]
    assert len({row["fit_loss"] for row in rows}) == 4


def test_seeds_are_the_same_in_every_process():
    """Python's hash() of a text is salted: a seed made of it would differ here."""
    code = (
        "from hmoe_lib.experiments import generator; print(generator('figure1', 10000, 3).random())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert float(out.stdout) == generator("figure1", 10000, 3).random()
    assert float(out.stdout) == 0.14942375378757755


def test_one_replicate_alone_equals_the_same_one_in_a_run():
    result = quiet(TINY)
    wider = replace(TINY, sizes=(150, 200, 300, 400), replicates=3, panels=TINY.panels[::-1])
    for row, theta in zip(result.rows, result.theta, strict=True):
        key = str(row["panel"]), int(row["n"]), int(row["replicate"])
        alone = replicate(wider, *key)
        assert tuple(alone[name] for name in ROW.names) == row.item()
        assert alone["theta"] == theta[: len(alone["theta"])].tolist()


def test_a_panel_alone_has_the_numbers_of_the_full_run():
    both, alone = quiet(TINY), quiet(TINY, panels="value-K3")
    assert np.array_equal(both.panel("value-K3"), alone.rows)
    assert both.alone("value-K3").digest() == alone.digest()


def test_an_ignored_seed_would_be_noticed(monkeypatch):
    """Negative control: with one seed for all, the replicates of a size coincide."""
    honest = quiet(TINY).panel("mha-K3")["loss"].reshape(2, 2)
    monkeypatch.setattr(runner, "_seed", lambda *origin: np.random.SeedSequence(0))
    careless = quiet(TINY).panel("mha-K3")["loss"].reshape(2, 2)
    assert honest[0, 0] != honest[0, 1]
    assert careless[0, 0] == careless[0, 1]


# ---- workers -------------------------------------------------------------------------------------


def test_any_number_of_workers_gives_the_same_bits():
    one, two = quiet(TINY, jobs=1), quiet(TINY, jobs=2)
    assert same(one, two)
    assert one.rows.tobytes() == two.rows.tobytes()
    # Negative control: the digest must see a change in the last bit of one number.
    rows = one.rows.copy()
    rows["loss"][0] = np.nextafter(rows["loss"][0], np.inf)
    assert not same(one, replace(one, rows=rows))


def test_the_engine_can_be_exchanged():
    with joblib.parallel_config(backend="threading"):
        threads = quiet(TINY, jobs=2)
    assert same(threads, quiet(TINY))


def test_a_replicate_computes_with_one_blas_thread(monkeypatch):
    from threadpoolctl import threadpool_info

    seen = []

    def spy(*arguments):
        seen.extend(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas")
        return {}

    monkeypatch.setattr(runner, "_fitted", spy)
    replicate(TINY, "mha-K3", 300, 0)
    assert seen
    assert set(seen) == {1}


@pytest.mark.parametrize("jobs", [0, -1, 1.5, "two", True])
def test_jobs_are_checked(jobs):
    with pytest.raises(ValueError, match="jobs: expected an integer >= 1"):
        run(TINY, jobs=jobs)


def test_unknown_names_and_types_are_refused():
    with pytest.raises(ValueError, match="did you mean 'figure1'"):
        run("figur1")
    with pytest.raises(ValueError, match="did you mean 'value-K3'"):
        run(TINY, panels=["value-K2"])
    with pytest.raises(ValueError, match="experiment: expected a name or an Experiment, got 3"):
        run(3)


# ---- interruptions -------------------------------------------------------------------------------


@pytest.mark.parametrize("stop_after", [1, 3, 7])
def test_a_stopped_run_resumes_to_the_same_bits(stop_after, monkeypatch):
    whole = quiet(TINY)
    done = []
    honest = runner.replicate

    def stopping(config, panel, n, number):
        if len(done) == stop_after:
            raise KeyboardInterrupt
        done.append((panel, n, number))
        return honest(config, panel, n, number)

    monkeypatch.setattr(runner, "replicate", stopping)
    with pytest.raises(KeyboardInterrupt):
        quiet(TINY)
    kept = len(Journal(TINY).records())
    assert stop_after - 1 <= kept <= stop_after
    resumed = []
    monkeypatch.setattr(
        runner, "replicate", lambda config, *key: resumed.append(key) or honest(config, *key)
    )
    again = quiet(TINY)
    assert same(whole, again)
    assert len(resumed) == 8 - kept
    assert not Journal(TINY).path.exists()


def test_resume_false_starts_afresh(monkeypatch):
    Journal(TINY).append({**replicate(TINY, "mha-K3", 200, 0), "loss": 12345.0})
    assert 12345.0 not in quiet(TINY, resume=False).rows["loss"]
    # Negative control: with resume the forged row would have been taken over.
    Journal(TINY).append({**replicate(TINY, "mha-K3", 200, 0), "loss": 12345.0})
    assert 12345.0 in quiet(TINY).rows["loss"]


SLOWED = """
import sys, time
sys.path.insert(0, sys.argv[1])
from test_experiments_run import TINY, runner
honest = runner.replicate
runner.replicate = lambda *arguments: time.sleep(0.5) or honest(*arguments)
runner.run(TINY, jobs=1, progress=False)
"""


def test_a_killed_process_leaves_a_journal_that_resumes():
    """SIGKILL cannot be caught: what is on the disk at that moment must be enough."""
    journal = Journal(TINY)
    process = subprocess.Popen([sys.executable, "-c", SLOWED, os.path.dirname(__file__)])
    while process.poll() is None and len(_lines(journal)) < 4:
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert 3 <= len(journal.records()) < 8
    resumed = quiet(TINY)
    assert not journal.path.exists()
    assert same(resumed, quiet(TINY))


def _lines(journal):
    return journal.path.read_bytes().split(b"\n") if journal.path.exists() else []


# ---- results -------------------------------------------------------------------------------------


def test_values_measures_and_slopes_of_a_result():
    config = replace(TINY, sizes=(150, 200, 250, 300, 350), panels=[TINY.panel("mha-K3")])
    result = quiet(config)
    n, losses = result.values("mha-K3")
    assert n.tolist() == [150, 200, 250, 300, 350]
    assert losses.shape == (5, 2)
    assert losses[3, 1] == result.rows["loss"][7]
    assert result.measure("mha-K3", 250, 1).channels == 3
    table = result.slopes()
    assert table == result.slopes()
    assert table["mha-K3"]["mean"] != result.slopes(rng=np.random.default_rng(0))["mha-K3"]["mean"]
    assert "function_error" not in str(table)
    with pytest.raises(ValueError, match="did you mean 'function_error'"):
        result.values("mha-K3", "function_eror")
    with pytest.raises(ValueError, match="there is no mha-K3, n = 251"):
        result.measure("mha-K3", 251, 0)


def test_slopes_need_five_sizes():
    with pytest.raises(ValueError, match="at least 5 sample sizes for a slope, got 2"):
        quiet(TINY).slopes()


def test_a_result_refuses_missing_rows():
    result = quiet(TINY)
    with pytest.raises(ValueError, match="expected the 8 replicates of tiny"):
        replace(result, rows=result.rows[:-1])
    with pytest.raises(ValueError, match="in order"):
        replace(result, rows=result.rows[::-1])
    with pytest.raises(ValueError, match="theta: expected 8 rows, got 7"):
        replace(result, theta=result.theta[:-1])


def test_the_grid_is_the_midpoints():
    points = grid(4, 2)
    assert points.shape == (16, 2)
    assert np.unique(points).tolist() == [-0.75, -0.25, 0.25, 0.75]
    assert points.mean() == 0.0


def test_figure1_quick_has_its_structure_and_expected_numbers():
    result = run("figure1", quick=True, progress=False)
    config = get("figure1").quick()
    assert len(result.rows) == 6 * len(config.sizes) * config.replicates
    assert result.config == config
    assert np.all(result.rows["loss"] > 0)
    assert np.all(np.isfinite(result.theta).sum(axis=1) >= 36)
    assert set(result.rows["status"]) <= {"converged", "hit bounds", "stalled", "out of steps"}
    assert list(result.slopes()) == [panel.name for panel in config.panels]
    # Noise of sd 0.1: the residual of a fit that found the function is near 0.01.
    assert np.median(result.rows["fit_loss"]) == pytest.approx(0.01, rel=0.05)
