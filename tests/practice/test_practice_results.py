"""The stored study: whole, of the book's sizes, and what numpy finds in the stored weights."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from hmoe_lib import practice
from hmoe_lib.practice import VARIANTS, Config, store
from hmoe_lib.practice import __main__ as command
from hmoe_lib.practice.__main__ import main
from hmoe_lib.practice.result import WEIGHTS
from hmoe_lib.practice.study import MEASURED_WINDOWS, SEEDS
from hmoe_lib.practice.training import check_text

STORED = Path(__file__).resolve().parents[2] / "book" / "results"
RESULT = practice.load_practice(STORED)
TEXT = practice.python_reference()
SAME_TEXT = pytest.mark.skipif(
    TEXT.sha256 != RESULT.about["text_sha256"],
    reason=f"this Python has another text than the stored study ({RESULT.about['text']})",
)


def test_all_variants_and_seeds_are_there_and_finite():
    assert RESULT.variants == tuple(VARIANTS) and RESULT.seeds == SEEDS
    config, shape = RESULT.config, (len(VARIANTS), len(SEEDS))
    assert RESULT.values["losses"].shape == (*shape, config.steps)
    assert RESULT.values["validation"].shape == (*shape, config.steps // config.validate_every)
    for field in practice.FIELDS:
        values = RESULT.values[field]
        assert values.shape == (*shape, config.layers)
        gates = [v for v in VARIANTS if Config(v).gate_shape is not None]
        some = gates if field.startswith("gate") else VARIANTS
        assert all(np.isfinite(RESULT.of(field, v)).all() for v in some)
    assert np.all(RESULT.values["losses"][..., 0] > 5)
    assert np.all(RESULT.values["validation_loss"] < 2.5)


def test_the_manifest_says_what_made_it():
    about = RESULT.about
    assert about["text"].startswith("pydoc_data.topics of Python 3.")
    assert {"python", "numpy", "jax", "jaxlib", "optax", "code"} <= set(about["versions"])
    assert about["config"] == Config().to_dict()


def test_the_weights_are_small():
    sizes = [(STORED / f"practice-weights-{name}.npz").stat().st_size for name in WEIGHTS]
    assert sum(sizes) < 3_000_000
    with pytest.raises(ValueError, match="weights of none, setting-II are stored, not of G1"):
        practice.load_weights("G1", STORED)


def check_loss(config, weights, expected, tolerance=1e-4):
    windows = practice.validation_windows(config, TEXT)
    found = np.mean([practice.loss(config, weights, window) for window in windows])
    if not abs(found - expected) < tolerance:
        raise AssertionError(f"loss {found:.4f} in numpy, {expected:.4f} when it was trained")


@SAME_TEXT
@pytest.mark.parametrize("variant", WEIGHTS)
def test_numpy_finds_the_loss_that_training_ended_with(variant):
    config, weights, about = practice.load_weights(variant, STORED)
    stored = RESULT.of("validation_loss", variant)[0]
    assert about["validation_loss"] == pytest.approx(stored, abs=1e-6)
    check_loss(config, weights, stored)


@SAME_TEXT
def test_other_weights_do_not_have_that_loss():
    """Negative control."""
    config, weights, about = practice.load_weights("none", STORED)
    weights["W_V"][2, 1] = 0.0  # one head of twenty is silent
    with pytest.raises(AssertionError, match=r"loss .* in numpy"):
        check_loss(config, weights, about["validation_loss"])


@SAME_TEXT
def test_what_is_measured_is_found_again():
    config, weights, _ = practice.load_weights("none", STORED)
    windows = practice.validation_windows(config, TEXT, MEASURED_WINDOWS)
    found = practice.measure(config, weights, windows)
    for field in ("first_share", "entropy", "effective_rank", "largest_stream"):
        assert np.allclose(found[field], RESULT.of(field, "none")[0], rtol=0.02), field


def test_intervals_are_student_s():
    one, two = (RESULT.of("validation_loss", v).astype(float) for v in ("G5", "none"))
    paired = stats.ttest_rel(one, two).confidence_interval()
    assert np.allclose(RESULT.difference("validation_loss", "G5")[1:], paired, atol=1e-6)
    layers = RESULT.of("entropy", "none").mean(axis=1).astype(float)
    alone = stats.ttest_1samp(layers, 0).confidence_interval()
    assert np.allclose(RESULT.interval("entropy", "none")[1:], alone, atol=1e-5)
    with pytest.raises(ValueError, match="at least two finite numbers"):
        practice.t_interval([1.0])
    with pytest.raises(ValueError, match="field: 'los' is not stored"):
        RESULT.of("los", "none")
    with pytest.raises(ValueError, match="variant: 'G6' is not stored"):
        RESULT.of("losses", "G6")


def test_the_command_lists_and_shows(capsys):
    assert main(["list"]) == 0
    for line, (name, variant) in zip(
        capsys.readouterr().out.splitlines(), VARIANTS.items(), strict=True
    ):
        trained = sum(w.size for w in practice.start(Config(name)).values())
        assert line.split()[0] == name and variant.shows in line
        assert line.endswith(f"; {trained:,} parameters")
    assert main(["show", "--out", str(STORED)]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    losses = {v: RESULT.of("validation_loss", v).astype(float) for v in VARIANTS}
    for line, name in zip(lines, VARIANTS, strict=True):
        assert line.startswith(f"{name:12s} {losses[name].mean():.3f} [")
        gap = (losses[name] - losses["none"]).mean()
        assert name == "none" or line.split("]   ")[1].startswith(f"{gap:.3f} [")
    assert main(["show", "--out", str(STORED / "nowhere")]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_the_command_hands_on_what_it_was_asked(capsys, monkeypatch, tmp_path):
    asked = {}

    def run_practice(progress, folder, **choice):
        asked.update(choice, progress=progress)
        return tmp_path

    def collect(out, folder, **choice):
        asked.update(out=out, same=choice == {k: asked[k] for k in choice}, folder=folder)

    monkeypatch.setattr(command, "run_practice", run_practice)
    monkeypatch.setattr(command, "collect", collect)
    options = ["--seeds", "3", "5", "--steps", "9", "--out", str(tmp_path / "o"), "--no-progress"]
    assert main(["train", "G5", *options]) == 0
    assert str(tmp_path / "o" / "practice.npz") in capsys.readouterr().out
    assert asked["variants"] == ("G5",) and asked["seeds"] == [3, 5] and asked["same"]
    assert asked["config"] == Config(steps=9) and asked["progress"] is False
    assert asked["text"].sha256 == TEXT.sha256 and asked["folder"] == tmp_path
    assert main(["train"]) == 0 and asked["variants"] == tuple(VARIANTS)
    assert asked["seeds"] == list(SEEDS) and asked["config"] == Config()

    def interrupted(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run_practice", interrupted)
    assert main(["train"]) == 130 and "goes on from the last" in capsys.readouterr().err


def test_results_of_another_format_are_refused(monkeypatch):
    monkeypatch.setattr(practice.result, "FORMAT", "hmoe practice 2")
    with pytest.raises(store.DamagedResultError, match="format 'hmoe practice 1', not 'hmoe pr"):
        practice.load_practice(STORED)


def test_an_interval_decides_when_zero_is_outside():
    decided = [practice.Interval(0.0, *ends).decided for ends in ((-2, -1), (-1, 1), (1, 2))]
    assert decided == [True, False, True] and not practice.Interval(1.0, 0.0, 2.0).decided


def test_a_window_longer_than_the_text_is_refused():
    text = practice.text_of("short", b"ab " * 40_000)
    longest = min(len(text.train), len(text.validation))
    check_text(Config(context=longest - 1), text)
    with pytest.raises(ValueError, match=f"context: expected less than the {longest} bytes"):
        check_text(Config(context=longest), text)


def test_a_changed_file_is_refused(tmp_path):
    for ending in ("json", "npz"):
        content = (STORED / f"practice.{ending}").read_bytes()
        (tmp_path / f"practice.{ending}").write_bytes(content)
    assert practice.load_practice(tmp_path).seeds == RESULT.seeds
    (tmp_path / "practice.npz").write_bytes(content[:-1] + b"x")
    with pytest.raises(store.DamagedResultError, match="not the file that was written"):
        practice.load_practice(tmp_path)
