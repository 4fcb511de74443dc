"""Losses on cells of parameters: zero at the truth, invariant, right powers, right maximum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hmoe_lib.cell_losses import (
    contamination_loss,
    gaussian_loss,
    multinomial_loss,
    over_fit_order,
    translated,
)
from hmoe_lib.mixing import MixingMeasure
from hmoe_lib.mixing_losses import atom_cells

TRUTH = MixingMeasure(
    [[3.0, -2.0], [-1.0, 1.0], [0.0, 0.0]],
    [0.3, -0.2, 0.0],
    [[-4.0, 1.0, 2.0, -1.0], [4.0, 0.0, -2.0, -0.5], [0.0, 2.0, 5.0, 0.2]],
)


def loops(G, G_star, router=0.0, bias=0.0):
    """The Gaussian loss for a given translation, by plain loops."""
    cells = atom_cells(G, G_star)
    total = 0.0
    for j in range(G_star.atoms):
        members = [i for i in range(G.atoms) if cells[i] == j]
        r = over_fit_order(len(members)) if members else 1
        half = r / 2 if r > 1 else 1
        weights = {i: np.exp(G.bias[i] + bias) for i in members}
        total += abs(sum(weights.values()) - np.exp(G_star.bias[j]))
        for i in members:
            *a, b, _ = G.expert[i] - G_star.expert[j]
            nu = abs(np.exp(G.expert[i, -1]) - np.exp(G_star.expert[j, -1]))
            beta = np.linalg.norm(G.router[i] + router - G_star.router[j])
            total += weights[i] * (beta**r + abs(b) ** r + np.linalg.norm(a) ** half + nu**half)
    return total


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_zero_at_the_truth_in_any_order_and_after_any_translation(seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(3)
    same = MixingMeasure(TRUTH.router[order], TRUTH.bias[order], TRUTH.expert[order])
    same = translated(same, 0.1 * rng.standard_normal(2), rng.standard_normal())
    assert gaussian_loss(same, TRUTH) < 1e-12 and multinomial_loss(same, TRUTH) < 1e-12
    moved = same.from_vector(same.to_vector() + 0.05 * rng.standard_normal(same.shape.size))
    assert gaussian_loss(moved, TRUTH) > 1e-3


def test_the_loss_is_that_of_plain_loops_for_the_best_translation():
    rng = np.random.default_rng(0)
    G = TRUTH.split_atom(0, [0.3, 0.7], "exp")
    G = G.from_vector(G.to_vector() + 0.05 * rng.standard_normal(G.shape.size))
    candidates = []
    cells = atom_cells(G, TRUTH)
    for i, j in enumerate(cells):
        mass = np.log(np.exp(G.bias[cells == j]).sum())
        for bias in (G.bias[i], mass):
            moves = TRUTH.router[j] - G.router[i], TRUTH.bias[j] - bias
            candidates.append(loops(G, TRUTH, *moves))
    assert np.isclose(gaussian_loss(G, TRUTH), min(candidates))
    assert cells.tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize(("column", "power"), [(0, 4), (2, 2), (4, 4), (5, 2)])
def test_powers_in_a_cell_of_two(column, power):
    """Halving a displacement divides its term by 2^power; with another order it does not."""
    G = TRUTH.split_atom(0, [0.5, 0.5], "exp")

    def loss(t, order=over_fit_order):
        router, expert = G.router.copy(), G.expert.copy()
        move = np.zeros(6)
        move[column] = t
        for i, sign in ((0, 1), (1, -1)):
            router[i] += sign * move[:2]
            expert[i] += sign * move[2:]
        return gaussian_loss(MixingMeasure(router, G.bias, expert), TRUTH, order=order)

    ratio = np.log2(loss(0.02) / loss(0.01))
    assert abs(ratio - power) < 0.05
    wrong = np.log2(loss(0.02, lambda m: 2) / loss(0.01, lambda m: 2))
    assert abs(wrong - power) > 0.5


def test_the_maximum_over_sets_of_cells():
    expert = TRUTH.expert.copy()
    expert[0, 2] += 0.3
    expert[1, 2] += 0.1
    G = MixingMeasure(TRUTH.router, TRUTH.bias, expert)
    parts = np.exp(TRUTH.bias[:2]) * [0.3, 0.1]
    assert np.isclose(gaussian_loss(G, TRUTH, top=1), parts[0])
    assert np.isclose(gaussian_loss(G, TRUTH, top=2), parts.sum())
    with pytest.raises(ValueError, match="top: expected"):
        gaussian_loss(G, TRUTH, top=4)


def test_products_of_the_contaminated_model():
    at = MixingMeasure([[0.0]], [0.0], [[1.0, np.log(0.5)]])
    known = [0.8, np.log(0.5)]
    share = MixingMeasure([[0.0]], [np.log(0.6 / 0.4)], at.expert)
    assert np.isclose(contamination_loss(share, at), 0.1)
    assert np.isclose(contamination_loss(share, at, known), 0.1 * 0.2**2)
    mean = MixingMeasure([[0.0]], [0.0], [[1.1, np.log(0.5)]])
    assert np.isclose(contamination_loss(mean, at), 0.5 * 0.1)
    assert np.isclose(contamination_loss(mean, at, known), 0.5 * 0.1 * 0.2)
