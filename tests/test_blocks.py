"""Samples in blocks: features, sizes, and what is refused at the border."""

import numpy as np
import pytest
from checks import SEEDS, check_close, check_constant_memory
from hypothesis import given, settings
from hypothesis import strategies as st

import hmoe_lib as hl
from hmoe_lib.blocks import BLOCK_SIZE, PART, Block, Samples, Stream, quadratic_features


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


def test_samples_in_single_precision_are_the_rounded_ones():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((10, 2)), rng.standard_normal(10)

    def draw(index):
        x = np.ascontiguousarray(X[5 * index : 5 * index + 5].T)
        return Block(x, quadratic_features(x), y[5 * index : 5 * index + 5])

    for samples in (Samples(X, y, size=5), Stream(draw, 10, size=5)):
        for rounded in (samples.single(), samples.head(10).single(), samples.single().head(10)):
            for one, other in zip(samples, rounded, strict=True):
                for exact, single in zip(one, other, strict=True):
                    assert single.dtype == np.float32
                    assert np.allclose(exact, single, rtol=1e-6, atol=0)
            assert rounded.dtype is np.float32 and len(rounded) == 10
            assert [part.dtype for part in rounded.parts()] == [np.float32]
        assert samples.dtype is np.float64
    assert Samples(X).single().y is None


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


# ---- parts and streams ---------------------------------------------------------------------------


def drawn(index, size=5):
    rng = np.random.default_rng([3, index])
    x = rng.uniform(-1, 1, (2, size))
    return Block(x, quadratic_features(x), rng.standard_normal(size))


def held(n, size=5):
    blocks = [drawn(index) for index in range(-(-n // size))]
    X, y = (np.concatenate([part for part in parts]) for parts in
            (([b.x.T for b in blocks]), ([b.y for b in blocks])))  # fmt: skip
    return Samples(X[:n], y[:n], size=size)


def moments(samples):
    """A sum whose last bits depend on the order of the additions."""
    total, products = 0.0, np.zeros((2, 3))
    for block in samples:
        total += block.y @ block.y
        products += (block.x * block.y) @ block.q.T
    return total, products


def same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@given(st.integers(1, 3 * PART * 5 + 7))
@settings(max_examples=30, deadline=None)
def test_a_stream_is_the_sample_it_would_hold(n):
    stream, samples = Stream(drawn, n, size=5), held(n)
    assert (len(stream), stream.dim, stream.squares()) == (n, 2, pytest.approx(samples.squares()))
    assert same(stream.sums(moments), samples.sums(moments))
    few = max(1, n // 3)
    assert same(stream.head(few).sums(moments), samples.head(few).sums(moments))
    assert sum(len(part) for part in stream.parts()) == n
    assert all(len(list(part)) <= PART for part in stream.parts())


def backwards(work, parts):
    """Workers that finish in the wrong order, as an engine would get their results."""
    parts = list(parts)
    done = {index: work(parts[index]) for index in reversed(range(len(parts)))}
    return [done[index] for index in range(len(parts))]


def test_sums_do_not_depend_on_who_computes_the_parts():
    stream = Stream(drawn, 5 * PART * 5 + 3, size=5)
    alone = stream.sums(moments)
    stream.map = backwards
    assert same(stream.sums(moments), alone)
    # Negative control: added in another order, the last bits differ.
    stream.map = lambda work, parts: reversed(list(map(work, parts)))
    assert not same(stream.sums(moments), alone)


def test_parts_do_not_carry_the_engine_of_the_sample():
    stream, samples = Stream(drawn, 5 * PART * 2, size=5), held(5 * PART * 2)
    for source in (stream, samples):
        source.map = backwards
        assert source.head(3).map is backwards
        assert all(part.map is not backwards for part in source.parts())


def test_a_block_of_a_stream_is_what_sample_draws():
    truth = hl.HierarchicalMeasure([[1.5]], [[[[2.0, 1.0], [1.0, 0.0]], [[0.0] * 2] * 2]],
                                   [[[[1.0, 2.0]], [[3.0, -1.0]]]])  # fmt: skip
    for model in (hl.Mha(), hl.ValueGated("sigmoid", bias=1.0), hl.OutputGated("tanh")):
        X, y = model.sample(truth, 100, noise_sd=0.3, rng=np.random.default_rng(5))
        block = model.sample_block(truth, 100, 0.3, rng=np.random.default_rng(5))
        assert np.array_equal(block.x.T, X)
        check_close(block.y, y, 1e-14)


def test_the_memory_of_a_stream_does_not_grow_with_it():
    def draw(index):
        return drawn(index, BLOCK_SIZE)

    def wasteful(stream):
        return len([block.x for block in stream])

    check_constant_memory(lambda stream: stream.sums(moments), lambda n: Stream(draw, n))
    with pytest.raises(AssertionError, match="peaks"):
        check_constant_memory(wasteful, lambda n: Stream(draw, n))


@pytest.mark.parametrize("n", [0, -1, 2.5, True, "10"])
def test_streams_refuse_a_wrong_size(n):
    with pytest.raises(ValueError, match="n: expected an integer >= 1"):
        Stream(drawn, n)


def test_a_block_of_another_size_is_refused():
    with pytest.raises(ValueError, match="draw: expected a block of 7 samples"):
        list(Stream(drawn, 20, size=7))
