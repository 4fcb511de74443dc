"""The measure: what it refuses, its vector, its relabellings, its text."""

import copy
import dataclasses
import itertools
import json
import math
import pickle

import numpy as np
import pytest
from checks import (
    MODELS,
    SEEDS,
    check_close,
    check_same_function,
    check_vector_order,
    random_measure,
    relabelling,
    sizes,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import hmoe_lib as hl
from hmoe_lib.measures import Shape

MEASURES = st.builds(
    lambda size, seed, signed: random_measure(np.random.default_rng(seed), **size, signed=signed),
    sizes(), SEEDS, st.booleans(),
)  # fmt: skip


def parts(H=2, N=3, K=4, d=2):
    """Valid arrays, with four different sizes where that is possible."""
    G = random_measure(np.random.default_rng(0), H, N, K, d)
    return {"omega": G.omega.copy(), "M": G.M.copy(), "a": G.a.copy()}


def refused(message, **changed):
    with pytest.raises(ValueError, match=message):
        hl.HierarchicalMeasure(**(parts() | changed))


# ---- the border ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["omega", "M", "a"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_entries_that_are_not_finite(name, bad):
    array = parts()[name]
    array[(0,) * array.ndim] = bad
    refused(f"{name}: expected finite numbers, got NaN or infinity", **{name: array})


@pytest.mark.parametrize(("name", "ndim"), [("omega", 2), ("M", 4), ("a", 4)])
def test_a_wrong_number_of_axes(name, ndim):
    array = parts()[name]
    form = rf"{name}: expected {ndim} axes, none empty, got shape "
    refused(form + rf"\({array.shape[0]}, ", **{name: array[..., None]})
    refused(form + r"\(\)", **{name: 1.0})
    refused(form, **{name: array[:0]})


@pytest.mark.parametrize("name", ["omega", "M", "a"])
@pytest.mark.parametrize("bad", ["text", [["x"]], [[1.0], [1.0, 2.0]], {"a": 1}])
def test_what_is_no_array_of_numbers(name, bad):
    refused(f"{name}: expected numbers with [24] axes, got ", **{name: bad})


@pytest.mark.parametrize("name", ["omega", "M", "a"])
def test_complex_numbers_are_not_cut_to_their_real_part(name):
    refused(f"{name}: expected real numbers, got complex", **{name: parts()[name] + 0j})
    refused(f"{name}: expected real numbers", **{name: (parts()[name] + 1j).tolist()})


def test_shapes_that_do_not_fit_each_other():
    good = parts()
    refused(r"M: expected shape \(H, N, d, d\) with H = 1, got \(2, 3, 2, 2\)",
            omega=good["omega"][:1])  # fmt: skip
    refused(r"M: expected shape .* got \(2, 3, 2, 1\)", M=good["M"][..., :1])
    refused(r"a: expected shape \(H, N, K, d\) = \(2, 3, 4, 2\), got \(2, 3, 3, 2\)",
            a=good["a"][:, :, :3])  # fmt: skip
    refused(r"a: expected shape .* got \(2, 4, 3, 2\)", a=good["a"].swapaxes(1, 2))
    refused(r"a: expected shape .* got \(2, 3, 4, 1\)", a=good["a"][..., :1])
    refused(r"M: expected shape .* with H = 4", omega=good["omega"].T)


def test_asymmetric_matrices():
    M = parts()["M"]
    M[1, 0, 0, 1] += 1e-6
    refused("M: expected symmetric matrices, got asymmetric ones; see normalized", M=M)


def test_an_expert_that_is_not_pinned():
    M = parts()["M"]
    M[0, -1] = np.eye(2)
    refused(r"M: expected M\[:, -1\] = 0 .*; see normalized", M=M)


def test_negative_weights_need_a_word():
    good = parts()
    good["omega"][1, 2] = -0.25
    refused("omega: expected weights >= 0, got -0.25; signed=True allows it", omega=good["omega"])
    assert hl.HierarchicalMeasure(**good, signed=True).omega[1, 2] == -0.25
    zero = np.zeros_like(good["omega"])
    assert not hl.HierarchicalMeasure(zero, good["M"], good["a"]).omega.any()


# ---- frozen ----------------------------------------------------------------------------------


COPIES = {
    "made": lambda G: G,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda G: pickle.loads(pickle.dumps(G)),
}


@pytest.mark.parametrize("kind", COPIES)
def test_arrays_are_read_only_and_fields_frozen(kind):
    G = COPIES[kind](hl.HierarchicalMeasure(**parts()))
    assert hl.HierarchicalMeasure(**parts()) == G
    for name in ("omega", "M", "a"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(G, name)[...] = 0.0
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(G, name, getattr(G, name))


def test_later_changes_to_the_arrays_given_do_not_reach_the_measure():
    given_arrays = parts()
    G = hl.HierarchicalMeasure(**given_arrays)
    given_arrays["a"][...] = 7.0
    assert parts()["a"].tolist() == G.a.tolist()
    vector = G.to_vector()
    vector[...] = 7.0
    assert parts()["a"].tolist() == G.a.tolist()


def test_equality_and_hash():
    G, same = (hl.HierarchicalMeasure(**parts()) for _ in range(2))
    other = G.from_vector(G.to_vector() + 1e-12)
    assert same == G and hash(G) == hash(same) and other != G
    assert G != "G" and len({G, same, other}) == 2
    minus, plus = (hl.HierarchicalMeasure([[z]], [[[[0.0]]]], [[[[1.0]]]]) for z in (-0.0, 0.0))
    assert minus == plus and hash(minus) == hash(plus)


def test_sizes_and_repr():
    G = hl.HierarchicalMeasure(**parts())
    assert (G.heads, G.experts, G.channels, G.dim) == (2, 3, 4, 2) == tuple(G.shape)
    assert repr(G) == "HierarchicalMeasure(H=2, N=3, K=4, d=2)"
    assert G.shape.pairs == 3 and G.shape.size == 2 * 2 * 3 + 2 * 3 * 4 * 2 + 2 * 4


# ---- the vector ------------------------------------------------------------------------------


@given(MEASURES)
@settings(max_examples=40, deadline=None)
def test_the_vector_has_the_documented_order(G):
    check_vector_order(G.to_vector(), G)
    assert G.to_vector().size == G.shape.size


def test_wrong_orders_are_found():
    """Negative control: other blocks first, lower triangles, other axes."""
    G = random_measure(np.random.default_rng(1), 2, 3, 4, 3)
    p, q = np.triu_indices(3)
    low = np.tril_indices(3)
    M, a, omega = G.M[:, :-1, p, q].ravel(), G.a.ravel(), G.omega.ravel()
    check_vector_order(np.concatenate([M, a, omega]), G)
    wrong = [
        [a, M, omega],
        [omega, M, a],
        [M, omega, a],
        [G.M[:, :-1, low[0], low[1]].ravel(), a, omega],
        [G.M[:, 1:, p, q].ravel(), a, omega],
        [M, G.a.swapaxes(1, 2).ravel(), omega],
        [M, a, omega.reshape(2, 4).T.ravel()],
    ]
    for blocks in wrong:
        with pytest.raises(AssertionError, match="not in the documented order"):
            check_vector_order(np.concatenate(blocks), G)


@given(MEASURES, st.data())
@settings(max_examples=60, deadline=None)
def test_vectors_and_measures_are_the_same_thing(G, data):
    assert G.from_vector(G.to_vector()) == G
    entries = st.floats(-1e300, 1e300)
    vector = data.draw(arrays(float, G.shape.size, elements=entries))
    vector[G.shape.slices["omega"]] = np.abs(vector[G.shape.slices["omega"]])
    other = G.from_vector(vector)
    assert other.to_vector().tobytes() == vector.tobytes()
    assert (other.shape, other.signed) == (G.shape, G.signed)
    assert np.array_equal(other.M, other.M.swapaxes(-1, -2)) and not other.M[:, -1].any()


def test_splitting_a_vector_gives_views_of_its_blocks():
    shape = Shape(heads=2, experts=3, channels=4, dim=2)
    theta = np.arange(float(shape.size))
    M, a, omega = shape.split(theta)
    assert (M.shape, a.shape, omega.shape) == ((2, 2, 3), (2, 3, 4, 2), (2, 4))
    assert np.concatenate([M.ravel(), a.ravel(), omega.ravel()]).tolist() == theta.tolist()
    omega[...] = -1.0
    assert (theta[shape.slices["omega"]] == -1.0).all()


def test_vectors_that_do_not_fit():
    G = hl.HierarchicalMeasure(**parts())
    v = G.to_vector()
    for wrong, message in [
        (v[:-1], rf"vector: expected shape \({v.size},\), got \({v.size - 1},\)"),
        (v[None], "vector: expected 1 axes"),
        (np.where(np.arange(v.size) == 3, np.nan, v), "vector: expected finite"),
        (-np.abs(v), "omega: expected weights >= 0"),
        ("text", "vector: expected numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            G.from_vector(wrong)


# ---- the same function -----------------------------------------------------------------------


@given(sizes(), SEEDS)
@settings(max_examples=30, deadline=None)
def test_normalized_takes_any_matrix_and_keeps_the_gates(size, seed):
    rng = np.random.default_rng(seed)
    G = random_measure(rng, **size)
    shift = rng.standard_normal((size["H"], 1, size["d"], size["d"]))
    skew = rng.standard_normal(G.M.shape)
    again = hl.HierarchicalMeasure.normalized(
        G.omega, G.M + shift + skew - skew.swapaxes(2, 3), G.a
    )
    check_close(again.M, G.M, 1e-13)
    assert not again.M[:, -1].any()


def test_normalized_refuses_what_the_measure_refuses():
    good = parts()
    with pytest.raises(ValueError, match=r"M: expected shape \(H, N, d, d\), got \(2, 3, 2, 1\)"):
        hl.HierarchicalMeasure.normalized(good["omega"], good["M"][..., :1], good["a"])
    with pytest.raises(ValueError, match="omega: expected weights >= 0"):
        hl.HierarchicalMeasure.normalized(-good["omega"], good["M"], good["a"])
    G = hl.HierarchicalMeasure.normalized(-good["omega"], good["M"], good["a"], signed=True)
    assert G.signed


@pytest.mark.parametrize("name", MODELS)
@given(MEASURES, SEEDS)
@settings(max_examples=20, deadline=None)
def test_relabelling_keeps_the_function_of_every_model(name, G, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (6, G.dim))
    check_same_function(MODELS[name], G, G.permuted(**relabelling(rng, G)), X)


def test_relabelling_without_pinning_anew_changes_the_function():
    """Negative control: experts swapped, M_{pi(N)} not subtracted; or a left behind."""
    rng = np.random.default_rng(3)
    G = random_measure(rng)
    X = rng.uniform(-1, 1, (20, 2))
    order = [1, 0, 2]
    not_moved = hl.HierarchicalMeasure(G.omega, G.M[:, order], G.a)
    kept = hl.HierarchicalMeasure(G.omega, G.M, G.a[:, [2, 1, 0]])
    mixed = hl.HierarchicalMeasure(G.omega[:, [1, 0, 2]], G.M, G.a)
    for model in MODELS.values():
        check_same_function(model, G, G.permuted(experts=order), X)
        for wrong in (not_moved, kept, mixed):
            with pytest.raises(AssertionError, match="functions: differ"):
                check_same_function(model, G, wrong, X)


def test_one_order_for_all_heads_or_one_a_head():
    G = random_measure(np.random.default_rng(4), H=2, N=3, K=3)
    assert G.permuted(channels=[2, 0, 1]) == G.permuted(channels=[[2, 0, 1], [2, 0, 1]])
    one = G.permuted(experts=[[0, 1, 2], [1, 0, 2]])
    assert np.array_equal(one.M[0], G.M[0]) and np.array_equal(one.a[1, 0], G.a[1, 1])
    # Orders belong to the heads as they were before the heads are reordered.
    both = G.permuted(heads=[1, 0], channels=[[0, 1, 2], [2, 1, 0]])
    assert np.array_equal(both.omega[0], G.omega[1, ::-1])
    assert np.array_equal(both.omega[1], G.omega[0])
    assert G.permuted() == G


@pytest.mark.parametrize("name", ["heads", "channels", "experts"])
def test_orders_that_are_none(name):
    G = random_measure(np.random.default_rng(4), H=3, N=3, K=3)
    for wrong in ([0, 1, 1], [1, 2, 3], [-1, 0, 1]):
        with pytest.raises(ValueError, match=rf"{name}: expected a permutation of 0..2, got"):
            G.permuted(**{name: wrong})
    with pytest.raises(ValueError, match=rf"{name}: expected an order of shape .* got \(2,\)"):
        G.permuted(**{name: [0, 1]})


@pytest.mark.parametrize("size", [{"H": 1, "N": 3}, {"H": 2, "N": 2}, {"H": 2, "N": 3}, {"N": 1}])
def test_twins_are_all_expert_orders_and_have_one_function(size):
    G = random_measure(np.random.default_rng(5), **size)
    twins = list(G.twins())
    assert len(twins) == math.factorial(G.experts) ** G.heads
    assert twins[0] == G and len(set(twins)) == len(twins)
    X = np.random.default_rng(6).uniform(-1, 1, (10, 2))
    for model, twin in itertools.product(MODELS.values(), twins):
        check_same_function(model, G, twin, X)


def test_the_twin_of_two_experts_by_hand():
    """(M, 0) with (a_1, a_2) and (-M, 0) with (a_2, a_1): s(z) = 1 - s(-z)."""
    M = [[[[1.0, 2.0], [2.0, -3.0]], [[0.0, 0.0], [0.0, 0.0]]]]
    G = hl.HierarchicalMeasure([[2.0]], M, [[[[1.0, 0.0]], [[0.0, 5.0]]]])
    _, twin = G.twins()
    assert twin.M[0, 0].tolist() == [[-1.0, -2.0], [-2.0, 3.0]]
    assert twin.a[0, :, 0].tolist() == [[0.0, 5.0], [1.0, 0.0]]


# ---- canonical -------------------------------------------------------------------------------


@given(MEASURES, SEEDS)
@settings(max_examples=60, deadline=None)
def test_canonical_undoes_any_relabelling(G, seed):
    moved = G.permuted(**relabelling(np.random.default_rng(seed), G))
    for one, other in [(moved.canonical(), G.canonical()), (moved.canonical(G), G)]:
        check_close(one.M, other.M, 1e-12, "M")
        assert np.array_equal(one.a, other.a) and np.array_equal(one.omega, other.omega)


def test_a_relabelling_is_not_undone_by_channels_alone():
    """Negative control: parameters compared without experts or heads in canonical order."""
    G = random_measure(np.random.default_rng(13))
    for moved in (G.permuted(experts=[1, 2, 0]), G.permuted(heads=[1, 0])):
        for order in itertools.permutations(range(G.channels)):
            with pytest.raises(AssertionError, match="a: differ"):
                check_close(moved.permuted(channels=order).a, G.a, 1e-3, "a")


@given(sizes(H=2, N=2, K=2, d=2), SEEDS)
@settings(max_examples=25, deadline=None)
def test_canonical_is_the_nearest_of_all_relabellings(size, seed):
    """Against trying them all, for a measure that is no relabelling of the reference."""
    rng = np.random.default_rng(seed)
    G, reference = random_measure(rng, **size), random_measure(rng, **size)

    def distance(one):
        names = ("omega", "M", "a")
        return sum(np.sum((getattr(one, n) - getattr(reference, n)) ** 2) for n in names)

    def orders(n):
        return itertools.permutations(range(n))

    H = size["H"]
    channels = itertools.product(orders(size["K"]), repeat=H)
    experts = itertools.product(orders(size["N"]), repeat=H)
    every = itertools.product(orders(H), channels, experts)
    best = min(distance(G.permuted(h, np.array(c), np.array(e))) for h, c, e in every)
    check_close(distance(G.canonical(reference)), best, 1e-12)


def test_canonical_of_experts_with_the_same_vectors():
    """(A.5) excludes it, yet a twin must not come out as another measure: M decides then."""
    M = [[[[2.0]], [[-1.0]], [[0.0]]]]
    G = hl.HierarchicalMeasure([[1.0, 1.0]], M, [[[[3.0], [4.0]], [[4.0], [3.0]], [[3.0], [4.0]]]])
    for twin in G.twins():
        assert twin.canonical() == G.canonical()
        assert twin.canonical(G) == G


def test_canonical_with_more_channels_than_the_reference():
    rng = np.random.default_rng(7)
    truth = random_measure(rng, H=2, N=3, K=2)
    extra = hl.HierarchicalMeasure(
        truth.omega[:, [0, 1, 1]] * [1, 0.25, 0.75], truth.M, truth.a[:, :, [0, 1, 1]]
    )
    near = extra.from_vector(extra.to_vector() + 1e-3 * rng.standard_normal(extra.shape.size))
    moved = near.permuted(**relabelling(rng, near)).canonical(truth)
    check_close(moved.M, near.M, 1e-12)
    check_close(moved.a[:, :, 0], near.a[:, :, 0], 1e-12)  # copies of one channel stay together
    assert np.allclose(moved.a[:, :, 1:], truth.a[:, :, [1, 1]], atol=0.01)
    again = moved.canonical(truth)
    check_close(again.to_vector(), moved.to_vector(), 1e-12)


def test_canonical_refuses_another_kind_of_reference():
    G = random_measure(np.random.default_rng(8), H=2, N=3, K=3, d=2)
    for name, size in [("heads", {"H": 1}), ("experts", {"N": 2}), ("dim", {"d": 1})]:
        other = random_measure(np.random.default_rng(9), **size)
        with pytest.raises(ValueError, match=f"reference: expected {name} = [23], got [12]"):
            G.canonical(other)


# ---- text ------------------------------------------------------------------------------------


@given(MEASURES, st.data())
@settings(max_examples=40, deadline=None)
def test_text_keeps_the_last_bit(G, data):
    vector = data.draw(arrays(float, G.shape.size, elements=st.floats(-1e308, 1e308)))
    vector[G.shape.slices["omega"]] = np.abs(vector[G.shape.slices["omega"]])
    G = G.from_vector(vector)
    again = hl.HierarchicalMeasure.from_json(G.to_json())
    assert again.to_vector().tobytes() == G.to_vector().tobytes()
    assert again == G and again.signed == G.signed


def test_signed_survives_text_pickle_and_relabelling():
    G = random_measure(np.random.default_rng(10), signed=True)
    others = [
        hl.HierarchicalMeasure.from_json(G.to_json()),
        pickle.loads(pickle.dumps(G)),
        G.permuted(heads=[1, 0]),
        G.canonical(),
        G.from_vector(G.to_vector()),
    ]
    assert all(other.signed for other in others)


def damaged():
    text = hl.HierarchicalMeasure(**parts()).to_json()
    fields = json.loads(text)

    def changed(**new):
        return json.dumps(fields | new)

    yield text[: len(text) // 2], "text: expected the JSON of a measure, got "
    yield "", "text: expected the JSON of a measure"
    yield None, "text: expected the JSON of a measure"
    yield b"\xff\xfe\xff", "text: expected the JSON of a measure"
    yield "[1, 2]", "text: expected format 'hmoe measure 1', got 'list'"
    yield changed(format="hmoe measure 9"), "text: expected format .* got 'hmoe measure 9'"
    yield '{"format": "hmoe measure 1", "M": []}', r"missing \['a', 'omega'\]"
    yield changed(omega=[[1.0]]), "M: expected shape"
    yield changed(a=None), "a: expected 4 axes"
    yield text.replace("[[", "[[NaN, ", 1), "omega: expected"
    yield changed(omega=[[-1.0] * 4] * 2), "omega: expected weights >= 0"
    yield changed(omega=[[math.nan] * 4] * 2), "omega: expected finite"
    yield changed(signed="false"), "signed: expected true or false, got 'false'"


@pytest.mark.parametrize(("text", "message"), list(damaged()))
def test_damaged_text(text, message):
    with pytest.raises(ValueError, match=message):
        hl.HierarchicalMeasure.from_json(text)
