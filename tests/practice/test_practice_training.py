"""Training: JAX against numpy, gradients, resumption, and what is said when it goes wrong."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from hmoe_lib import practice
from hmoe_lib.practice import VARIANTS, Config, NotFiniteError, forward, start, store, study, train
from hmoe_lib.practice.__main__ import main
from hmoe_lib.practice.extra import need
from hmoe_lib.practice.jax_model import batch_logits, batch_loss

pytestmark = pytest.mark.needs_jax
SMALL = {
    "layers": 2, "features": 12, "heads": 3, "context": 7, "steps": 12, "batch": 3, "warmup": 3,
    "validate_every": 4, "windows": 5,
}  # fmt: skip
QUICK = {**SMALL, "layers": 1, "context": 31}  # compiled in two seconds
MODULE = sys.modules["hmoe_lib.practice.training"]


@pytest.fixture(scope="module")
def text():
    return practice.text_of("counting", " ".join(map(str, range(20_000))).encode())


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """A checkpoint every three steps."""
    monkeypatch.setattr(MODULE, "CHECKPOINT_EVERY", 3)


def small(variant="none", **options) -> Config:
    return Config(variant, **{**SMALL, **options})


def quick(variant="none", **options) -> Config:
    return Config(variant, **{**QUICK, **options})


@pytest.fixture(scope="module")
def whole(text):
    """A training that nobody stopped."""
    return train(quick("G1"), text, progress=False)


def shaken(config, seed=0):
    rng = np.random.default_rng(seed)
    return {n: w + 0.5 * rng.standard_normal(w.shape) for n, w in start(config).items()}


# ---- two roads to one function -------------------------------------------------------------------


def check_same_logits(config, weights, batch_of=batch_logits):
    tokens = np.random.default_rng(1).integers(0, 256, (2, config.context))
    fast = np.asarray(batch_of(config, {n: np.float32(w) for n, w in weights.items()}, tokens))
    for row, window in zip(fast, tokens, strict=True):
        slow = forward(config, weights, window)[0]
        if not np.abs(row - slow).max() < 1e-5 * max(1.0, np.abs(slow).max()):
            raise AssertionError(f"JAX and numpy differ by {np.abs(row - slow).max():.1e}")


@pytest.mark.parametrize("variant", VARIANTS)
def test_jax_and_the_functions_of_the_book_agree(variant):
    check_same_logits(small(variant), shaken(small(variant)))


@pytest.mark.parametrize("variant", ["none", "G2", "sigmoid"])
def test_they_agree_at_the_size_of_the_book(variant):
    check_same_logits(Config(variant), start(Config(variant)))


@pytest.mark.parametrize(("wrong", "right"), [("G1", "G2"), ("none", "sigmoid"), ("G3", "G4")])
def test_another_variant_does_not_agree(wrong, right):
    """Negative control."""

    def other(config, weights, tokens):
        return batch_logits(small(wrong), weights, tokens)

    with pytest.raises(AssertionError, match="JAX and numpy differ"):
        check_same_logits(small(right), shaken(small(right)), other)


def check_gradient(config, weights, slopes, window):
    """Along one random direction for each array, by the loss of the numpy road, in float64."""
    rng, step = np.random.default_rng(2), 1e-5
    for name, slope in slopes.items():
        direction = rng.standard_normal(slope.shape)
        ends = [
            practice.loss(config, {**weights, name: weights[name] + s * direction}, window)
            for s in (step, -step)
        ]
        difference = (ends[0] - ends[1]) / (2 * step)
        along = float(np.sum(np.asarray(slope) * direction))
        if not abs(along - difference) < 1e-6 * max(1.0, abs(difference)):
            raise AssertionError(f"{name}: {along} by JAX, {difference} by differences")


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_are_those_of_finite_differences(variant):
    jax, jnp = need("jax", "jax.numpy")
    config = small(variant)
    weights = shaken(config)
    window = np.random.default_rng(3).integers(0, 256, 8)
    with jax.enable_x64(True):
        double = {name: jnp.asarray(w, dtype=jnp.float64) for name, w in weights.items()}
        slopes = jax.grad(lambda w: batch_loss(config, w, window[None]))(double)
        assert slopes["W_Q"].dtype == jnp.float64
        slopes = {name: np.asarray(slope) for name, slope in slopes.items()}
    check_gradient(config, weights, slopes, window)
    slopes["W_V"] = slopes["W_V"] + 1e-3  # control
    with pytest.raises(AssertionError, match="W_V: "):
        check_gradient(config, weights, slopes, window)


# ---- learning and going on -----------------------------------------------------------------------


def test_something_is_learned(text):
    long = quick(steps=80, features=24, batch=8, rate=1e-2, warmup=10)
    result = train(long, text, progress=False)
    assert result.losses[0] > 5.4 and result.losses[-10:].mean() < 2.8
    assert result.validation[-1] < result.validation[0]
    windows = practice.validation_windows(long, text)
    slow = np.mean([practice.loss(long, result.weights, window) for window in windows])
    assert abs(result.validation_loss - slow) < 1e-5


def same(one, other):
    return (
        np.array_equal(one.losses, other.losses)
        and np.array_equal(one.validation, other.validation)
        and all(np.array_equal(one.weights[n], other.weights[n]) for n in one.weights)
    )


def test_a_stopped_training_goes_on_to_the_same_bits(whole, text, tmp_path):
    config = quick("G1")
    part = train(config, text, tmp_path, progress=False, stop_after=8)
    assert np.array_equal(part.losses, whole.losses[:8])
    assert [path.name[-11:] for path in tmp_path.glob("*.json")] == ["000006.json"]
    assert same(train(config, text, tmp_path, progress=False), whole)


def test_from_another_checkpoint_it_does_not(whole, text, tmp_path):
    """Negative control."""
    config = quick("G1")
    train(config, text, tmp_path, progress=False, stop_after=6)
    arrays = store.last_checkpoint(config, text, tmp_path)
    arrays["weights.W_V"] *= np.float32(1 + 1e-6)
    store.save_checkpoint(config, text, tmp_path, 6, arrays)
    again = train(config, text, tmp_path, progress=False)
    assert np.array_equal(again.losses[:6], whole.losses[:6]) and not same(again, whole)


KILLED = """
import os, signal, sys
import hmoe_lib.practice as practice
from hmoe_lib.practice import Config
module = sys.modules["hmoe_lib.practice.training"]
module.CHECKPOINT_EVERY, batch = 3, module.batch
def killing(config, text, step):
    if step == 10:
        os.kill(os.getpid(), signal.SIGKILL)
    return batch(config, text, step)
module.batch = killing
text = practice.text_of("counting", " ".join(map(str, range(20_000))).encode())
practice.train(Config("G1", **{QUICK!r}), text, {folder!r}, progress=False)
"""


def test_a_killed_training_goes_on_to_the_same_bits(whole, text, tmp_path):
    code = KILLED.replace("{QUICK!r}", repr(QUICK)).replace("{folder!r}", repr(str(tmp_path)))
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    config = quick("G1")
    assert len(store.last_checkpoint(config, text, tmp_path)["losses"]) == 9
    assert same(train(config, text, tmp_path, progress=False), whole)


def test_a_damaged_checkpoint_is_passed_over_and_a_foreign_one_too(text, tmp_path):
    config = quick()
    train(config, text, tmp_path, progress=False, stop_after=6)
    (found,) = tmp_path.glob("*.npz")
    torn = found.with_name(found.name.replace("000006", "000009"))
    torn.write_bytes(found.read_bytes()[:-50])
    torn.with_suffix(".json").write_text(found.with_suffix(".json").read_text())
    assert len(store.last_checkpoint(config, text, tmp_path)["losses"]) == 6
    assert store.last_checkpoint(quick(rate=1e-3), text, tmp_path) is None
    other = practice.text_of("more", b"ab " * 40_000)
    assert store.last_checkpoint(config, other, tmp_path) is None


def test_nan_stops_with_the_step_and_its_windows(text, monkeypatch, tmp_path):
    config, begin = quick(), MODULE.start
    at, _ = MODULE.batch(config, text, 0)

    def spoiled(config):
        weights = begin(config)
        weights["W_in"][0, 0, 0] = np.nan
        return weights

    monkeypatch.setattr(MODULE, "start", spoiled)
    where = ", ".join(map(str, at))
    with pytest.raises(NotFiniteError, match=rf"loss is nan at step 1, .* bytes {where} of the tr"):
        train(config, text, tmp_path, progress=False)
    assert list(tmp_path.iterdir()) == []


def test_a_rate_that_is_far_too_large_is_said_to_be(text):
    with pytest.raises(NotFiniteError, match=r"at step .* a lower rate helps most often"):
        train(quick(rate=1e30, steps=40), text, progress=False)


# ---- the study -----------------------------------------------------------------------------------


def test_a_study_is_stored_and_read(text, tmp_path, monkeypatch):
    config, choice = quick(), {"variants": ("none", "setting-II"), "seeds": (0, 1)}
    monkeypatch.setattr(study, "MEASURED_WINDOWS", 3)
    folder = practice.run_practice(**choice, config=config, text=text, folder=tmp_path / "runs",
                                   progress=False)  # fmt: skip
    assert not list(folder.glob("*-step*"))
    with monkeypatch.context() as patch:  # what is finished is not done again
        patch.setattr(study, "train", None)
        practice.run_practice(**choice, config=config, text=text, folder=folder, progress=False)
    practice.collect(tmp_path, **choice, config=config, text=text, folder=folder)
    with pytest.raises(ValueError, match="run: G2 with seed 0 is not finished"):
        practice.collect(tmp_path, ("G2",), (0,), config, text, folder)
    with pytest.raises(practice.store.StaleResultError, match="other sizes"):
        practice.load_practice(tmp_path)
    monkeypatch.setattr(practice.result, "_checked", lambda about, stem: Config(**about["config"]))
    result = practice.load_practice(tmp_path)
    assert result.values["losses"].shape == (2, 2, 12)
    assert result.of("validation", "none").shape == (2, 3)
    gap = result.of("validation_loss", "setting-II") - result.of("validation_loss", "none")
    assert result.difference("validation_loss", "setting-II").mean == pytest.approx(
        gap.mean(), abs=1e-6
    )
    assert result.about["text_sha256"] == text.sha256 and "jax" in result.about["versions"]
    config, weights, about = practice.load_weights("setting-II", tmp_path)
    windows = practice.validation_windows(config, text)
    rounded = np.mean([practice.loss(config, weights, w) for w in windows[:300]])
    assert abs(rounded - about["validation_loss"]) < 0.2


def test_the_command_trains_on_a_file_of_the_reader(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("hmoe_lib.practice.__main__.Config", lambda *a: quick(*a))
    (tmp_path / "mine.txt").write_text("so many words " * 8000)
    common = ["--folder", str(tmp_path / "runs"), "--text", str(tmp_path / "mine.txt")]
    assert main(["train", "G5", "--seeds", "3", "--steps", "5", *common]) == 0
    printed = capsys.readouterr()
    assert "finished runs are in" in printed.out and "G5, seed 3" in printed.err
    (found,) = (tmp_path / "runs").glob("*.json")
    about = json.loads(found.read_text())
    assert about["text"] == "mine.txt" and about["config"]["steps"] == 5
    (tmp_path / "mine.txt").write_bytes(b"")
    assert main(["train", "G5", *common]) == 2
    assert "mine.txt is empty" in capsys.readouterr().err


def test_one_thread_is_asked_for():
    assert os.environ.get("XLA_FLAGS")
