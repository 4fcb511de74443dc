"""The students' checks pass on right functions, refuse wrong ones, and name the mistake."""

import numpy as np
import pytest

from hmoe_lib import exercises
from hmoe_lib.attention import multi_head_attention
from hmoe_lib.exercises import DifferenceError, compare


def softmax(scores):
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(X, W_Q, W_K, W_V, W_O, scale=None, swap=False):
    scale = W_Q.shape[2] ** -0.5 if scale is None else scale
    S = scale * np.einsum("ip,hpm,hqm,jq->hij", X, W_Q, W_K, X)
    A = softmax(S.swapaxes(1, 2) if swap else S)
    return np.einsum("hij,jp,hpk,hkc->ic", A, X, W_V, W_O)


def score_matrix(W_Q, W_K, i, j, N):
    block = np.zeros((N, N))
    block[i, j] = 1
    M = np.kron(block, W_Q @ W_K.T / np.sqrt(W_Q.shape[1]))
    return (M + M.T) / 2


def cells(F, F_star):
    return [((f - F_star) ** 2).mean(axis=1).argmin() for f in F]


def voronoi_loss(omega, M, a, omega_star, M_star, a_star, cell, power=None):
    size = np.bincount(cell, minlength=len(omega_star))
    total = np.abs(np.bincount(cell, omega, minlength=len(omega_star)) - omega_star).sum()
    for k, true in enumerate(cell):
        r = power or (2 if size[true] > 1 else 1)
        by_M = np.linalg.norm(M - M_star, axis=(1, 2)) ** r
        by_a = np.linalg.norm(a[:, k] - a_star[:, true], axis=1) ** r
        total += omega[k] * (by_M + by_a).sum()
    return total


def slope(n, losses):
    return np.polyfit(np.log(n), np.log(losses.mean(axis=1)), 1)[0]


def rng():
    return np.random.default_rng(7)


RIGHT = {
    "softmax": lambda: exercises.check_softmax(softmax, rng()),
    "large softmax": lambda: exercises.check_softmax(softmax, rng(), large=True),
    "attention": lambda: exercises.check_attention(attention, rng()),
    "library": lambda: exercises.check_attention(multi_head_attention, rng()),
    "score matrix": lambda: exercises.check_score_matrix(score_matrix, rng()),
    "expert": lambda: exercises.check_expert_vector(
        lambda W_V, j, k, N: np.kron(np.eye(N)[j], W_V[:, k]), rng()
    ),
    "cells": lambda: exercises.check_cells(cells, rng()),
    "L_2": lambda: exercises.check_voronoi_loss(voronoi_loss, rng()),
    "L_1,3": lambda: exercises.check_voronoi_loss(
        lambda *args, **named: voronoi_loss(*args, **named, power=3), rng(), r=3
    ),
    "slope": lambda: exercises.check_slope(slope, rng()),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_function_passes(name):
    assert RIGHT[name]().startswith("Well done: ")


def half(n, losses):
    return slope(n[len(n) // 2 :], losses[len(n) // 2 :])


WRONG = {
    "wrong axis": (
        lambda: exercises.check_softmax(lambda scores: softmax(scores.T).T, rng()),
        "wrong axis",
    ),
    "overflow": (
        lambda: exercises.check_softmax(
            lambda scores: np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True),
            rng(),
            large=True,
        ),
        "NaN or infinity",
    ),
    "no scale": (
        lambda: exercises.check_attention(lambda **w: attention(**w, scale=1.0), rng()),
        "sqrt(d_k) on the scores is missing",
    ),
    "transpose": (
        lambda: exercises.check_attention(lambda **w: attention(**w, swap=True), rng()),
        "changed places",
    ),
    "score transpose": (
        lambda: exercises.check_score_matrix(
            lambda W_Q, W_K, i, j, N: score_matrix(W_K, W_Q, i, j, N), rng()
        ),
        "changed places",
    ),
    "expert": (
        lambda: exercises.check_expert_vector(
            lambda W_V, j, k, N: np.kron(np.eye(N)[j], W_V[k]), rng()
        ),
        "shape is (4,), and it should be (2,)",
    ),
    "cells": (
        lambda: exercises.check_cells(lambda F, F_star: [0] * len(F), rng()),
        "numbers differ",
    ),
    "power 1": (
        lambda: exercises.check_voronoi_loss(
            lambda *args, **named: voronoi_loss(*args, **named, power=1), rng()
        ),
        "power is 1 in every cell",
    ),
    "power 2": (
        lambda: exercises.check_voronoi_loss(
            lambda *args, **named: voronoi_loss(*args, **named, power=2), rng()
        ),
        "power is 2 in every cell",
    ),
    "window": (lambda: exercises.check_slope(half, rng()), "second half"),
    "no function": (lambda: exercises.check_slope(-0.5, rng()), "wants a function"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_mistake_is_refused_and_named(name):
    check, words = WRONG[name]
    with pytest.raises(DifferenceError) as caught:
        check()
    assert words in str(caught.value)


def not_written(x, power):
    raise NotImplementedError()


def cases():
    for n in (1, 2, 3):
        yield {"x": np.arange(1.0, n + 1) * 1.37, "power": 2}


def square(x, power):
    return [value**power for value in x]


def test_the_counterexample_is_the_smallest_and_its_numbers_are_simple():
    with pytest.raises(DifferenceError) as caught:
        compare(lambda x, power: x**power + (len(x) > 1) * x, square, cases())
    text = str(caught.value)
    assert "x = [1., 0.], shape (2,)" in text or "x = [0., 1.], shape (2,)" in text
    assert "power = 2" in text


@pytest.mark.parametrize(
    ("yours", "words"),
    [
        (lambda x, power: None, "is there a `return`"),
        (lambda x, power: 1 / 0, "ZeroDivisionError"),
        (lambda x, power: "four", "not an array of numbers"),
        (lambda x, power: x[:0], "shape is (0,), and it should be (1,)"),
        (lambda x, power: x * np.inf, "NaN or infinity"),
        (lambda x: x, "TypeError"),
        (not_written, "not_written is not written yet: put your code in place of"),
    ],
)
def test_what_goes_wrong_is_said(yours, words):
    with pytest.raises(DifferenceError) as caught:
        compare(yours, square, cases())
    assert words in str(caught.value)


def test_a_notebook_shows_the_message_and_no_traceback():
    assert DifferenceError("wrong")._render_traceback_() == ["wrong"]


def test_writing_into_the_arguments_does_no_harm():
    def in_place(x, power):
        x **= power
        return x

    assert compare(in_place, square, cases()).startswith("Well done: 3 inputs")
