"""Sigmoid and active attention: loops, the rewrite into flat mixtures, what competition means."""

import numpy as np
import pytest

from hmoe_lib import attention
from hmoe_lib import reference_attention as loops
from hmoe_lib.activations import activation
from hmoe_lib.models import FlatModel, ValueGated

H, N, D, D_K, D_V, D_OUT = 2, 4, 3, 2, 5, 3


def layer(seed, heads=H):
    rng = np.random.default_rng(seed)
    W_Q, W_K = rng.standard_normal((2, heads, D, D_K))
    W_V, W_O = rng.standard_normal((heads, D, D_V)), rng.standard_normal((heads, D_V, D_OUT))
    return rng.standard_normal((N, D)), (W_Q, W_K, W_V, W_O)


@pytest.mark.parametrize("mask", [None, attention.causal_mask(N)])
def test_sigmoid_attention_is_the_loops(mask):
    X, W = layer(1)
    Y = attention.sigmoid_attention(X, *W, bias=-0.7, mask=mask)
    slow = [[loops.sigmoid_attention_entry(X, *W, i, c, -0.7, mask=mask) for c in range(D_OUT)]
            for i in range(N)]  # fmt: skip
    assert np.allclose(Y, slow, rtol=1e-12, atol=1e-12)


def test_active_attention_is_the_loops_and_setting_one():
    X, W = layer(2)
    phi = activation("gelu", bias=0.3)
    Y = attention.active_attention(X, *W, activation=phi)
    for i, c in ((0, 1), (3, 2)):
        slow = loops.gated_attention_entry(X, *W, i, c, "G2", lambda z: float(phi(z)))
        G = attention.as_hmoe(*W, row=i, column=c, tokens=N)
        rewritten = ValueGated(phi).predict(G, attention.stacked(X)[None])[0]
        assert np.allclose([slow, rewritten], Y[i, c], rtol=1e-11)


def test_sigmoid_attention_is_a_flat_mixture():
    X, W = layer(3)
    Y = attention.sigmoid_attention(X, *W, bias=0.4)
    model = FlatModel("sigmoid_monomial", "linear")
    for i, c in ((0, 0), (2, 1)):
        G = attention.as_mixture(*W, row=i, column=c, tokens=N, bias=0.4)
        assert G.atoms == H * N
        assert np.isclose(model.predict(G, attention.stacked(X)[None])[0], Y[i, c], rtol=1e-11)


def test_one_softmax_head_is_the_monomial_gate_and_two_heads_are_not():
    model = FlatModel("monomial", "linear")
    for heads in (1, 2):
        X, W = layer(4, heads)
        Y = attention.multi_head_attention(X, *W)
        G = attention.as_mixture(*W, row=1, column=2, tokens=N)
        gap = abs(model.predict(G, attention.stacked(X)[None])[0] - Y[1, 2])
        assert gap < 1e-11 if heads == 1 else gap > 1e-3


def test_only_softmax_weights_depend_on_other_tokens():
    """What token 0 takes from token 1 changes with token 3 under a softmax only."""
    X, W = layer(5, heads=1)
    W_Q, W_K, _, _ = W
    first, out = np.eye(D)[None, :, :1], np.ones((1, 1, 1))
    others = X.copy()
    others[3] += 1.0
    change = {
        f.__name__: f(others, W_Q, W_K, first, out)[0, 0] - f(X, W_Q, W_K, first, out)[0, 0]
        for f in (attention.multi_head_attention, attention.sigmoid_attention)
    }
    own = [1 / (1 + np.exp(-(t[0] @ W_Q[0] @ W_K[0].T @ t[3]) / np.sqrt(D_K))) * t[3, 0]
           for t in (X, others)]  # fmt: skip
    assert np.isclose(change["sigmoid_attention"], own[1] - own[0], rtol=1e-9)
    assert not np.isclose(change["multi_head_attention"], own[1] - own[0], rtol=1e-2)


BAD = [
    (lambda X, W: attention.sigmoid_attention(X, *W, bias="a"), "bias: expected a finite number"),
    (lambda X, W: attention.sigmoid_attention(X[:, :2], *W), "X: expected"),
    (lambda X, W: attention.active_attention(X, *W, activation="gelo"), "did you mean 'gelu'"),
    (lambda X, W: attention.as_mixture(*W, row=9, column=0, tokens=N), "row"),
    (lambda X, W: attention.sigmoid_attention(1e300 * X, *W), "scores: expected"),
]


@pytest.mark.parametrize("call, message", BAD)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(*layer(6))
