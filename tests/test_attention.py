"""Attention, its gates, and the rewrite: three independent roads, and controls that must fail."""

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hmoe_lib as hl
from hmoe_lib import attention as at
from hmoe_lib import reference_attention as loops

PHI = hl.activation("sigmoid", bias=1.0)
SIZES = st.fixed_dictionaries(
    {name: st.integers(1, 4) for name in ("H", "d", "dk", "dv", "out")}
    | {"N": st.integers(1, 5), "seed": st.integers(0, 2**32 - 1)}
)
FIXED = {"H": 2, "d": 3, "dk": 2, "dv": 4, "out": 3, "N": 4, "seed": 7}


def problem(H, d, dk, dv, out, N, seed):
    """Random tokens and projections whose scores are of order 1."""
    rng = np.random.default_rng(seed)
    shapes = {"W_Q": (H, d, dk), "W_K": (H, d, dk), "W_V": (H, d, dv), "W_O": (H, dv, out)}
    W = {name: rng.standard_normal(shape) / np.sqrt(d) for name, shape in shapes.items()}
    return rng.standard_normal((N, d)), W, rng


def random_mask(N, rng):
    """A mask with an allowed token in every row, not necessarily the token itself."""
    mask = rng.random((N, N)) < 0.5
    mask[np.arange(N), rng.integers(0, N, N)] = True
    return mask


def gap(one, other):
    """Largest difference, relative to the size of the numbers and at least absolute."""
    return np.max(np.abs(np.asarray(one) - other)) / max(1.0, np.max(np.abs(other)))


def by_loops(entry, X, W, out, *args, **kwargs):
    """The whole matrix from a function of one entry."""
    return np.array(
        [[entry(X, *W.values(), i, c, *args, **kwargs) for c in range(out)] for i in range(len(X))]
    )


# ---- attention against plain loops -----------------------------------------------------------


@given(SIZES, st.booleans())
@settings(max_examples=40, deadline=None)
def test_multi_head_attention_equals_plain_loops(size, masked):
    X, W, rng = problem(**size)
    mask = random_mask(len(X), rng) if masked else None
    expected = by_loops(loops.attention_entry, X, W, size["out"], mask=mask)
    assert gap(at.multi_head_attention(X, **W, mask=mask), expected) < 1e-12


@pytest.mark.parametrize("position", at.POSITIONS)
@pytest.mark.parametrize("form", ["activation", "elementwise", "headwise"])
@given(SIZES, st.booleans())
@settings(max_examples=15, deadline=None)
def test_gated_attention_equals_plain_loops(position, form, size, masked):
    X, W, rng = problem(**size)
    mask = random_mask(len(X), rng) if masked else None
    W_theta = None if form == "activation" else gate_weights(position, form, size, rng)
    got = at.gated_attention(X, **W, position=position, activation=PHI, mask=mask,
                             multiplicative=W_theta)  # fmt: skip
    expected = by_loops(loops.gated_attention_entry, X, W, size["out"], position,
                        lambda z: float(PHI(z)), W_theta, mask=mask)  # fmt: skip
    assert gap(got, expected) < 1e-12


def gate_weights(position, form, size, rng):
    width = {"G1": "dv", "G2": "dv", "G3": "dk", "G4": "dk", "G5": "out"}[position]
    columns = size[width] if form == "elementwise" else 1
    shape = (size["d"], columns) if position == "G5" else (size["H"], size["d"], columns)
    return rng.standard_normal(shape)


def test_each_position_gives_another_matrix():
    """Negative control: a gate at the wrong place must not pass for the right one."""
    X, W, _ = problem(**FIXED)
    results = [at.gated_attention(X, **W, position=g, activation=PHI) for g in at.POSITIONS]
    results.append(at.multi_head_attention(X, **W))
    for i, one in enumerate(results):
        for other in results[:i]:
            assert gap(one, other) > 1e-3


@pytest.mark.parametrize("position", at.POSITIONS)
def test_identity_gate_is_no_gate(position):
    X, W, _ = problem(**FIXED)
    got = at.gated_attention(X, **W, position=position, activation="identity")
    assert gap(got, at.multi_head_attention(X, **W)) < 1e-14


@pytest.mark.parametrize("position", at.POSITIONS)
def test_headwise_gate_is_the_elementwise_gate_with_equal_columns(position):
    X, W, rng = problem(**FIXED)
    column = gate_weights(position, "headwise", FIXED, rng)
    wide = gate_weights(position, "elementwise", FIXED, rng)
    same = np.broadcast_to(column, wide.shape)
    one = at.gated_attention(X, **W, position=position, multiplicative=column)
    assert gap(at.gated_attention(X, **W, position=position, multiplicative=same), one) < 1e-14
    other = at.gated_attention(X, **W, position=position, multiplicative=wide)
    assert gap(other, one) > 1e-3


def test_a_bias_given_to_an_activation_is_kept():
    X, W, _ = problem(**FIXED)
    expected = at.gated_attention(X, **W, activation="sigmoid", bias=1.0)
    assert np.array_equal(at.gated_attention(X, **W, activation=PHI), expected)
    assert gap(at.gated_attention(X, **W, activation="sigmoid"), expected) > 1e-3


@given(SIZES)
@settings(max_examples=25, deadline=None)
def test_reordering_tokens_reorders_rows(size):
    X, W, rng = problem(**size)
    order = rng.permutation(len(X))
    for attend in (at.multi_head_attention, at.gated_attention):
        assert gap(attend(X[order], **W), attend(X, **W)[order]) < 1e-12


# ---- scale and masks -------------------------------------------------------------------------


def test_default_scale_divides_by_root_of_key_width():
    X, W, _ = problem(**FIXED)
    expected = at.multi_head_attention(X, **W)
    assert np.array_equal(at.multi_head_attention(X, **W, scale=1 / np.sqrt(2)), expected)
    assert gap(at.multi_head_attention(X, **W, scale=1 / np.sqrt(4)), expected) > 1e-4


def test_causal_rows_do_not_see_later_tokens():
    X, W, _ = problem(**FIXED)
    mask = at.causal_mask(4)
    changed = X.copy()
    changed[2:] += 1.0
    before, after = (at.multi_head_attention(Z, **W, mask=mask) for Z in (X, changed))
    assert np.array_equal(before[:2], after[:2])
    assert gap(before[2:], after[2:]) > 1e-3
    without = at.multi_head_attention(changed, **W)
    assert gap(without[:2], at.multi_head_attention(X, **W)[:2]) > 1e-3


def test_attention_weights_are_softmax_rows_with_exact_zeros():
    X, W, rng = problem(**FIXED)
    mask = random_mask(4, rng)
    S = at.attention_weights(X, W["W_Q"], W["W_K"], mask=mask)
    assert S.shape == (2, 4, 4)
    np.testing.assert_allclose(S.sum(axis=-1), 1.0, rtol=1e-15)
    assert np.all(S[:, ~mask] == 0) and np.all(S[:, mask] > 0)
    V = X @ W["W_V"]
    assert gap((S @ V @ W["W_O"]).sum(0), at.multi_head_attention(X, **W, mask=mask)) < 1e-14


def test_large_scores_do_not_overflow():
    X, W, _ = problem(**FIXED)
    W["W_Q"] = W["W_Q"] * 1e6
    rows = at.attention_weights(X, W["W_Q"], W["W_K"]).sum(axis=-1)
    np.testing.assert_allclose(rows, 1.0, rtol=1e-15)


# ---- the rewrite -----------------------------------------------------------------------------


def roads(X, W, i, c, mask=None, scale=None):
    """Entry (i, c) from attention and from the measure: plain, gate at G2, gate at G1."""
    G = at.as_hmoe(**W, row=i, column=c, tokens=len(X), mask=mask, scale=scale)
    x = at.stacked(X)[None]
    gates = {"G2": hl.ValueGated(PHI), "G1": hl.OutputGated(PHI)}
    yield at.multi_head_attention(X, **W, mask=mask, scale=scale)[i, c], hl.Mha().predict(G, x)[0]
    for position, model in gates.items():
        Y = at.gated_attention(X, **W, position=position, activation=PHI, mask=mask, scale=scale)
        yield Y[i, c], model.predict(G, x)[0]


@given(SIZES, st.booleans(), st.sampled_from([None, 0.0, 0.7]))
@settings(max_examples=80, deadline=None)
def test_every_entry_is_a_mixture(size, masked, scale):
    X, W, rng = problem(**size)
    mask = random_mask(len(X), rng) if masked else None
    i, c = int(rng.integers(len(X))), int(rng.integers(size["out"]))
    for entry, mixture in roads(X, W, i, c, mask, scale):
        assert gap(mixture, entry) < 1e-12


def test_every_entry_is_a_mixture_on_real_shapes():
    X, W, _ = problem(H=4, d=16, dk=4, dv=4, out=16, N=8, seed=11)
    for i, c in [(0, 0), (3, 15), (7, 8)]:
        for mask in (None, at.causal_mask(8)):
            for entry, mixture in roads(X, W, i, c, mask):
                assert gap(mixture, entry) < 1e-12


def test_mixture_equals_plain_loops_over_heads_channels_tokens():
    X, W, _ = problem(**FIXED)
    G = at.as_hmoe(**W, row=2, column=1, tokens=4)

    def phi(z):
        return float(PHI(z))

    x = at.stacked(X)
    plain = loops.attention_entry(X, *W.values(), 2, 1)
    assert gap(loops.hmoe_entry(G, x), plain) < 1e-12
    value = loops.gated_attention_entry(X, *W.values(), 2, 1, "G2", phi)
    assert gap(loops.hmoe_entry(G, x, phi_expert=phi), value) < 1e-12
    output = loops.gated_attention_entry(X, *W.values(), 2, 1, "G1", phi)
    assert gap(loops.hmoe_entry(G, x, phi_channel=phi), output) < 1e-12
    assert gap(loops.hmoe_entry(G, x, phi_channel=phi), value) > 1e-3  # the gate misplaced


@pytest.mark.parametrize("position", ["G1", "G3", "G4", "G5"])
def test_value_gated_mixture_is_not_attention_gated_elsewhere(position):
    """Negative control: only G2 equals ValueGated."""
    X, W, _ = problem(**FIXED)
    G = at.as_hmoe(**W, row=2, column=1, tokens=4)
    mixture = hl.ValueGated(PHI).predict(G, at.stacked(X)[None])[0]
    entry = at.gated_attention(X, **W, position=position, activation=PHI)[2, 1]
    assert gap(mixture, entry) > 1e-3


def test_the_transposed_score_matrix_is_another_mixture():
    """Negative control: W_K W_Q^T lets token j ask and row i answer."""
    X, W, _ = problem(**FIXED)
    wrong = at.as_hmoe(W["W_K"], W["W_Q"], W["W_V"], W["W_O"], row=2, column=1, tokens=4)
    entry = at.multi_head_attention(X, **W)[2, 1]
    assert gap(hl.Mha().predict(wrong, at.stacked(X)[None])[0], entry) > 1e-3


def test_measure_follows_the_formulas_of_the_docstring():
    _, W, _ = problem(**FIXED)
    i, c = 1, 2
    G = at.as_hmoe(**W, row=i, column=c, tokens=4)
    J = [at.selector(j, 4, 3) for j in range(4)]
    P = W["W_Q"] @ W["W_K"].swapaxes(1, 2) / np.sqrt(2)
    M = np.array([[J[i].T @ P[h] @ J[j] for j in range(4)] for h in range(2)])
    M = M - M[:, -1:]
    np.testing.assert_allclose(G.M, (M + M.swapaxes(-1, -2)) / 2, rtol=0, atol=1e-15)
    for h, j, k in np.ndindex(2, 4, 4):
        assert np.array_equal(G.a[h, j, k], J[j].T @ W["W_V"][h][:, k])
    assert np.array_equal(G.omega, W["W_O"][:, :, c])
    assert G.signed and G.shape == (2, 4, 4, 12)


def test_only_allowed_tokens_become_experts():
    X, W, _ = problem(**FIXED)
    G = at.as_hmoe(**W, row=1, column=0, tokens=4, mask=at.causal_mask(4))
    assert G.shape == (2, 2, 4, 12)
    assert not np.any(G.a[..., 6:])
    unmasked = at.as_hmoe(**W, row=1, column=0, tokens=4)
    masked_entry = at.multi_head_attention(X, **W, mask=at.causal_mask(4))[1, 0]
    assert gap(hl.Mha().predict(unmasked, at.stacked(X)[None])[0], masked_entry) > 1e-3


def test_stacked_copies_and_selectors_pick_tokens():
    X, _, _ = problem(**FIXED)
    x = at.stacked(X)
    for i in range(4):
        assert np.array_equal(at.selector(i, 4, 3) @ x, X[i])
    x[0] = 99.0
    assert X[0, 0] != 99.0


# ---- trades: numbers moved between W_V and W_O (the chapter on the five places) ---------------


def trade(name, W, rng):
    """Rescale channel 0 of every head, or split it into a + v and a - v with half the weight."""
    columns = [0, 1, 2, 3] if name == "rescale" else [0, 0, 1, 2, 3]
    V, out = W["W_V"][:, :, columns], W["W_O"][:, columns]
    if name == "rescale":
        V[:, :, 0], out[:, 0] = 3 * V[:, :, 0], out[:, 0] / 3
    else:
        v = rng.standard_normal(3)
        V[:, :, 0], V[:, :, 1], out[:, :2] = V[:, :, 0] + v, V[:, :, 1] - v, out[:, :2] / 2
    return {**W, "W_V": V, "W_O": out}, columns


@pytest.mark.parametrize("name", ["rescale", "split"])
@pytest.mark.parametrize("position", at.POSITIONS)
def test_an_activation_notices_a_trade_at_g1_and_g2_only(name, position):
    X, W, rng = problem(**FIXED)
    traded, _ = trade(name, W, rng)
    assert gap(at.multi_head_attention(X, **traded), at.multi_head_attention(X, **W)) < 1e-13
    options = {"position": position, "activation": PHI}
    change = gap(at.gated_attention(X, **traded, **options), at.gated_attention(X, **W, **options))
    assert change > 1e-3 if position in ("G1", "G2") else change < 1e-13


@pytest.mark.parametrize("name", ["rescale", "split"])
@pytest.mark.parametrize("form", ["elementwise", "headwise"])
@pytest.mark.parametrize("position", at.POSITIONS)
def test_a_multiplicative_gate_notices_no_trade(name, form, position):
    X, W, rng = problem(**FIXED)
    traded, columns = trade(name, W, rng)
    W_theta = gate_weights(position, form, FIXED, rng)
    wide = position in ("G1", "G2") and form == "elementwise"
    before = at.gated_attention(X, **W, position=position, multiplicative=W_theta)
    W_theta = W_theta[:, :, columns] if wide else W_theta
    after = at.gated_attention(X, **traded, position=position, multiplicative=W_theta)
    assert gap(after, before) < 1e-13


# ---- an independent implementation -----------------------------------------------------------


@pytest.mark.parametrize("masked", [False, True])
def test_agrees_with_pytorch(masked):
    torch = pytest.importorskip("torch")
    attend = torch.nn.functional.scaled_dot_product_attention
    X, W, rng = problem(H=3, d=6, dk=4, dv=5, out=6, N=7, seed=3)
    mask = random_mask(7, rng) if masked else None
    Q, K, V = (torch.from_numpy(X @ W[name]) for name in ("W_Q", "W_K", "W_V"))
    SDPA = attend(Q, K, V, attn_mask=None if mask is None else torch.from_numpy(mask)).numpy()
    plain = (SDPA @ W["W_O"]).sum(0)
    assert gap(at.multi_head_attention(X, **W, mask=mask), plain) < 1e-12
    gated = at.gated_attention(X, **W, position="G1", activation=PHI, mask=mask)
    assert gap(gated, (PHI(SDPA) @ W["W_O"]).sum(0)) < 1e-12


# ---- bad input -------------------------------------------------------------------------------


def with_entry(array, value):
    changed = array.copy()
    changed.flat[0] = value
    return changed


BAD = {
    "X": [
        (lambda X: X.T, r"X: expected shape \(N, d\) with d = 3 .*got \(3, 4\)"),
        (lambda X: X[0], r"X: expected shape \(N, d\), no axis empty, got \(3,\)"),
        (lambda X: X[:0], r"X: .*no axis empty, got \(0, 3\)"),
        (lambda X: with_entry(X, np.nan), "X: expected finite numbers"),
        (lambda X: with_entry(X, np.inf), "X: expected finite numbers"),
        (lambda X: X + 1j, "X: expected real numbers, got complex ones"),
        (lambda X: [["a"] * 3], "X: expected an array of real numbers of shape .*, got text"),
        (lambda X: X * 1e200, "scores: expected finite numbers, got overflow"),
    ],
    "W_Q": [(lambda W: W[0], r"W_Q: expected shape \(H, d, d_k\).*got \(3, 2\)")],
    "W_K": [
        (lambda W: W.swapaxes(1, 2), r"W_K: expected the shape of W_Q, \(2, 3, 2\), got \(2, 2, 3"),
        (lambda W: with_entry(W, -np.inf), "W_K: expected finite numbers"),
    ],
    "W_V": [
        (lambda W: W[:1], r"W_V: .*H = 2, d = 3 as in W_Q, got \(1, 3, 4\)"),
        (lambda W: W.swapaxes(1, 2), r"W_V: .*got \(2, 4, 3\)"),
    ],
    "W_O": [
        (lambda W: W.swapaxes(1, 2), r"W_O: .*d_v = 4 as in W_V, got \(2, 3, 4\)"),
        (lambda W: W.reshape(8, 3), r"W_O: expected shape \(H, d_v, d_out\).*got \(8, 3\)"),
    ],
}


@pytest.mark.parametrize(
    ("field", "change", "message"),
    [(field, change, message) for field, cases in BAD.items() for change, message in cases],
)
@pytest.mark.parametrize("attend", [at.multi_head_attention, at.gated_attention])
def test_bad_arrays_are_named(attend, field, change, message):
    X, W, _ = problem(**FIXED)
    given_ = {"X": X, **W}
    given_[field] = change(given_[field])
    with pytest.raises(ValueError, match=message):
        attend(**given_)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position": "G6"}, r"position: 'G6' is not known; did you mean 'G\d'"),
        ({"position": "values"}, "did you mean 'G2'"),
        ({"position": "querry"}, "did you mean 'G4'"),
        ({"position": "nowhere at all"}, "not known; known: G1 "),
        ({"position": 1}, "position: expected one of G1, G2, G3, G4, G5, got 1"),
        ({"activation": "sigmod"}, "activation: 'sigmod' is not known; did you mean 'sigmoid'"),
        ({"bias": np.nan}, "bias: expected a finite number"),
        ({"scale": np.inf}, "scale: expected one finite number, got inf"),
        ({"scale": [1.0, 2.0]}, "scale: expected one finite number"),
        ({"scale": "large"}, "scale: expected one finite number, got 'large'"),
        ({"mask": np.ones((4, 4))}, "mask: expected booleans"),
        ({"mask": np.ones((4, 3), bool)}, r"mask: expected shape \(N, N\) = \(4, 4\), got \(4, 3"),
        ({"mask": ~np.eye(4, 4, 1, bool) & (np.arange(4) != 2)[:, None]}, "row 2 has none"),
        ({"multiplicative": np.ones((2, 3, 2))}, r"\(2, 3, 4\) \(elementwise\) or \(2, 3, 1\)"),
        ({"multiplicative": np.ones((3, 4))}, r"multiplicative: expected shape \(H, d, d_v\)"),
        ({"multiplicative": np.ones((2, 3, 4)), "position": "G3"}, r"\(2, 3, 2\) \(elementwise"),
        ({"multiplicative": np.ones((3, 2)), "position": "G5"}, r"\(3, 3\) \(elementwise\)"),
        ({"multiplicative": np.full((2, 3, 4), np.nan)}, "multiplicative: expected finite"),
    ],
)
def test_bad_options_are_named(changes, message):
    X, W, _ = problem(**FIXED)
    with pytest.raises(ValueError, match=message):
        at.gated_attention(X, **W, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"row": 4}, "row: expected an integer from 0 to 3, got 4"),
        ({"row": -1}, "row: expected an integer from 0 to 3, got -1"),
        ({"column": 3}, "column: expected an integer from 0 to 2, got 3"),
        ({"column": 0.0}, "column: expected an integer"),
        ({"row": True}, "row: expected an integer"),
        ({"tokens": 0}, "tokens: expected an integer >= 1, got 0"),
        ({"mask": np.zeros((4, 4), bool)}, "mask: .*row 0 has none"),
        ({"scale": np.nan}, "scale: expected one finite number"),
    ],
)
def test_bad_entries_are_named(changes, message):
    _, W, _ = problem(**FIXED)
    with pytest.raises(ValueError, match=message):
        at.as_hmoe(**{**W, "row": 0, "column": 0, "tokens": 4, **changes})


def test_helpers_refuse_what_they_cannot_use():
    with pytest.raises(ValueError, match="i: expected an integer from 0 to 1, got 2"):
        at.selector(2, tokens=2, dim=1)
    with pytest.raises(ValueError, match="N: expected an integer >= 1"):
        at.causal_mask(0)
    with pytest.raises(ValueError, match="X: expected shape"):
        at.stacked([1.0, 2.0])
    with pytest.raises(ValueError, match="W_K: expected the shape of W_Q"):
        at.attention_weights([[1.0]], [[[1.0]]], [[[1.0, 2.0]]])


def test_an_activation_that_overflows_is_refused():
    X, W, _ = problem(**FIXED)
    with pytest.raises(ValueError, match="output: expected finite numbers, got overflow"):
        at.gated_attention(X * 1e4, **W, position="G2", activation="exp")


def test_the_library_does_not_import_its_loops():
    """The loops are an independent road only while the library does not use them."""
    for module in (at, at.heads, at.positions, at.rewrite, at.checks):
        assert "reference_attention" not in inspect.getsource(module)
