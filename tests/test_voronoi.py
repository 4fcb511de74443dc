"""Voronoi cells and losses: loops, numbers worked out by hand, ties, relabellings, twins."""

import numpy as np
import pytest
from checks import (
    MODELS,
    SEEDS,
    check_cells,
    check_close,
    inner,
    random_measure,
    relabelling,
    sizes,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import hmoe_lib as hl
from hmoe_lib import reference
from hmoe_lib.voronoi import function_distances

each_model = pytest.mark.parametrize("name", MODELS)
MHA = hl.Mha()


def pair(size, seed, extra):
    """A truth, a fit with more channels near it, and points."""
    rng = np.random.default_rng(seed)
    H, N, K, d = (size[letter] for letter in "HNKd")
    truth = random_measure(rng, H, N, K, d)
    fit = random_measure(rng, H, N, K + extra, d)
    return fit, truth, rng.uniform(-1, 1, (6, d))


def scalars(omega, a, M=None):
    """A measure with d = 1: omega (H, K), a (H, N, K), M (H, N)."""
    a = np.asarray(a, dtype=float)[..., None]
    M = np.zeros(a.shape[:2]) if M is None else np.asarray(M, dtype=float)
    return hl.HierarchicalMeasure(omega, M[..., None, None], a)


# ---- against loops ---------------------------------------------------------------------------


@each_model
@given(sizes(H=2, N=3, K=3), SEEDS, st.integers(0, 2))
@settings(max_examples=15, deadline=None)
def test_cells_and_losses_equal_plain_loops(name, size, seed, extra):
    fit, truth, X = pair(size, seed, extra)
    model, phi = MODELS[name], inner(MODELS[name])
    check_cells(hl.voronoi_cells(model, fit, truth, X), model, fit, truth, X)
    for r in (1, 2, 3.5):
        expected = reference.voronoi_loss_r(fit, truth, X, r, phi)
        check_close(hl.voronoi_loss_r(model, fit, truth, X, r), expected, 1e-11)
    expected = reference.voronoi_loss(fit, truth, X, phi)
    check_close(hl.voronoi_loss(model, fit, truth, X), expected, 1e-11)


@each_model
@given(sizes(H=2, N=3, K=2), SEEDS)
@settings(max_examples=10, deadline=None)
def test_distances_are_mean_squares_of_differences(name, size, seed):
    fit, truth, X = pair(size, seed, 1)
    model = MODELS[name]
    got = function_distances(model, fit, truth, X)
    f, f_star = model.components(fit, X), model.components(truth, X)
    for h1, k1, h, k in np.ndindex(got.shape):
        expected = np.mean((f[:, h1, k1] - f_star[:, h, k]) ** 2)
        check_close(got[h1, k1, h, k], expected, 1e-12)


def test_swapped_and_misread_cells_are_found():
    """Negative control: two cells exchanged, (k, h) for (h, k), the farthest for the nearest."""
    fit, truth, X = pair({"H": 2, "N": 2, "K": 3, "d": 2}, seed=1, extra=1)
    model = MODELS["value"]
    cells = hl.voronoi_cells(model, fit, truth, X)
    check_cells(cells, model, fit, truth, X)
    one, other = (0, 0), tuple(np.argwhere((cells != cells[0, 0]).any(-1))[0])
    swapped = cells.copy()
    swapped[one], swapped[other] = cells[other], cells[one]
    distance = function_distances(model, fit, truth, X).reshape(2, 4, 6)
    farthest = np.stack(np.divmod(distance.argmax(-1), 3), axis=-1)
    for wrong in (swapped, cells[..., ::-1], farthest):
        with pytest.raises(AssertionError, match="cell of fitted channel"):
            check_cells(wrong, model, fit, truth, X)


def test_cells_of_another_channel_function_are_found():
    """Negative control: Setting I compares gated channels; plain ones give other cells."""
    fit, truth, X = pair({"H": 2, "N": 3, "K": 3, "d": 2}, seed=4, extra=2)
    model = hl.ValueGated("power2")
    check_cells(hl.voronoi_cells(model, fit, truth, X), model, fit, truth, X)
    with pytest.raises(AssertionError, match="cell of fitted channel"):
        check_cells(hl.voronoi_cells(MHA, fit, truth, X), model, fit, truth, X)


# ---- by hand ---------------------------------------------------------------------------------

# With N = 1 and d = 1 a channel function is a x, and at x = 1, -1 the squared distance of two of
# them is (a - a')^2: a fitted channel belongs to the nearest a*.
X1 = [[1.0], [-1.0]]
TRUTH = scalars([[1.0, 2.0]], [[[1.0, 3.0]]])
FIT = scalars([[0.6, 0.5, 1.5]], [[[1.1, 0.8, 3.5]]])


def test_losses_of_three_channels_for_two_by_hand():
    """Cells {1.1, 0.8} of a* = 1 and {3.5} of a* = 3.

    Weights: |0.6 + 0.5 - 1| + |1.5 - 2| = 0.1 + 0.5 = 0.6.
    L_{1,1} = 0.6 + 0.6 * 0.1 + 0.5 * 0.2 + 1.5 * 0.5 = 0.6 + 0.06 + 0.1 + 0.75 = 1.51.
    L_{1,2} = 0.6 + 0.6 * 0.01 + 0.5 * 0.04 + 1.5 * 0.25 = 0.6 + 0.006 + 0.02 + 0.375 = 1.001.
    L_2: power 2 in the cell with two, power 1 in the cell with one:
    0.6 + 0.006 + 0.02 + 0.75 = 1.376.
    """
    assert hl.voronoi_cells(MHA, FIT, TRUTH, X1).tolist() == [[[0, 0], [0, 0], [0, 1]]]
    assert hl.voronoi_loss_r(MHA, FIT, TRUTH, X1) == pytest.approx(1.51, abs=1e-14)
    assert hl.voronoi_loss_r(MHA, FIT, TRUTH, X1, r=2) == pytest.approx(1.001, abs=1e-14)
    assert hl.voronoi_loss(MHA, FIT, TRUTH, X1) == pytest.approx(1.376, abs=1e-14)


def test_power_one_alone_and_power_two_in_company():
    """One channel at 1 + e: loss e. Two at 1 + e and 1 - e, weights 1/2: loss e^2."""
    for e in (0.5, 0.25, 0.125):
        alone = scalars([[1.0, 2.0]], [[[1.0 + e, 3.0]]])
        company = scalars([[0.5, 0.5, 2.0]], [[[1.0 + e, 1.0 - e, 3.0]]])
        assert hl.voronoi_loss(MHA, alone, TRUTH, X1) == e
        assert hl.voronoi_loss(MHA, company, TRUTH, X1) == e**2
        assert hl.voronoi_loss_r(MHA, company, TRUTH, X1) == e


def test_matrices_enter_with_their_frobenius_norm_once_a_channel():
    """d = 2, N = 2: dM = [[0, 1], [1, 0]] has norm sqrt(2); its upper triangle would give 1.

    Two channels in cells of their own, weights 1 and 3, vectors exact:
    L_2 = (1 + 3) sqrt(2); L_{1,2} = (1 + 3) * 2.
    """
    a = np.zeros((1, 2, 2, 2))
    a[0, :, 0], a[0, :, 1] = [8.0, 0.0], [0.0, 8.0]
    M = np.zeros((1, 2, 2, 2))
    truth = hl.HierarchicalMeasure([[1.0, 3.0]], M, a)
    M[0, 0] = [[0.0, 1.0], [1.0, 0.0]]
    fit = hl.HierarchicalMeasure([[1.0, 3.0]], M, a)
    X = [[1.0, 0.5], [-0.5, 1.0], [0.3, -0.9]]
    assert hl.voronoi_loss(MHA, fit, truth, X) == pytest.approx(4 * np.sqrt(2), rel=1e-15)
    assert hl.voronoi_loss_r(MHA, fit, truth, X, r=2) == pytest.approx(8.0, rel=1e-15)


def test_experts_are_summed_and_matched_by_their_index():
    """N = 2, M = 0: f = (a_1 + a_2) x / 2. Fit a = (1.5, 5), truth a = (1, 3), weight 2:
    L_{1,1} = 2 (0.5 + 2) = 5, L_{1,3} = 2 (0.125 + 8) = 16.25; index i meets index i."""
    truth, fit = scalars([[2.0]], [[[1.0], [3.0]]]), scalars([[2.0]], [[[1.5], [5.0]]])
    assert hl.voronoi_loss_r(MHA, fit, truth, X1) == 5.0
    assert hl.voronoi_loss_r(MHA, fit, truth, X1, r=3) == 16.25


def test_heads_may_cross():
    """The fitted head 0 has the functions of the true head 1: only then is the loss zero."""
    truth = scalars([[1.0], [2.0]], [[[1.0]], [[3.0]]])
    fit = scalars([[2.0], [1.0]], [[[3.0]], [[1.0]]])
    assert hl.voronoi_cells(MHA, fit, truth, X1).tolist() == [[[1, 0]], [[0, 0]]]
    assert hl.voronoi_loss(MHA, fit, truth, X1) == 0.0


def test_an_empty_cell_costs_its_weight():
    """Both channels at 1: the cell of a* = 3 is empty and costs |0 - 2|; the other |3 - 1|."""
    fit = scalars([[2.0, 1.0]], [[[1.0, 1.0]]])
    assert hl.voronoi_cells(MHA, fit, TRUTH, X1).tolist() == [[[0, 0], [0, 0]]]
    assert hl.voronoi_loss(MHA, fit, TRUTH, X1) == 4.0
    assert hl.voronoi_loss_r(MHA, fit, TRUTH, X1) == 4.0


def test_a_channel_without_weight_is_free():
    """omega = 0: the loss does not see where the channel is, only that it is in a cell."""
    at = [scalars([[1.0, 2.0, 0.0]], [[[1.0, 3.0, far]]]) for far in (1.5, 100.0)]
    assert [hl.voronoi_loss(MHA, fit, TRUTH, X1) for fit in at] == [0.0, 0.0]


def test_settings_compare_different_functions():
    """At x = 1, phi = z^2: a = -1 is the function of a* = 1 in Setting I; inside phi in
    Setting II, and in plain attention, it is the opposite one, nearer to a* = 0."""
    truth = scalars([[1.0, 1.0]], [[[0.0, 1.0]]])
    fit = scalars([[1.0, 1.0]], [[[0.0, -1.0]]])
    cells = {
        name: hl.voronoi_cells(model, fit, truth, X1)[0, 1].tolist()
        for name, model in [
            ("value", hl.ValueGated("power2")),
            ("output", hl.OutputGated("power2")),
            ("mha", MHA),
        ]
    }
    assert cells == {"value": [0, 1], "output": [0, 0], "mha": [0, 0]}


# ---- ties ------------------------------------------------------------------------------------


def test_ties_go_to_the_lowest_index():
    """a = 2 is as near to 1 as to 3, in floating point too: channel 0, and head 0."""
    fit = scalars([[1.0, 1.0]], [[[2.0, 3.0]]])
    assert hl.voronoi_cells(MHA, fit, TRUTH, X1).tolist() == [[[0, 0], [0, 1]]]
    swapped = scalars([[1.0, 2.0]], [[[3.0, 1.0]]])
    assert hl.voronoi_cells(MHA, fit, swapped, X1).tolist() == [[[0, 0], [0, 0]]]
    heads = scalars([[1.0], [1.0]], [[[3.0]], [[1.0]]])
    fit = scalars([[1.0], [1.0]], [[[2.0]], [[2.0]]])
    assert hl.voronoi_cells(MHA, fit, heads, X1).tolist() == [[[0, 0]], [[0, 0]]]


def test_points_where_all_functions_agree_are_one_tie():
    """At x = 0 every linear channel is 0: everything falls into the first cell."""
    assert not hl.voronoi_cells(MHA, FIT, TRUTH, [[0.0]]).any()


# ---- exact zero, invariance ------------------------------------------------------------------


@each_model
@given(sizes(H=3, N=3, K=3), SEEDS)
@settings(max_examples=25, deadline=None)
def test_the_truth_in_any_order_has_loss_exactly_zero(name, size, seed):
    """Zero, not nearly: no distance is computed as a difference of squares."""
    rng = np.random.default_rng(seed)
    truth = random_measure(rng, *(size[letter] for letter in "HNKd"))
    order = relabelling(rng, truth) | {"experts": None}
    X = rng.uniform(-1, 1, (30, truth.dim))
    for fit in (truth, truth.permuted(**order)):
        assert hl.voronoi_loss(MODELS[name], fit, truth, X) == 0.0
        assert hl.voronoi_loss_r(MODELS[name], fit, truth, X) == 0.0


@each_model
@given(sizes(H=3, N=3, K=3), SEEDS, st.integers(0, 2))
@settings(max_examples=15, deadline=None)
def test_losses_do_not_depend_on_labels_or_the_order_of_points(name, size, seed, extra):
    fit, truth, X = pair(size, seed, extra)
    rng = np.random.default_rng(seed)
    others = [
        (fit.permuted(**(relabelling(rng, fit) | {"experts": None})), truth, X),
        (fit, truth.permuted(**(relabelling(rng, truth) | {"experts": None})), X),
        (fit, truth, rng.permutation(X)),
    ]
    for loss in (hl.voronoi_loss, hl.voronoi_loss_r):
        expected = loss(MODELS[name], fit, truth, X)
        for data in others:
            check_close(loss(MODELS[name], *data), expected, 1e-12)


@given(sizes(H=2, N=3, K=3), SEEDS)
@settings(max_examples=15, deadline=None)
def test_cells_are_relabelled_with_the_truth(size, seed):
    fit, truth, X = pair(size, seed, 1)
    rng = np.random.default_rng(seed)
    heads = rng.permutation(size["H"])
    before = hl.voronoi_cells(MHA, fit, truth, X)
    after = hl.voronoi_cells(MHA, fit, truth.permuted(heads=heads), X)
    assert np.array_equal(heads[after[..., 0]], before[..., 0])
    assert np.array_equal(after[..., 1], before[..., 1])


# ---- twins -----------------------------------------------------------------------------------


@each_model
@pytest.mark.parametrize("N", [2, 3])
def test_a_twin_has_positive_loss_as_written_and_none_modulo_twins(name, N):
    rng = np.random.default_rng(7)
    truth = random_measure(rng, H=2, N=N, K=2)
    X = rng.uniform(-1, 1, (40, 2))
    model = MODELS[name]
    for twin in list(truth.twins())[1:]:
        check_close(model.predict(twin, X), model.predict(truth, X), 1e-12)
        for loss in (hl.voronoi_loss, hl.voronoi_loss_r):
            assert loss(model, twin, truth, X) > 0.1
            assert loss(model, twin, truth, X, modulo_twins=True) < 1e-12


@given(sizes(H=2, N=3, K=2), SEEDS, st.integers(0, 1))
@settings(max_examples=15, deadline=None)
def test_modulo_twins_is_the_smallest_loss_over_all_of_them(size, seed, extra):
    fit, truth, X = pair(size, seed, extra)
    for loss in (hl.voronoi_loss, hl.voronoi_loss_r):
        every = [loss(MHA, twin, truth, X) for twin in fit.twins()]
        least = loss(MHA, fit, truth, X, modulo_twins=True)
        check_close(least, min(every), 1e-11)
        assert least <= loss(MHA, fit, truth, X)


# ---- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize("r", [0.999, 0, -1, np.nan, np.inf, "2", None])
def test_powers_below_one_are_refused(r):
    with pytest.raises(ValueError, match="r: expected a finite power >= 1, got"):
        hl.voronoi_loss_r(MHA, FIT, TRUTH, X1, r=r)


@pytest.mark.parametrize("function", [hl.voronoi_cells, hl.voronoi_loss, hl.voronoi_loss_r])
def test_measures_that_do_not_fit_are_refused(function):
    rng = np.random.default_rng(8)
    truth = random_measure(rng, 2, 3, 3, 2)
    X = np.ones((4, 2))
    for name, size in [("heads", (1, 3, 3, 2)), ("experts", (2, 2, 3, 2)), ("dim", (2, 3, 3, 1))]:
        fit = random_measure(rng, *size)
        with pytest.raises(ValueError, match=f"G: expected {name} = [23] as in G_star, got [12]"):
            function(MHA, fit, truth, X)
    few = random_measure(rng, 2, 3, 2, 2)
    with pytest.raises(ValueError, match="G: expected at least 3 channels as in G_star, got 2"):
        function(MHA, few, truth, X)
    with pytest.raises(ValueError, match="G: expected a HierarchicalMeasure, got ndarray"):
        function(MHA, truth.to_vector(), truth, X)
    with pytest.raises(ValueError, match="G_star: expected a HierarchicalMeasure, got NoneType"):
        function(MHA, truth, None, X)
    with pytest.raises(ValueError, match=r"X: expected shape \(n, 2\) for this measure"):
        function(MHA, truth, truth, np.ones((4, 3)))
    with pytest.raises(ValueError, match="X: expected finite"):
        function(MHA, truth, truth, X * np.nan)
