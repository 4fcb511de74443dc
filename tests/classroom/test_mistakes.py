"""Typical mistakes in assignments 2 to 5 and in quizzes cost their points, and no others."""

import pytest
from test_assignments import load, run, source

MISTAKES = {
    "power 1 in a shared cell": (
        "voronoi_by_hand", "loss-2", "np.where(members[np.asarray(cell)] > 1, 2, 1)",
        "np.ones(len(cell))", {"test-loss-2": 20, "test-fitted-loss": 15},
    ),
    "power 2 everywhere": (
        "voronoi_by_hand", "loss-2", "np.where(members[np.asarray(cell)] > 1, 2, 1)",
        "2 * np.ones(len(cell))", {"test-loss-2": 20, "test-fitted-loss": 15},
    ),
    "cells by parameters, not functions": (
        "voronoi_by_hand", "cells", "((F[:, None] - F_star[None]) ** 2).mean(axis=2)",
        "np.abs(F[:, None] - F_star[None]).max(axis=2)", {"test-cells": 15},
    ),
    "split without the half": (
        "voronoi_by_hand", "split-distance", "/ 2 - phi", "- phi", {"test-split": 10},
    ),
    "sign of a relation": (
        "the_interaction", "kappa", "kappa_mixed = kappa", "kappa = -kappa\nkappa_mixed = kappa",
        {"test-kappa": 15, "test-kappa-mixed": 5, "test-residual": 20},
    ),
    "the factor of the off-diagonal entry": (
        "the_interaction", "kappa", "kappa_mixed = kappa / 2", "kappa_mixed = kappa",
        {"test-kappa-mixed": 5},
    ),
    "the gradient without its exponential": (
        "the_interaction", "euler", "return np.exp(x @ M @ x) * x", "return x", {"test-euler": 15},
    ),
    "the same point twice": (
        "the_interaction", "certificate", "[-1.25, -0.5, 0.75, 1.5]", "[-1.25, -0.5, 0.75, 0.75]",
        {"test-certificate": 20},
    ),
    "a hand-picked window": (
        "rates", "measured", "slope(sizes, losses_near)", "slope(sizes[2:], losses_near[2:])",
        {"test-measured": 10},
    ),
    "a slope of medians": (
        "rates", "slope", "np.mean(losses, axis=1)", "np.median(losses, axis=1)",
        {"test-slope": 15, "test-interval": 15, "test-measured": 10, "test-far": 15},
    ),
    "an interval of one standard deviation": (
        "rates", "interval", "[0.025, 0.975]", "[0.16, 0.84]", {"test-interval": 15},
    ),
    "another noise": (
        "rates", "one-run", "noise_sd=0.02", "noise_sd=0.1",
        {"test-one-run": 15, "test-measured": 10, "test-far": 15},
    ),
    "undecided counted as a relation": (
        "design_a_gate", "has-interaction", "strongly_identifiable is False",
        "strongly_identifiable is not None", {"test-has-interaction": 15},
    ),
    "a gate with a relation of its own": (
        "design_a_gate", "my-gate", "+ tanh(z + 1)/2", "* 1.1",
        {"test-my-gate": 30, "test-worth": 15},
    ),
    "a gate that changes too much": (
        "design_a_gate", "my-gate", "tanh(z + 1)/2", "5*tanh(z + 1)", {"test-my-gate": 30},
    ),
    "a guessed letter": (
        "quiz_attention", "answer-4", '"b"', '"c"', {"test-4": 20},
    ),
    "a fixed rate for all cells": (
        "quiz_identifiability", "answer-4", "1 / 4", "1 / 2", {"test-4": 20},
    ),
    "a slope without its sign": (
        "quiz_experiments", "answer-1", "-np.log(drop)", "np.log(drop)", {"test-1": 20},
    ),
    "the temperature the wrong way round": (
        "quiz_gates", "answer-1", "other / tau", "tau / other", {"test-1": 20},
    ),
    "the rate of a router for that of an intercept": (
        "quiz_gates", "answer-2", "1 / (4 * m)", "1 / 4", {"test-2": 20},
    ),
    "a share that does not matter": (
        "quiz_gates", "answer-3", "e - 0.5", "-0.5", {"test-3": 20},
    ),
    "a gate that repairs every split": (
        "quiz_gates", "answer-4", '"d"', '"a"', {"test-4": 20},
    ),
    "the gate's value taken twice": (
        "quiz_gates", "answer-5", "1 / (1 + np.exp(-b))", "1 / (1 + np.exp(-b))**2",
        {"test-5": 20},
    ),
    "the vector taken for the product": (
        "quiz_practice", "answer-1", "weight * entry / other", "entry", {"test-1": 20},
    ),
    "hidden scales counted as seen": (
        "quiz_practice", "answer-2", "+ H * K * d", "+ H * K * (d + 1)", {"test-2": 20},
    ),
    "products taken one by one": (
        "quiz_practice", "answer-3", "one + two - first", "two", {"test-3": 20},
    ),
    "the dimension of a token": (
        "quiz_practice", "answer-4", "d_v", "d", {"test-4": 20},
    ),
    "a gate that repairs the split": (
        "quiz_practice", "answer-5", '"c"', '"b"', {"test-5": 20},
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_costs_its_points(what):
    name, grade_id, old, new, lost = MISTAKES[what]
    nb = load(name, seed=3)
    cells = {c["metadata"]["nbgrader"]["grade_id"]: c for c in nb["cells"]
             if "nbgrader" in c["metadata"]}  # fmt: skip
    text = source(cells[grade_id])
    assert old in text, "the solution has changed"
    cells[grade_id]["source"] = text.replace(old, new)
    failed = {test for test, _ in run(nb)}
    assert failed == set(lost)
    for test, points in lost.items():
        assert cells[test]["metadata"]["nbgrader"]["points"] == points
