"""The small transformer in numpy: against plain loops, against causality, against bad input."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hmoe_lib import practice, reference_attention
from hmoe_lib.activations import activation
from hmoe_lib.practice import VARIANTS, Config, extra, forward, measure, start
from hmoe_lib.practice import text as texts
from hmoe_lib.practice.numpy_model import attention_part, layer_weights, weights_and_gate
from hmoe_lib.practice.training import batch, validation_windows

SMALL = {"layers": 2, "features": 12, "heads": 3, "context": 7}
SIGMOID, SILU = activation("sigmoid"), activation("silu")


def small(variant="none", **options) -> Config:
    return Config(variant, **{**SMALL, **options})


def shaken(config, rng):
    """Weights away from the start, where gates are nearly 1/2 and scales are 1."""
    return {n: w + 0.5 * rng.standard_normal(w.shape) for n, w in start(config).items()}


def by_loops(config, W, X, i, c):
    """Entry (i, c) of a layer by hmoe_lib.reference_attention, chosen by the variant's name."""
    four = W["W_Q"], W["W_K"], W["W_V"], W["W_O"]
    mask = np.tril(np.ones((len(X), len(X)), dtype=bool))
    name = config.variant
    if name == "none":
        return reference_attention.attention_entry(X, *four, i, c, mask=mask)
    if name == "sigmoid":
        bias = -np.log(config.context)
        return reference_attention.sigmoid_attention_entry(X, *four, i, c, bias, mask=mask)
    place = {"setting-I": "G2", "setting-II": "G1"}.get(name, name[:2])
    phi, theta = (SILU, None) if "setting" in name else (SIGMOID, W["W_theta"])
    entry = reference_attention.gated_attention_entry
    return entry(X, *four, i, c, place, lambda z: float(phi(np.array(z))), theta, mask=mask)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_layer_is_what_loops_make_of_it(variant):
    config, rng = small(variant), np.random.default_rng(1)
    W, X = layer_weights(shaken(config, rng), 1), rng.standard_normal((5, 12))
    fast = attention_part(config, W, X)
    for i, c in [(0, 0), (2, 5), (4, 11)]:
        assert abs(fast[i, c] - by_loops(config, W, X, i, c)) < 1e-12
    others = [v for v in VARIANTS if small(v).gate_shape == config.gate_shape and v != variant]
    for other in others:  # control: no two variants are the same function
        assert np.abs(attention_part(small(other), W, X) - fast).max() > 1e-3


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_weights_of_attention_that_are_measured_are_those_of_the_layer(variant):
    config, rng = small(variant), np.random.default_rng(2)
    W, X = layer_weights(shaken(config, rng), 0), rng.standard_normal((6, 12))
    S, factor = weights_and_gate(config, W, X)
    place, V = VARIANTS[variant].place, X @ W["W_V"]
    V = SILU(V) if variant == "setting-I" else V * factor if place == "G2" else V
    Y = S @ V
    Y = SILU(Y) if variant == "setting-II" else Y * factor if place == "G1" else Y
    Y = (Y @ W["W_O"]).sum(axis=0)
    Y = Y * factor if place == "G5" else Y
    assert np.abs(Y - attention_part(config, W, X)).max() < 1e-12
    assert (factor is None) == ("W_theta" not in W)


def check_causal(run):
    tokens = np.array([3, 1, 4, 1, 5, 9, 2])
    late = tokens.copy()
    late[4] = 200
    change = np.abs(run(tokens) - run(late)).max(axis=1)
    if change[:4].max() > 1e-12:
        raise AssertionError("a token changes what is predicted before it")
    if change[4:].min() < 1e-6:
        raise AssertionError("a token changes nothing after it")


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_byte_is_seen_before_its_time(variant, monkeypatch):
    config = small(variant)
    weights = shaken(config, np.random.default_rng(3))
    check_causal(lambda tokens: forward(config, weights, tokens)[0])
    module = sys.modules["hmoe_lib.practice.numpy_model"]
    monkeypatch.setattr(module, "causal_mask", lambda N: np.ones((N, N), dtype=bool))
    with pytest.raises(AssertionError, match="before it"):
        check_causal(lambda tokens: forward(config, weights, tokens)[0])


def test_the_loss_is_the_mean_of_minus_log_probabilities():
    config = small()
    weights = shaken(config, np.random.default_rng(4))
    window = np.array([10, 20, 30, 40])
    logits, _ = forward(config, weights, window[:-1])
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    by_hand = -np.mean([np.log(p[i, window[i + 1]]) for i in range(3)])
    assert abs(practice.loss(config, weights, window) - by_hand) < 1e-12


# ---- configs and starts --------------------------------------------------------------------------


@given(
    heads=st.integers(1, 5), width=st.integers(1, 5), layers=st.integers(1, 3),
    variant=st.sampled_from(list(VARIANTS)),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_every_variant_has_as_many_parameters_as_the_others(heads, width, layers, variant):
    sizes = {"heads": heads, "features": 2 * width * heads, "layers": layers, "context": 5}
    config = Config(variant, **sizes)
    total = sum(w.size for w in start(config).values())
    assert total == config.parameters
    difference = abs(config.parameters - Config(**sizes).parameters)
    assert difference == (layers * 2 * width * heads if odd_headwise(config) else 0)


def odd_headwise(config):
    """H/2 neurons are no whole number of them: one neuron is half paid for."""
    return VARIANTS[config.variant].form == "headwise" and config.heads % 2 == 1


def test_the_book_s_variants_all_have_the_same_number():
    assert {Config(v).parameters for v in VARIANTS} == {590_880}


def test_variants_of_one_seed_start_alike_and_read_alike():
    text = practice.python_reference()
    plain, gated, other = small(seed=4), small("G2", seed=4), small(seed=5)
    for name in ("tokens", "W_Q", "W_V", "W_O"):
        assert np.array_equal(start(plain)[name], start(gated)[name])
        assert not np.array_equal(start(plain)[name], start(other)[name])
    m = gated.hidden
    assert np.array_equal(start(plain)["W_in"][..., :m], start(gated)["W_in"])
    assert np.array_equal(batch(plain, text, 9)[1], batch(gated, text, 9)[1])
    assert not np.array_equal(batch(plain, text, 9)[1], batch(other, text, 9)[1])
    assert not np.array_equal(batch(plain, text, 9)[1], batch(plain, text, 10)[1])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("variant", "G6", r"variant: 'G6' is not known; known: none, G1"),
        ("steps", 0, "steps: expected an integer >= 1, got 0"),
        ("layers", 2.0, "layers: expected an integer, got 2.0"),
        ("seed", -1, "seed: expected an integer >= 0, got -1"),
        ("rate", float("nan"), "rate: expected a finite number >= 0, got nan"),
        ("features", 90, r"features: expected a multiple of 2 \* heads = 8, got 90"),
        ("context", True, "context: expected an integer, got True"),
    ],
)
def test_a_bad_config_names_its_field(field, value, message):
    with pytest.raises(ValueError, match=message):
        Config(**{field: value})


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([1, 300], "expected bytes, 0 to 255, got 1 to 300"),
        ([0.5], "expected 1 to 7 integers, got float64"),
        ([], "expected 1 to 7 integers"),
        (list(range(8)), r"got int64 of shape \(8,\)"),
    ],
)
def test_tokens_are_bytes_and_fit_the_context(tokens, message):
    with pytest.raises(ValueError, match=message):
        forward(small(), start(small()), tokens)


# ---- texts ---------------------------------------------------------------------------------------


def long_paragraphs(text):
    parts = [part.tobytes().decode(errors="replace") for part in (text.train, text.validation)]
    words = [[" ".join(p.split()) for p in part.split("\n\n")] for part in parts]
    return [{p for p in part if len(p) > 60} for part in words]


def test_the_reference_is_split_and_no_long_paragraph_is_in_both_parts():
    text = practice.python_reference()
    paragraphs = long_paragraphs(text)
    assert len(paragraphs[1]) > 50
    assert paragraphs[0] & paragraphs[1] == set()
    assert len(text.sha256) == 64 and "Python 3." in text.name


def test_without_care_paragraphs_would_be_in_both_parts():
    """Negative control: topics quote each other."""
    from pydoc_data.topics import topics

    text = texts.text_of("all", "\n\n".join(topics[name] for name in sorted(topics)).encode())
    paragraphs = long_paragraphs(text)
    assert paragraphs[0] & paragraphs[1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "mine.txt is empty; expected at least 81920 bytes of UTF-8 text"),
        (b"short", "mine.txt is too short, 5 bytes; expected at least 81920"),
        (b"a\0" * 50_000, r"mine.txt is binary \(a zero byte at position 1\)"),
        ("é".encode("latin-1") * 90_000, r"not UTF-8 \(byte 0xe9 at position 0\)"),
    ],
)
def test_a_text_that_cannot_be_used_says_why(tmp_path, content, message):
    (tmp_path / "mine.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        practice.read_text(tmp_path / "mine.txt")


def test_a_text_of_one_s_own_in_any_alphabet(tmp_path):
    (tmp_path / "mine.txt").write_text("Пример текста. " * 4000, encoding="utf-8")
    text = practice.read_text(tmp_path / "mine.txt")
    assert text.name == "mine.txt" and len(text.validation) >= 2 * texts.BLOCK
    windows = validation_windows(small(), text)
    assert windows.shape == ((len(text.validation) - 1) // 7, 8)
    assert np.array_equal(windows[1:, 0], windows[:-1, -1])  # disjoint, but for the last byte
    with pytest.raises(FileNotFoundError):
        practice.read_text(tmp_path / "none.txt")


# ---- measures ------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_measures_have_their_ranges(seed):
    rng = np.random.default_rng(seed)
    N = int(rng.integers(2, 9))
    S = np.tril(rng.uniform(size=(2, N, N)) ** 4) + 1e-9 * np.eye(N)
    assert 0 <= practice.first_share(S) <= 1
    assert 0 <= practice.entropy(S) <= np.log(N) + 1e-12
    assert abs(practice.first_share(3 * S) - practice.first_share(S)) < 1e-12
    Y = rng.standard_normal((N + 3, N))
    rank = practice.effective_rank(Y)
    assert 1 <= rank <= N + 1e-9
    Q = np.linalg.qr(rng.standard_normal((N, N)))[0]
    assert abs(practice.effective_rank(-2 * Y @ Q) - rank) < 1e-9


def test_a_sink_is_found():
    sink = np.zeros((1, 6, 6))
    sink[..., 0] = 1
    assert practice.first_share(sink) == 1 and practice.entropy(sink) == 0
    even = np.tril(np.ones((1, 6, 6)))
    assert abs(practice.first_share(even) - practice.uniform_share(6)) < 1e-12
    assert abs(practice.entropy(even) - np.mean(np.log([4, 5, 6]))) < 1e-12


def test_a_model_is_measured_layer_by_layer():
    config = small("G1")
    weights = shaken(config, np.random.default_rng(5))
    weights["W_theta"][1] = 0  # every factor of the second layer is 1/2
    windows = np.random.default_rng(6).integers(0, 256, (3, 8))
    found = measure(config, weights, windows)
    assert set(found) == set(practice.FIELDS)
    assert all(value.shape == (2,) for value in found.values())
    assert found["gate_mean"][1] == 0.5 and found["gate_closed"][1] == 0
    assert found["gate_mean"][0] != 0.5
    streams = [forward(config, weights, w[:-1])[1][1].stream for w in windows]
    assert found["largest_stream"][1] == np.abs(streams).max()
    plain = measure(small(), shaken(small(), np.random.default_rng(5)), windows)
    assert np.isnan(plain["gate_mean"]).all() and np.isfinite(plain["entropy"]).all()


# ---- without the extra ---------------------------------------------------------------------------


def test_reading_needs_no_jax():
    code = "import sys, hmoe_lib.practice; print(sorted({'jax', 'optax'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_training_without_the_extra_says_how_to_get_it(monkeypatch, capsys, tmp_path):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(extra.importlib, "import_module", missing)
    assert not practice.available()
    with pytest.raises(ModuleNotFoundError, match=r"pip install -r requirements-practice\.txt"):
        practice.train(small(), practice.python_reference())
    from hmoe_lib.practice.__main__ import main

    assert main(["train", "none", "--folder", str(tmp_path)]) == 2
    assert "pip install -r requirements-practice.txt" in capsys.readouterr().err
