"""The command line: what it prints, where it stores, how it fails."""

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from hmoe_lib.experiments import STUDIES, catalogue, get, load, load_study
from hmoe_lib.experiments.__main__ import main

SIZES = (150, 200, 250, 300, 350)
SMALL = replace(
    get("figure1").select(["mha-K3", "mha-K4"]), name="small", variant="full", sizes=SIZES,
    replicates=2, grid=8, title="two small panels", core_seconds=200.0,
)  # fmt: skip


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    """A catalogue with one small experiment, and a cache of the test's own."""
    monkeypatch.setenv("HMOE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(catalogue.EXPERIMENTS, "small", SMALL)
    return tmp_path


def test_list_tells_what_is_shown_and_what_it_costs(capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    for text in ("figure1", "small", "two small panels", "mha-K4", "3.3 min of one core", "2 runs"):
        assert text in out


def test_every_experiment_says_what_it_shows_and_what_it_costs(capsys):
    main(["list"])
    out = capsys.readouterr().out
    for name, experiment in catalogue.EXPERIMENTS.items():
        assert len(experiment.title) > 15, name
        assert experiment.core_seconds > 0, name
        assert f"{name}\n  shows   {experiment.title}\n" in out


def test_run_prints_the_slopes_and_where_they_are(small, capsys):
    out = small / "out"
    assert main(["run", "small", "--jobs", "1", "--out", str(out), "--no-progress"]) == 0
    printed = capsys.readouterr()
    slopes = load("small", out).slopes()
    assert str(slopes) in printed.out
    assert str(out / "small.npz") in printed.out
    assert printed.err == ""
    assert main(["show", "small", "--out", str(out)]) == 0
    assert str(slopes) in capsys.readouterr().out


def test_a_study_of_likelihoods_is_run_and_shown(small, capsys, monkeypatch):
    tiny = replace(STUDIES["dense-exact"], name="tiny", sizes=(100, 120, 150, 200, 300), runs=2)
    monkeypatch.setitem(STUDIES, "tiny", tiny)
    assert main(["list"]) == 0 and "tiny\n  sizes   100, 120" in capsys.readouterr().out
    assert main(["run", "tiny", "--out", str(small)]) == 0
    printed = capsys.readouterr().out
    loss = load_study("tiny", small).slope("loss")
    assert f"mean {loss}" in printed and str(small / "study-tiny.npz") in printed
    assert main(["show", "tiny", "--out", str(small)]) == 0
    assert f"mean {loss}" in capsys.readouterr().out
    assert main(["run", "tinny"]) == 2 and "tinny" in capsys.readouterr().err


def test_progress_goes_to_standard_error(small, capsys):
    assert main(["run", "small", "--panel", "mha-K3", "--jobs", "1"]) == 0
    printed = capsys.readouterr()
    assert "10/10" in printed.err
    assert "10/10" not in printed.out
    assert main(["show", "small", "--panel", "mha-K3"]) == 0
    assert "mha-K4" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "figur1"], "did you mean 'figure1'"),
        (["run", "small", "--panel", "mha-K5"], "did you mean 'mha-K4'"),
        (["run", "small", "--jobs", "0"], "jobs: expected an integer >= 1"),
        (["show", "small"], "no stored result small.json"),
        (["show", "smal"], "did you mean 'small'"),
    ],
)
def test_an_error_is_one_line_and_status_two(arguments, message, capsys):
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert "Traceback" not in printed.err


def test_a_stale_result_is_not_shown(small, capsys, monkeypatch):
    assert main(["run", "small", "--jobs", "1", "--no-progress"]) == 0
    monkeypatch.setitem(catalogue.EXPERIMENTS, "small", replace(SMALL, noise_sd=0.3))
    assert main(["show", "small"]) == 2
    assert "run it again" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["ran", "figure1"], ["run"]])
def test_a_wrong_call_has_status_two(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2


@pytest.fixture
def heeds_control_c():
    """A shell lets what it starts with & ignore Control-C, and children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_control_c_says_how_to_go_on(small, heeds_control_c):
    command = [sys.executable, "-m", "hmoe_lib.experiments", "run", "figure1", "--jobs", "2"]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        seen = ""
        while "figure1:" not in seen and (character := process.stderr.read(1)):
            seen += character
        os.killpg(process.pid, signal.SIGINT)
        try:
            _, rest = process.communicate(timeout=600)
        finally:
            process.poll() is None and os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    assert "stopped; the same command goes on" in rest
    assert "Traceback" not in seen + rest
