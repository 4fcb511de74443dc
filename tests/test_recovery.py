"""Recovery by experts and by combinations: loops, numbers by hand, relabellings, splits."""

import numpy as np
import pytest
from checks import SEEDS, check_close, random_measure, relabelling, sizes
from hypothesis import given, settings
from hypothesis import strategies as st

import hmoe_lib as hl
from hmoe_lib import reference
from hmoe_lib.recovery import combinations, combinations_error, expert_errors


def pair(size, seed, extra):
    rng = np.random.default_rng(seed)
    H, N, K, d = (size[letter] for letter in "HNKd")
    truth = random_measure(rng, H, N, K, d)
    return random_measure(rng, H, N, K + extra, d), truth, rng


def exchanged(G):
    """The second experts of the first two channels of head 1 exchanged."""
    a = G.a.copy()
    a[0, 1, [0, 1]] = a[0, 1, [1, 0]]
    return hl.HierarchicalMeasure(G.omega, G.M, a)


@given(sizes(H=3, N=3, K=3), SEEDS, st.integers(0, 2))
@settings(max_examples=25, deadline=None)
def test_the_loss_by_experts_equals_plain_loops(size, seed, extra):
    fit, truth, _ = pair(size, seed, extra)
    check_close(expert_errors(fit, truth).loss, reference.expert_loss(fit, truth), 1e-11)


@given(sizes(H=3, N=3, K=3), SEEDS, st.integers(0, 2))
@settings(max_examples=25, deadline=None)
def test_labels_do_not_matter(size, seed, extra):
    fit, truth, rng = pair(size, seed, extra)
    other = fit.permuted(**relabelling(rng, fit))
    check_close(expert_errors(other, truth).loss, expert_errors(fit, truth).loss, 1e-11)
    check_close(combinations_error(other, truth), combinations_error(fit, truth), 1e-10)
    assert expert_errors(truth.permuted(**relabelling(rng, truth)), truth).loss < 1e-11


def test_errors_by_hand():
    """One head, one expert, d = 1: cells {1.1, 0.8} of a* = 1 and {3.5} of a* = 3.

    Weights |0.6 + 0.5 - 1| + |1.5 - 2| = 0.6; single 1.5 * 0.5 = 0.75; shared 0.06 + 0.1 = 0.16,
    squared 0.6 * 0.01 + 0.5 * 0.04 = 0.026.
    """
    M = np.zeros((1, 1, 1, 1))
    truth = hl.HierarchicalMeasure([[1.0, 2.0]], M, [[[[1.0], [3.0]]]])
    fit = hl.HierarchicalMeasure([[0.6, 0.5, 1.5]], M, [[[[1.1], [0.8], [3.5]]]])
    assert expert_errors(fit, truth) == pytest.approx((0.0, 0.6, 0.75, 0.16, 0.026, 1), abs=1e-14)
    assert expert_errors(fit, truth).loss == pytest.approx(1.376, abs=1e-14)
    # The gate counts once: |2 - 1.5| with the experts matched in their order.
    gate = np.array([[[[2.0]], [[0.0]]]]), np.array([[[[1.5]], [[0.0]]]])
    truth, fit = (hl.HierarchicalMeasure([[1.0]], M, [[[[1.0]], [[3.0]]]]) for M in gate)
    assert expert_errors(fit, truth) == pytest.approx((0.5, 0.0, 0.0, 0.0, 0.0, 0), abs=1e-14)


def test_exchanged_experts_are_forgiven_by_experts_and_not_by_channels():
    model = hl.ValueGated("sigmoid", bias=1.0)
    truth = hl.experiments.TRUTH_VALUE
    points = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    crossed = exchanged(truth)
    check_close(model.predict(crossed, points), model.predict(truth, points), 1e-12)
    assert expert_errors(crossed, truth).loss == 0.0
    assert hl.voronoi_loss(model, crossed, truth, points) > 1.0


@given(sizes(H=3, N=3, K=2), SEEDS)
@settings(max_examples=15, deadline=None)
def test_combinations_are_all_that_attention_shows(size, seed):
    fit, truth, rng = pair(size, seed, 1)
    X = rng.uniform(-1, 1, (7, size["d"]))
    M, difference, total = combinations(fit)
    scores = np.einsum("np,hipq,nq->nhi", X, M, X)
    full = np.concatenate([scores, np.zeros((*scores.shape[:2], 1))], axis=2)
    s = np.exp(full) / np.exp(full).sum(axis=2, keepdims=True)
    value = X @ total + np.einsum("nhi,hip,np->n", s[..., :-1], difference, X)
    check_close(hl.Mha().predict(fit, X), value, 1e-10)
    # A split with the same weighted mean changes no combination; another mean changes one.
    v = rng.standard_normal(truth.a[:, :, :1].shape)
    v += np.copysign(1.0, v)  # a split by next to nothing would be next to none
    half = np.concatenate([truth.omega[:, :1] / 2, truth.omega[:, :1] / 2, truth.omega[:, 1:]], 1)
    for moved, differs in ((-v, False), (-0.5 * v, True)):
        a = np.concatenate([truth.a[:, :, :1] + v, truth.a[:, :, :1] + moved, truth.a[:, :, 1:]], 2)
        split = hl.HierarchicalMeasure(half, truth.M, a)
        assert (combinations_error(split, truth) > 1e-9) == differs
        assert expert_errors(split, truth).loss > 1e-3


def test_wrong_measures_are_refused():
    truth = hl.experiments.TRUTH_VALUE
    other = hl.HierarchicalMeasure([[1.0]], np.zeros((1, 1, 1, 1)), [[[[1.0]]]])
    for function in (expert_errors, combinations_error):
        with pytest.raises(ValueError, match="G: expected heads = 2 as in G_star, got 1"):
            function(other, truth)
        with pytest.raises(ValueError, match="G_star: expected a HierarchicalMeasure, got tuple"):
            function(truth, ())
