"""Losses of flat mixtures against loops, and what they must not see."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hmoe_lib import reference_flat as loops
from hmoe_lib.gates import gate
from hmoe_lib.mixing import MixingMeasure
from hmoe_lib.mixing_losses import atom_cells, matched_errors, mixing_errors

MASS = {"exp": math.exp, "sigmoid": loops.logistic}


def draw(seed, k, p=2, q=3):
    rng = np.random.default_rng(seed)
    return MixingMeasure(
        rng.standard_normal((k, p)), rng.standard_normal(k), rng.standard_normal((k, q))
    )


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**31), st.integers(1, 4), st.integers(0, 3), st.sampled_from(list(MASS)),
    st.booleans(),
)  # fmt: skip
def test_losses_are_the_loops(seed, k_star, extra, weight, some):
    G_star, G = draw(seed, k_star), draw(seed + 1, k_star + extra)
    top = 1 + seed % k_star if some else None
    errors = mixing_errors(G, G_star, weight, top)
    slow = loops.losses(G, G_star, MASS[weight], top)
    assert np.allclose([errors.loss_1, errors.loss_2], slow, rtol=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31))
def test_order_of_atoms_does_not_matter_and_parts_add_up(seed):
    G_star, G = draw(seed, 3), draw(seed + 1, 5)
    order = np.random.default_rng(seed).permutation(5)
    turned = MixingMeasure(G.router[order], G.bias[order], G.expert[order])
    one, two = mixing_errors(G, G_star), mixing_errors(turned, G_star)
    assert np.isclose(one.loss_2, two.loss_2) and np.isclose(one.shared, two.shared)
    assert np.isclose(one.loss_1, one.weights + one.single + one.shared)
    assert np.isclose(one.single + one.shared, one.router + one.expert)


@pytest.mark.parametrize("weight", MASS)
def test_a_split_truth_is_at_distance_zero(weight):
    G_star = draw(1, 3)
    G = G_star.split_atom(1, [0.3, 0.7], weight)
    errors = mixing_errors(G, G_star, weight)
    assert errors.loss_1 < 1e-14 and errors.loss_2 < 1e-14
    assert atom_cells(G, G_star).tolist() == [0, 1, 1, 2]
    moved = MixingMeasure(G.router + np.eye(4, 2) * 1e-3, G.bias, G.expert)
    assert mixing_errors(moved, G_star, weight).loss_1 > 1e-4


def test_shared_cells_count_squared():
    G_star = MixingMeasure([[0.0], [9.0]], [0.0, 0.0], [[0.0], [9.0]])
    G = MixingMeasure([[0.1], [-0.1], [9.1]], np.log([0.5, 0.5, 1.0]), [[0.0], [0.0], [9.0]])
    errors = mixing_errors(G, G_star)
    assert np.isclose(errors.shared, 0.1) and np.isclose(errors.single, 0.1)
    assert np.isclose(errors.loss_2, 0.01 + 0.1) and np.isclose(errors.loss_1, 0.2)


def test_matching_is_one_to_one():
    target = draw(2, 4)
    order = [2, 0, 3, 1]
    G = MixingMeasure(2.0 * target.router[order], target.bias[order], target.expert[order])
    errors = matched_errors(G, target)
    norms = np.linalg.norm(target.router, axis=1)
    assert np.isclose(errors["norms"], norms.sum()) and errors["directions"] < 1e-14
    assert errors["expert"] == errors["bias"] == 0.0 and np.isclose(errors["total"], norms.sum())


BAD = [
    (lambda: mixing_errors(draw(0, 2), draw(0, 3)), "expected at least 3 atoms"),
    (lambda: mixing_errors(draw(0, 3, p=1), draw(0, 3)), "expected 2 router entries"),
    (lambda: mixing_errors(3, draw(0, 3)), "G: expected a MixingMeasure, got int"),
    (lambda: mixing_errors(draw(0, 3), draw(0, 3), "softmax"), "weight: expected 'exp'"),
    (lambda: mixing_errors(draw(0, 3), draw(0, 3), top=4), "between 1 and k"),
    (lambda: matched_errors(draw(0, 4), draw(0, 3)), "expected 3 atoms"),
]


@pytest.mark.parametrize("call, message", BAD)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_pins_do_not_enter_a_loss():
    G = draw(5, 3)
    H = MixingMeasure(np.vstack([G.router[:2], [[0, 0]]]), [*G.bias[:2], 0.0], G.expert)
    pinned = H.pinned_for(gate("linear").pins(H.router))
    assert mixing_errors(pinned, G).loss_1 == mixing_errors(H, G).loss_1
