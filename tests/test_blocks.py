"""Samples in blocks: features, sizes, and what is refused at the border."""

import numpy as np
import pytest
from checks import SEEDS, check_close, check_constant_memory
from hypothesis import given, settings
from hypothesis import strategies as st

from hmoe_lib.blocks import Samples, quadratic_features


@given(st.integers(1, 5), st.integers(1, 7), SEEDS)
@settings(max_examples=40, deadline=None)
def test_features_give_the_quadratic_form(d, n, seed):
    rng = np.random.default_rng(seed)
    x, M = rng.standard_normal((d, n)), rng.standard_normal((d, d))
    M = M + M.T
    expected = [x[:, b] @ M @ x[:, b] for b in range(n)]
    check_close(M[np.triu_indices(d)] @ quadratic_features(x), expected, 1e-13)


def test_features_without_the_factor_two_are_found():
    """Negative control: x_p x_q off the diagonal, without the 2 of its two entries in M."""
    x, M = np.array([[1.0], [2.0]]), np.array([[1.0, 3.0], [3.0, -1.0]])
    broken = np.array([[1.0], [2.0], [4.0]])
    right = 1.0 + 2 * 6.0 - 4.0
    check_close(M[np.triu_indices(2)] @ quadratic_features(x), [right], 1e-15)
    with pytest.raises(AssertionError):
        check_close(M[np.triu_indices(2)] @ broken, [right], 1e-2)


@given(st.integers(1, 50), st.integers(1, 60), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_blocks_are_the_sample_in_order(n, size, d):
    X, y = np.arange(float(n * d)).reshape(n, d), np.arange(float(n))
    blocks = list(Samples(X, y, size=size))
    assert all(block.x.shape[1] == len(block.y) <= size for block in blocks)
    assert np.array_equal(np.concatenate([block.x.T for block in blocks]), X)
    assert np.array_equal(np.concatenate([block.y for block in blocks]), y)
    assert all(np.array_equal(block.q, quadratic_features(block.x)) for block in blocks)
    assert all(block.y is None for block in Samples(X, size=size))
    samples = Samples(X, y, size=size)
    assert (len(samples), samples.dim) == (n, d)


def test_the_head_of_a_sample_is_a_view():
    X, y = np.zeros((10, 2)), np.arange(10.0)
    head = Samples(X, y, size=3).head(4)
    assert np.shares_memory(head.X, X) and np.shares_memory(head.y, y)
    assert [len(block.y) for block in head] == [3, 1]
    assert Samples(X).head(4).y is None


def test_data_are_checked_and_read_without_a_copy():
    def data(n):
        return np.zeros((n, 2)), np.zeros(n)

    def read(given_data):
        for _ in Samples(*given_data):
            pass

    check_constant_memory(read, data)
    # Negative controls: a copy, and a mask as long as the data.
    for wasteful in (lambda d: read((d[0].copy(), d[1])), lambda d: np.isfinite(d[0]).all()):
        with pytest.raises(AssertionError, match="peaks"):
            check_constant_memory(wasteful, data)


GOOD = np.ones((5, 2))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones(5), None, r"X: expected shape \(n, d\), not empty, got \(5,\)"),
        (np.ones((5, 2, 1)), None, r"X: expected shape \(n, d\), not empty, got \(5, 2, 1\)"),
        (3.0, None, r"X: expected shape \(n, d\), not empty, got \(\)"),
        (np.ones((0, 2)), None, r"X: expected .* not empty, got \(0, 2\)"),
        (np.ones((5, 0)), None, r"X: expected .* not empty, got \(5, 0\)"),
        (GOOD, np.ones((5, 1)), r"y: expected shape \(n,\), not empty, got \(5, 1\)"),
        (GOOD, np.ones((1, 5)), r"y: expected shape \(n,\), not empty, got \(1, 5\)"),
        (GOOD, np.ones(4), r"y: expected shape \(5,\) to match X, got \(4,\)"),
        (GOOD, 1.0, r"y: expected shape \(n,\), not empty, got \(\)"),
        (GOOD, [], r"y: expected shape \(n,\), not empty, got \(0,\)"),
        ("text", None, r"X: expected numbers of shape \(n, d\), got text"),
        ([[1.0], [1.0, 2.0]], None, r"X: expected numbers of shape \(n, d\), got "),
        (GOOD, {"y": 1}, r"y: expected numbers of shape \(n,\), got "),
        (GOOD * 1j, None, "X: expected real numbers, got complex"),
        (GOOD, [None] * 5, "y: expected finite numbers, got NaN or infinity"),
    ],
)
def test_wrong_data_are_named(X, y, message):
    with pytest.raises(ValueError, match=message):
        Samples(X, y)


@pytest.mark.parametrize("name", ["X", "y"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 3, 4])
def test_one_entry_that_is_not_finite(name, bad, place):
    data = {"X": GOOD.copy(), "y": np.ones(5)}
    data[name][place] = bad
    with pytest.raises(ValueError, match=f"{name}: expected finite numbers, got NaN or infinity"):
        Samples(**data)


def test_huge_finite_entries_are_finite():
    assert len(Samples(np.full((3, 1), 1e308), np.full(3, -1e308))) == 3
