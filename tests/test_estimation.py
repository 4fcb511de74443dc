"""Estimators: minima, bounds, statuses, starts; never a NaN, never a failure without a word."""

import copy
import itertools

import numpy as np
import pytest
from checks import (
    MODELS,
    PHI,
    check_armijo,
    check_close,
    check_constant_memory,
    check_history,
    check_minimum,
    check_same_function,
    check_sound,
    random_measure,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

import hmoe_lib as hl
from hmoe_lib.blocks import Samples
from hmoe_lib.estimation import STATUSES, random_start

each_model = pytest.mark.parametrize("name", MODELS)
both_fits = pytest.mark.parametrize("fit", [hl.fit_least_squares, hl.fit_gradient_descent])
DISTANCE = 0.1


def problem(name="value", seed=0, n=400, noise=0.1, extra=0, distance=DISTANCE, **size):
    """Model, data and truth of a small problem, and a start near the truth."""
    rng = np.random.default_rng(seed)
    model = MODELS[name]
    truth = random_measure(rng, **({"H": 1, "N": 2, "K": 2, "d": 2, "spread": 1.5} | size))
    X, y = model.sample(truth, n, noise, rng=rng)
    start = hl.near_truth_start(truth, truth.channels + extra, distance, rng=rng)
    return model, X, y, truth, start


def scalar(a, omega=1.0):
    """f = omega phi(a x), the smallest problem."""
    return hl.HierarchicalMeasure([[omega]], [[[[0.0]]]], [[[[a]]]])


# ---- least squares: the minimum --------------------------------------------------------------


@each_model
@pytest.mark.parametrize("newton", [False, True])
def test_an_exact_fit_is_recovered(name, newton):
    """Without noise: the function always, and for the gated models the parameters."""
    model, X, y, truth, start = problem(name, noise=0.0, n=300)
    fit = hl.fit_least_squares(model, X, y, start, newton=newton, gain=0)
    assert fit.loss < 1e-15 < fit.history[0]
    check_same_function(model, truth, fit.measure, X, 1e-6)
    check_sound(fit, start, hl.Box.around(start))
    near = fit.measure.canonical(truth)
    if name == "mha":  # omega and a are not identifiable, M is
        check_close(near.M, truth.M, 1e-4)
        assert np.abs(near.a - truth.a).max() > 1e-2
    else:
        check_close(near.to_vector(), truth.to_vector(), 1e-4)


def by_scipy(model, X, y, start, box):
    """The same problem by scipy's trust region method, with our Jacobian."""
    inside = np.clip(start.to_vector(), box.lower + 1e-9, box.upper - 1e-9)
    return optimize.least_squares(
        lambda t: model.predict(start.from_vector(t), X) - y,
        inside,
        jac=lambda t: model.jacobian(start.from_vector(t), X),
        bounds=(box.lower, box.upper),
        ftol=1e-13, xtol=1e-13, gtol=1e-13, max_nfev=400,
    )  # fmt: skip


@each_model
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("size", [{}, {"H": 2, "K": 1}, {"N": 3, "K": 1}, {"N": 1, "K": 3}])
def test_least_squares_reaches_the_loss_of_scipy(name, size, seed):
    model, X, y, truth, start = problem(name, seed, noise=0.01, **size)
    box = hl.Box.around(truth, 2.0)
    start = start.from_vector(box.clip(start.to_vector()))
    ours = hl.fit_least_squares(model, X, y, start, bounds=box, gain=0)
    theirs = by_scipy(model, X, y, start, box)
    assert ours.converged, ours.message
    assert ours.loss == pytest.approx(2 * theirs.cost / len(y), rel=1e-6)
    assert ours.loss < 1.2e-4 < ours.history[0]


@each_model
@pytest.mark.parametrize("newton", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_converged_fit_is_a_minimum(name, newton, seed):
    model, X, y, truth, start = problem(name, seed=seed)
    box = hl.Box.around(truth, 2.0)
    fit = hl.fit_least_squares(model, X, y, start, bounds=box, newton=newton, gain=0)
    assert fit.converged, fit.message
    check_minimum(model, fit.measure, X, y, box)
    check_history(fit.history)
    loss, gradient = model.loss_and_gradient(fit.measure, X, y)
    check_close(fit.loss, loss, 1e-14)
    check_close(fit.gradient, gradient, 1e-12)


@each_model
def test_what_is_no_minimum_is_found(name):
    """Negative control: the start, the truth itself, and a fit on other data."""
    model, X, y, truth, start = problem(name)
    box = hl.Box.around(truth, 2.0)
    other = model.sample(truth, len(y), rng=np.random.default_rng(99))
    elsewhere = hl.fit_least_squares(model, *other, start, bounds=box).measure
    for measure in (start, truth, elsewhere):
        with pytest.raises(AssertionError, match="not a minimum"):
            check_minimum(model, measure, X, y, box)


@pytest.mark.parametrize("newton", [False, True])
def test_converged_at_bounds_is_a_minimum_too(newton):
    """Narrow boxes, far starts: many parameters meet their bounds in one step."""
    sizes = [{}, {"N": 3, "K": 1}, {"N": 1, "K": 3}]
    ended = []
    for name, size, seed in itertools.product(MODELS, sizes, range(1, 5)):
        model, X, y, truth, start = problem(name, seed, distance=0.3 + 0.2 * newton, **size)
        box = hl.Box.around(truth, 1.5)
        start = start.from_vector(box.clip(start.to_vector()))
        fit = hl.fit_least_squares(model, X, y, start, bounds=box, newton=newton, gain=0)
        if fit.converged:
            check_minimum(model, fit.measure, X, y, box, cosine=1e-3)
        ended.append(fit.status)
    assert ended.count("hit bounds") > 10 and fit.converged


@each_model
def test_more_channels_than_the_truth(name):
    """K = 3 and K* = 2: a better loss than the truth's, by about p / n of it and no more."""
    model, X, y, truth, start = problem(name, n=2000, extra=1)
    fit = hl.fit_least_squares(model, X, y, start)
    check_sound(fit, start, hl.Box.around(start))
    loss_of_truth = np.mean((y - model.predict(truth, X)) ** 2)
    assert loss_of_truth * (1 - 3 * start.shape.size / len(y)) < fit.loss < loss_of_truth
    assert fit.measure.channels == 3


@each_model
def test_the_coarse_stage_changes_the_way_not_the_end(name):
    model, X, y, truth, start = problem(name, n=4000)
    box = hl.Box.around(truth, 2.0)
    ends = [
        hl.fit_least_squares(model, X, y, start, bounds=box, coarse=coarse, gain=0)
        for coarse in (True, False)
    ]
    assert ends[0].loss == pytest.approx(ends[1].loss, rel=1e-7)
    assert ends[0].history[0] < ends[1].history[0]  # the first begins where the coarse one ended
    for fit in ends:
        check_minimum(model, fit.measure, X, y, box)


def watched(model):
    """A copy of the model, and the sizes and precisions of the samples it is fitted to."""
    spy, seen = copy.copy(model), []

    def noting(name):
        def call(theta, shape, samples, *more):
            seen.append((len(samples), samples.dtype, theta.dtype))
            return getattr(model, name)(theta, shape, samples, *more)

        return call

    for name in ("loss_and_gradient_at", "normal_equations_at"):
        setattr(spy, name, noting(name))
    return spy, seen


CHEAP = [{"shares": True}, {"single": True}, {"shares": True, "single": True}]


@pytest.mark.parametrize("options", [*CHEAP, {"single": True, "newton": True}])
@each_model
def test_cheap_steps_change_the_way_not_the_end(name, options):
    model, X, y, truth, start = problem(name, n=4000)
    box = hl.Box.around(truth, 2.0)
    plain = hl.fit_least_squares(model, X, y, start, bounds=box, gain=0)
    spy, seen = watched(model)
    fit = hl.fit_least_squares(spy, X, y, start, bounds=box, gain=0, **options)
    assert fit.loss == pytest.approx(plain.loss, rel=1e-7)
    check_minimum(model, fit.measure, X, y, box)
    check_close(fit.loss, model.loss_and_gradient(fit.measure, X, y)[0], 1e-14)
    sizes, kinds, thetas = zip(*seen, strict=True)
    assert {np.dtype(kind) for kind in kinds} == set(thetas)
    assert (np.float32 in kinds) == ("single" in options) and kinds[-1] == np.float64
    assert min(sizes) < len(y)
    if "single" in options:  # most of the way is made in single precision
        assert fit.history[0] - fit.loss < 1e-3 * (plain.history[0] - plain.loss) + 1e-4 * fit.loss


def test_a_fit_that_ends_in_single_precision_is_no_minimum():
    """Negative control of the test above: rounding alone is seen by it."""
    model, X, y, truth, start = problem(n=4000)
    box = hl.Box.around(truth, 2.0)
    fit = hl.fit_least_squares(model, X, y, start, bounds=box, gain=0, single=True)
    rounded = start.from_vector(fit.measure.to_vector().astype(np.float32).astype(float))
    with pytest.raises(AssertionError):
        check_close(rounded.to_vector(), fit.measure.to_vector(), 1e-14)
    with pytest.raises(AssertionError, match="not a minimum"):
        coarse = fit.measure.to_vector().astype(np.float16).astype(float)
        check_minimum(model, start.from_vector(box.clip(coarse)), X, y, box)


@pytest.mark.parametrize("options", CHEAP)
def test_cheap_steps_find_an_exact_fit_and_bear_large_numbers(options):
    model, X, y, truth, start = problem(noise=0.0, n=4000)
    fit = hl.fit_least_squares(model, X, y, start, gain=0, **options)
    assert fit.loss < 1e-15
    check_close(fit.measure.canonical(truth).to_vector(), truth.to_vector(), 1e-4)
    # Squares of 1e30 overflow in single precision only: that stage ends, and the next begins.
    large = hl.fit_least_squares(model, X, 1e30 * y, start, gain=0, **options)
    assert large.loss == pytest.approx(np.mean((1e30 * y) ** 2), rel=1e-6)


def test_single_precision_stays_single():
    """Where one array is in double precision, all after it are, and nothing is gained."""
    rng = np.random.default_rng(0)
    for make, phi in itertools.product((hl.ValueGated, hl.OutputGated), ("sigmoid", "tanh")):
        model = make(phi, bias=1.0)
        for experts in (2, 3):
            measure = random_measure(rng, H=2, N=experts, K=2, d=2)
            samples = Samples(*model.sample(measure, 50, rng=rng))
            for precision, at in ((np.float32, samples.single()), (np.float64, samples)):
                parts = measure.shape.split(measure.to_vector().astype(precision))
                (block,) = at
                assert {part.dtype for part in block} == {np.dtype(precision)}
                f, J = model._jacobian(parts, block)
                assert f.dtype == J.dtype == precision
            exact = model.jacobian(measure, samples.X).T
            (block,) = samples.single()
            J = model._jacobian(measure.shape.split(measure.to_vector().astype("f4")), block)[1]
            check_close(J, exact, 1e-5)


@both_fits
def test_the_same_data_give_the_same_bits(fit):
    model, X, y, _, start = problem(n=200)
    one, two = (fit(model, X, y, start) for _ in range(2))
    assert one.measure == two.measure and one.history.tolist() == two.history.tolist()


# ---- bounds ----------------------------------------------------------------------------------


@both_fits
def test_bounds_that_exclude_the_minimum_are_hit(fit):
    """a* = 2 and a <= 1.25: the best a of the box is its edge, and the result says so."""
    model, truth = hl.ValueGated(PHI), scalar(2.0)
    X, y = model.sample(truth, 200, 0.0, rng=np.random.default_rng(0))
    box = hl.Box([-1.25, 0.9], [1.25, 1.1])
    result = fit(model, X, y, scalar(1.0), bounds=box)
    assert result.status == "hit bounds" and result.converged
    assert result.measure.a.item() == 1.25
    assert result.at_bound[0] and f"{int(result.at_bound.sum())} of 2 on a bound" in result.message
    check_sound(result, scalar(1.0), box)
    check_minimum(model, result.measure, X, y, box, cosine=1e-3)


def test_a_bound_hit_on_the_way_is_left_again():
    """A bound is no trap: from the edge of the box the fit goes to the minimum inside."""
    model, X, y, truth, _ = problem(noise=0.01, N=1)
    box = hl.Box.around(truth, 1.5)
    for edge in (box.upper, box.lower):
        theta = truth.to_vector()
        omega = truth.shape.slices["omega"]
        theta[omega] = np.maximum(edge[omega], 0.01)
        result = hl.fit_least_squares(model, X, y, truth.from_vector(theta), bounds=box, gain=0)
        assert result.status == "converged", result.message
        assert not result.at_bound.any()


@both_fits
def test_weights_stay_nonnegative_unless_signed(fit):
    """The data ask for omega = -1: the best weight >= 0 is 0, and a signed start finds -1."""
    model = hl.ValueGated(PHI)
    X = np.random.default_rng(1).uniform(-1, 1, (300, 1))
    y = -model.predict(scalar(2.0), X)
    result = fit(model, X, y, scalar(2.0, 0.5))
    assert result.measure.omega.item() == 0.0
    assert result.status == "hit bounds"
    signed = hl.HierarchicalMeasure([[0.5]], [[[[0.0]]]], [[[[2.0]]]], signed=True)
    steps = {"max_epochs": 5000} if fit is hl.fit_gradient_descent else {}
    result = fit(model, X, y, signed, bounds=hl.Box([-5.0, -5.0], [5.0, 5.0]), **steps)
    assert result.measure.omega.item() == pytest.approx(-1.0, abs=1e-2)
    assert result.measure.signed


@both_fits
def test_the_default_bounds(fit):
    """Least squares: twice the largest entry of each block. Gradient descent: omega >= 0."""
    model, X, y, _, start = problem(n=100)
    if fit is hl.fit_least_squares:
        box = hl.Box.around(start)
        outside = start.from_vector(1.7 * start.to_vector())  # a default box of its own: fine
        assert fit(model, X, y, outside, max_iterations=2).status in STATUSES
    else:
        box = hl.Box.nonnegative_weights(start)
    check_sound(fit(model, X, y, start), start, box)


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        ([0.0, 1.0], [1.0, 1.0], "upper: expected more than lower at entry 1, got 1 for lower 1"),
        ([0.0], [1.0, 1.0], r"upper: expected shape \(1,\), got \(2,\)"),
        ([np.nan], [1.0], "lower: expected a vector without NaN"),
        ([0.0], [np.nan], "upper: expected a vector without NaN"),
        (0.0, 1.0, r"lower: expected a vector without NaN, got shape \(\)"),
        ([[0.0]], [[1.0]], r"lower: expected a vector without NaN, got shape \(1, 1\)"),
        (["x"], [1.0], "lower: expected a vector of numbers, got"),
        ([np.inf], [np.inf], "upper: expected more than lower at entry 0"),
    ],
)
def test_boxes_that_are_none(lower, upper, message):
    with pytest.raises(ValueError, match=message):
        hl.Box(lower, upper)


def test_boxes():
    box = hl.Box([0.0, -np.inf], [1.0, np.inf])
    assert box.clip(np.array([-3.0, 9e9])).tolist() == [0.0, 9e9]
    theta = np.array([0.0, 0.0])
    assert box.outward(theta, np.array([-1.0, -1.0])).tolist() == [True, False]
    assert box.outward(theta, np.array([1.0, 1.0])).tolist() == [False, False]
    with pytest.raises(ValueError, match="read-only"):
        box.lower[0] = -1.0


def test_the_box_around_a_measure():
    G = hl.HierarchicalMeasure(
        [[3.0, 1.0]], [[[[-2.0]], [[0.0]]]], [[[[1.0], [-5.0]], [[4.0], [0.0]]]]
    )
    box = hl.Box.around(G, 2.0)
    assert box.upper.tolist() == [4.0, 10.0, 10.0, 10.0, 10.0, 6.0, 6.0]
    assert box.lower.tolist() == [-4.0, -10.0, -10.0, -10.0, -10.0, 0.0, 0.0]
    wide = hl.Box.around(G, 2.0, channels=3)
    assert wide.upper.tolist() == [4.0, *[10.0] * 6, 6.0, 6.0, 6.0]
    signed = hl.HierarchicalMeasure(-G.omega, G.M, G.a, signed=True)
    assert hl.Box.around(signed).lower[-2:].tolist() == [-6.0, -6.0]
    assert hl.Box.nonnegative_weights(signed).lower[-1] == -np.inf
    flat = hl.Box.around(scalar(0.0, 0.0))
    assert flat.upper.tolist() == [2.0, 2.0]  # a block of zeros counts as one of ones
    for factor in (0.9, np.inf, np.nan, "2"):
        with pytest.raises(ValueError, match="factor: expected a finite number >= 1, got"):
            hl.Box.around(G, factor)


def test_a_random_start_fills_its_share_of_the_box():
    shape = scalar(1.0, 1.0).shape._replace(channels=200)
    box = hl.Box.around(scalar(2.0, 3.0), 1.0, channels=200)
    drawn = {share: random_start(shape, share, bounds=box, rng=np.random.default_rng(0))
             for share in (1.0, 0.5)}  # fmt: skip
    for share, start in drawn.items():
        assert np.abs(start.a).max() == pytest.approx(share * np.max(box.upper[:1]), rel=0.05)
        assert 0 <= start.omega.min() < 0.05 * start.omega.max()
        assert f"{share:g} of the box" in start.note
    assert np.allclose(drawn[0.5].to_vector(), 0.5 * drawn[1.0].to_vector())
    open_box = hl.Box.nonnegative_weights(scalar(2.0, 3.0), channels=200)
    for share, bounds, message in (
        (1.5, box, "share: expected a number in"),
        (1.0, open_box, "bounds: expected finite bounds"),
        (1.0, hl.Box([0.0], [1.0]), "bounds: expected a Box of 400 entries"),
    ):
        with pytest.raises(ValueError, match=message):
            random_start(shape, share, bounds=bounds, rng=np.random.default_rng(0))


@both_fits
def test_a_start_outside_its_bounds(fit):
    model, X, y, _, start = problem(n=100)
    box = hl.Box.around(start, 1.0)
    outside = start.from_vector(1.5 * start.to_vector())
    with pytest.raises(
        ValueError, match=r"start: (M|a) entry \d+ is .*, expected within bounds \["
    ):
        fit(model, X, y, outside, bounds=box)
    with pytest.raises(ValueError, match=rf"bounds: expected {start.shape.size} entries, got 2"):
        fit(model, X, y, start, bounds=hl.Box([0, 0], [1, 1]))
    with pytest.raises(ValueError, match="bounds: expected a Box or None, got tuple"):
        fit(model, X, y, start, bounds=(0, 1))


# ---- statuses --------------------------------------------------------------------------------


@each_model
def test_out_of_steps(name):
    model, X, y, _, start = problem(name)
    one = hl.fit_least_squares(model, X, y, start, max_iterations=1)
    assert (one.status, one.converged, one.iterations) == ("out of steps", False, 1)
    check_sound(one, start, hl.Box.around(start))
    few = hl.fit_gradient_descent(model, X, y, start, max_epochs=3)
    assert (few.status, few.converged, few.iterations) == ("out of steps", False, 3)
    check_sound(few, start, hl.Box.nonnegative_weights(start))


@both_fits
@pytest.mark.parametrize("Model", [hl.ValueGated, hl.OutputGated])
def test_a_start_where_the_loss_overflows(fit, Model):
    """exp(1000 x) is beyond float64: the status says so, and the start comes back."""
    X = np.random.default_rng(2).uniform(0.5, 1, (50, 1))
    start = scalar(1000.0)
    result = fit(Model("exp"), X, X[:, 0], start)
    assert result.status == "diverged" and not result.converged
    assert result.message.startswith("diverged: the loss at the start, or a derivative")
    assert result.measure == start and result.loss == np.inf and result.iterations == 0
    check_sound(result, start, hl.Box.around(start))


@both_fits
def test_a_start_where_only_a_derivative_overflows(fit):
    start = scalar(720.0, 1e-310)
    X = np.ones((50, 1))
    result = fit(hl.ValueGated("exp"), X, X[:, 0], start)
    assert result.status == "diverged"
    check_sound(result, start, hl.Box.around(start))


@both_fits
def test_the_message_is_a_sentence_with_the_start(fit):
    model, X, y, truth, start = problem(n=100)
    result = fit(model, X, y, start)
    assert result.message.endswith(f"; started at the truth, perturbed by {DISTANCE}).")
    assert f"({result.iterations} steps, loss {result.loss:.6g}" in result.message
    plain = fit(model, X, y, truth)
    assert plain.message.endswith("; started from the given measure).")


class Uphill(hl.ValueGated):
    """Negative control: derivatives of the wrong sign."""

    def loss_and_gradient_at(self, *args):
        loss, gradient = super().loss_and_gradient_at(*args)
        return loss, -gradient

    def normal_equations_at(self, *args):
        here = super().normal_equations_at(*args)
        return here._replace(gradient=-here.gradient)


class Overflowing(hl.ValueGated):
    """A loss that stays finite and a gradient that is not, from the second point on."""

    seen = 0

    def loss_and_gradient_at(self, *args):
        self.seen += 1
        loss, gradient = super().loss_and_gradient_at(*args)
        return (loss, gradient) if self.seen == 1 else (np.inf, gradient * np.nan)


def test_descent_into_an_overflow_returns_the_last_sound_point():
    _, X, y, _, start = problem(n=100)
    result = hl.fit_gradient_descent(Overflowing(PHI), X, y, start)
    assert result.status == "stalled" and result.measure == start
    check_sound(result, start, hl.Box.nonnegative_weights(start))


def test_descent_along_a_wrong_gradient_stalls():
    _, X, y, _, start = problem(n=100)
    result = hl.fit_gradient_descent(Uphill(PHI), X, y, start)
    assert result.status == "stalled" and not result.converged
    assert result.measure.to_vector().tolist() == start.to_vector().tolist()
    check_sound(result, start, hl.Box.nonnegative_weights(start))


def test_least_squares_with_a_wrong_gradient_does_not_converge():
    _, X, y, _, start = problem(n=100)
    result = hl.fit_least_squares(Uphill(PHI), X, y, start)
    assert result.status == "stalled" and not result.converged
    assert result.measure == start
    check_sound(result, start, hl.Box.around(start))


# ---- gradient descent ------------------------------------------------------------------------


@each_model
@pytest.mark.parametrize("step", [0.05, 5.0, 500.0])
def test_every_step_is_the_first_that_satisfies_armijo(name, step):
    model, X, y, _, start = problem(name, n=150)
    box = hl.Box.around(start, 1.2)
    halvings, after = [], start
    for epochs in range(1, 5):
        before = after
        after = hl.fit_gradient_descent(
            model, X, y, start, step=step, max_epochs=epochs, bounds=box
        ).measure
        halvings.append(check_armijo(model, X, y, before, after, step, box))
    assert step == 0.05 or max(halvings) > 0


def test_other_steps_are_found():
    """Negative control: one halving more, one less, the bounds forgotten, the wrong sign."""
    model, X, y, _, start = problem(n=150)
    box, step = hl.Box.around(start, 1.01), 20.0
    right = hl.fit_gradient_descent(model, X, y, start, step=step, max_epochs=1, bounds=box)
    halving = check_armijo(model, X, y, start, right.measure, step, box)
    theta, gradient = start.to_vector(), model.loss_and_gradient(start, X, y)[1]
    assert halving > 0
    for factor in (0.5, 2.0, -1.0):
        wrong = box.clip(theta - factor * step * 0.5**halving * gradient)
        with pytest.raises(AssertionError, match="the step accepted"):
            check_armijo(model, X, y, start, start.from_vector(wrong), step, box)


@pytest.mark.parametrize(("step", "halvings"), [(1 - 2e-4, 0), (1 - 5e-5, 1), (1.5, 1), (2.1, 2)])
def test_a_mere_decrease_is_not_enough_by_hand(step, halvings):
    """f = a at x = 1 and y = 0: L = a^2, and a step eta leads to a (1 - 2 eta).

    L falls by 4 a^2 eta (1 - eta) and must fall by 1e-4 * 4 a^2 eta: accepted iff
    eta <= 1 - 1e-4. A step of 1 - 5e-5 lowers the loss, yet too little.
    """
    start = hl.HierarchicalMeasure([[1.0]], [[[[0.0]]]], [[[[2.0]]]])
    box = hl.Box([-9.0, 1 - 1e-13], [9.0, 1 + 1e-13])
    X, y = np.ones((10, 1)), np.zeros(10)
    fit = hl.fit_gradient_descent(hl.Mha(), X, y, start, step=step, max_epochs=1, bounds=box)
    eta = step / 2**halvings
    assert fit.measure.a.item() == pytest.approx(2.0 * (1 - 2 * eta), abs=1e-9)


@each_model
def test_descent_never_increases_the_loss(name):
    model, X, y, _, start = problem(name, n=200)
    result = hl.fit_gradient_descent(model, X, y, start, step=2.0, max_epochs=200)
    assert result.iterations > 20
    check_sound(result, start, hl.Box.nonnegative_weights(start))
    check_close(result.loss, model.loss_and_gradient(result.measure, X, y)[0], 1e-14)
    assert result.loss < 0.95 * result.history[0]


def test_an_increasing_history_is_found():
    """Negative control: a single step up, however small, and a NaN."""
    check_history([3.0, 2.0, 2.0, 1.0])
    for history in ([3.0, 2.0, 2.0 + 1e-15, 1.0], [3.0, np.nan], [np.inf, 1.0]):
        with pytest.raises(AssertionError, match="history"):
            check_history(history)


def test_descent_converges_on_an_easy_problem():
    """Plain attention, one expert, weight fixed by its bounds: linear regression."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (300, 2))
    y = X @ [1.0, -2.0] + 0.1 * rng.standard_normal(300)
    start = hl.HierarchicalMeasure([[1.0]], np.zeros((1, 1, 2, 2)), [[[[0.5, 0.5]]]])
    box = hl.Box([-5.0, -5.0, 1 - 1e-12], [5.0, 5.0, 1 + 1e-12])
    result = hl.fit_gradient_descent(hl.Mha(), X, y, start, step=0.5, bounds=box)
    assert result.converged and 3 < result.iterations < 200
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    check_close(result.measure.a.ravel(), best, 1e-4)


def test_descent_at_the_paper_s_step_stays_near_the_start():
    """Why two optimisers are shown: 1000 epochs at 0.05 do not reach the estimator."""
    model, X, y, truth, start = problem(n=400)
    slow = hl.fit_gradient_descent(model, X, y, start)
    best = hl.fit_least_squares(model, X, y, start, bounds=hl.Box.around(truth, 2.0))
    assert (slow.status, slow.iterations) == ("out of steps", 1000)
    assert best.converged and best.iterations < 100
    assert slow.loss > 1.001 * best.loss


# ---- starts ----------------------------------------------------------------------------------


def check_covering_start(start, truth):
    """Each true channel at least once, and its weight shared equally by its copies."""
    for h in range(truth.heads):
        true = [truth.a[h, :, k].tolist() for k in range(truth.channels)]
        origin = [true.index(start.a[h, :, k].tolist()) for k in range(start.channels)]
        copies = np.bincount(origin, minlength=truth.channels)
        assert copies.min() >= 1, f"a true channel of head {h} is missing"
        shares = truth.omega[h, origin] / copies[origin]
        check_close(start.omega[h], shares, 1e-15, f"weights of head {h}")


@each_model
@given(st.integers(0, 2**32 - 1), st.integers(0, 4))
@settings(max_examples=15, deadline=None)
def test_a_start_at_distance_zero_is_the_truth_s_function(name, seed, extra):
    rng = np.random.default_rng(seed)
    truth = random_measure(rng, H=2, N=3, K=2)
    start = hl.near_truth_start(truth, 2 + extra, 0.0, rng=rng)
    check_covering_start(start, truth)
    assert np.array_equal(start.M, truth.M)
    X = rng.uniform(-1, 1, (20, 2))
    check_same_function(MODELS[name], truth, start, X, 1e-14)
    if not extra:
        assert start == truth


def test_starts_that_do_not_share_or_cover_are_found():
    """Negative control: full weights for copies, all copies of one channel."""
    truth = random_measure(np.random.default_rng(5), H=2, N=3, K=2)
    X = np.random.default_rng(6).uniform(-1, 1, (20, 2))
    for origin, omega in [
        ([0, 1, 1], truth.omega[:, [0, 1, 1]]),
        ([1, 1, 1], truth.omega[:, [1, 1, 1]] / 3),
        ([0, 1, 1], truth.omega[:, [0, 1, 1]] * [1.0, 0.25, 0.75]),
    ]:
        wrong = hl.HierarchicalMeasure(omega, truth.M, truth.a[:, :, origin])
        with pytest.raises(AssertionError):
            check_covering_start(wrong, truth)
    with pytest.raises(AssertionError, match="functions"):
        wrong = hl.HierarchicalMeasure(truth.omega[:, [0, 1, 1]], truth.M, truth.a[:, :, [0, 1, 1]])
        check_same_function(MODELS["value"], truth, wrong, X, 1e-14)


def test_extra_channels_are_dealt_at_random_head_by_head():
    """60 draws of two extra channels in each of two heads: every true channel gets its share."""
    truth = random_measure(np.random.default_rng(7), H=2, N=1, K=3, d=1)
    rng = np.random.default_rng(8)
    first = [truth.a[0, 0, :, 0].tolist(), truth.a[1, 0, :, 0].tolist()]
    counts, together = np.zeros((2, 3)), 0
    for _ in range(60):
        a = hl.near_truth_start(truth, 5, 0.0, rng=rng).a[:, 0, 3:, 0]
        index = [[first[h].index(value) for value in a[h]] for h in range(2)]
        together += index[0] == index[1]
        for h in range(2):
            counts[h] += np.bincount(index[h], minlength=3)
    assert (counts.sum(1) == 120).all() and counts.min() > 20 and together < 20


def test_the_size_of_the_perturbation():
    """Standard deviation e in M and a, 0.1 e in omega, no shift; omega is far from zero here."""
    rng = np.random.default_rng(9)
    G = random_measure(rng, H=4, N=4, K=8, d=3)
    truth = hl.HierarchicalMeasure(G.omega + 5.0, G.M, G.a)
    exact = truth.to_vector()
    draws = [hl.near_truth_start(truth, 8, 0.3, rng=rng).to_vector() - exact for _ in range(40)]
    for block, deviation in [("M", 0.3), ("a", 0.3), ("omega", 0.03)]:
        z = np.array(draws)[:, truth.shape.slices[block]].ravel() / deviation
        assert abs(z.mean()) < 5 / np.sqrt(z.size), block
        assert abs((z**2).mean() - 1) < 5 * np.sqrt(2 / z.size), block
        assert abs((z**4).mean() - 3) < 5 * np.sqrt(96 / z.size), block


def test_weights_of_a_start_are_not_negative_unless_signed():
    rng = np.random.default_rng(10)
    truth = random_measure(rng, H=3, K=4)
    assert hl.near_truth_start(truth, 6, 50.0, rng=rng).omega.min() == 0.0
    signed = random_measure(rng, H=3, K=4, signed=True)
    start = hl.near_truth_start(signed, 6, 50.0, rng=rng)
    assert start.signed and start.omega.min() < 0


def test_starts_follow_their_seed():
    truth = random_measure(np.random.default_rng(11))
    one, same, other = (
        hl.near_truth_start(truth, 5, 0.1, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert one == same and one != other
    assert one.note == "started at the truth, perturbed by 0.1"


def test_a_start_is_clipped_to_its_bounds():
    truth = random_measure(np.random.default_rng(12))
    box = hl.Box.around(truth, 1.05, channels=5)
    start = hl.near_truth_start(truth, 5, 2.0, rng=np.random.default_rng(1), bounds=box)
    theta = start.to_vector()
    assert np.array_equal(box.clip(theta), theta) and (theta == box.upper).any()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"channels": 2}, "channels: expected an integer >= 3, got 2"),
        ({"channels": 3.5}, "channels: expected an integer >= 3, got 3.5"),
        ({"channels": None}, "channels: expected an integer >= 3, got None"),
        ({"distance": -0.1}, "distance: expected a finite number >= 0, got -0.1"),
        ({"distance": np.nan}, "distance: expected a finite number >= 0, got nan"),
        ({"distance": "x"}, "distance: expected a finite number >= 0, got 'x'"),
        ({"rng": 1}, "rng: expected a numpy Generator, got int"),
        ({"G_star": None}, "G_star: expected a HierarchicalMeasure, got NoneType"),
        ({"bounds": hl.Box([0], [1])}, r"bounds: expected a Box of \d+ entries or None, got Box"),
        ({"bounds": 3.0}, r"bounds: expected a Box of \d+ entries or None, got 3.0"),
    ],
)
def test_starts_refuse(changed, message):
    arguments = {
        "G_star": random_measure(np.random.default_rng(0)),
        "channels": 4,
        "distance": 0.1,
        "rng": np.random.default_rng(0),
    }
    with pytest.raises(ValueError, match=message):
        hl.near_truth_start(**(arguments | changed))


# ---- bad input -------------------------------------------------------------------------------


@both_fits
def test_data_and_options_that_are_refused(fit):
    model, X, y, _, start = problem(n=50)
    nan_X, nan_y = X.copy(), y.copy()
    nan_X[3, 0], nan_y[3] = np.nan, np.inf
    p = start.shape.size
    for data, message in [
        (
            (X[: p - 1], y[: p - 1]),
            f"X: expected at least {p} samples, one a parameter, got {p - 1}",
        ),
        ((nan_X, y), "X: expected finite numbers, got NaN or infinity"),
        ((X, nan_y), "y: expected finite numbers, got NaN or infinity"),
        ((X, y[:, None]), r"y: expected shape \(n,\), not empty, got \(50, 1\)"),
        ((X, y[None]), r"y: expected shape \(n,\), not empty, got \(1, 50\)"),
        ((X, y[1:]), r"y: expected shape \(50,\) to match X, got \(49,\)"),
        ((X.T, y), r"y: expected shape \(2,\) to match X"),
        ((X[:, :1], y), r"X: expected shape \(n, 2\), got \(50, 1\)"),
        ((X[:, 0], y), r"X: expected shape \(n, d\)"),
        ((X[:0], y[:0]), "X: expected .*not empty"),
    ]:
        with pytest.raises(ValueError, match=message):
            fit(model, *data, start)
    for wrong in (None, start.to_vector(), "start"):
        with pytest.raises(ValueError, match="start: expected a HierarchicalMeasure, got"):
            fit(model, X, y, wrong)
        with pytest.raises(ValueError, match="start: expected a HierarchicalMeasure, got"):
            fit(model, X, y, wrong, bounds=hl.Box.around(start))
    for wrong in (0.0, -1.0, np.nan, np.inf, "x"):
        with pytest.raises(ValueError, match="tolerance: expected a finite number > 0, got"):
            fit(model, X, y, start, tolerance=wrong)
    option = "max_epochs" if fit is hl.fit_gradient_descent else "max_iterations"
    for wrong in (0, -1, 1.5, np.nan, None):
        with pytest.raises(ValueError, match="number of steps: expected an integer >= 1, got"):
            fit(model, X, y, start, **{option: wrong})


@pytest.mark.parametrize("step", [0.0, -0.1, np.nan, np.inf, None])
def test_steps_that_are_refused(step):
    model, X, y, _, start = problem(n=50)
    with pytest.raises(ValueError, match="step: expected a finite number > 0, got"):
        hl.fit_gradient_descent(model, X, y, start, step=step)


def test_as_many_samples_as_parameters_are_enough():
    model, X, y, _, start = problem(n=20)
    p = start.shape.size
    for fit in (hl.fit_least_squares, hl.fit_gradient_descent):
        result = fit(model, X[:p], y[:p], start)
        assert result.status in STATUSES and np.isfinite(result.loss)


# ---- memory, and every problem there is ------------------------------------------------------


@pytest.mark.parametrize("name", ["mha", "value"])
@both_fits
def test_the_memory_of_a_fit_does_not_grow_with_the_sample(name, fit):
    model, _, _, _, start = problem(name)
    steps = {"max_epochs": 1} if fit is hl.fit_gradient_descent else {"max_iterations": 1}

    def make(n):
        rng = np.random.default_rng(13)
        return rng.uniform(-1, 1, (n, 2)), rng.standard_normal(n)

    check_constant_memory(lambda data: fit(model, *data, start, **steps), make)


ACTIVATIONS = ("sigmoid", "tanh", "gelu", "relu", "exp", "sin", "power3", "softplus")


@both_fits
def test_a_hundred_random_problems_end_with_a_word_and_without_nan(fit):
    """Starts from tiny to huge, data that no model made, one sample a parameter or a few."""
    seen = set()
    for seed in range(100):
        rng = np.random.default_rng(seed)
        phi = hl.activation(ACTIVATIONS[seed % len(ACTIVATIONS)], bias=rng.normal())
        model = (hl.Mha(), hl.ValueGated(phi), hl.OutputGated(phi))[seed % 3]
        size = {letter: int(rng.integers(1, 4)) for letter in "HNKd"}
        start = random_measure(rng, **size, spread=10 ** rng.uniform(-3, 3))
        n = start.shape.size + int(rng.integers(0, 30))
        X = rng.uniform(-1, 1, (n, start.dim))
        y = 10 ** rng.uniform(-3, 3) * rng.standard_normal(n)
        if seed % 7 == 0:
            X, y = np.ones_like(X), np.zeros_like(y)
        box = hl.Box.around(start)
        option = "max_epochs" if fit is hl.fit_gradient_descent else "max_iterations"
        result = fit(model, X, y, start, bounds=box, **{option: 15})
        check_sound(result, start, box)
        seen.add(result.status)
    assert {"converged", "out of steps", "hit bounds", "diverged"} <= seen


@pytest.mark.parametrize("gain", [-0.1, np.nan, np.inf])
def test_least_squares_names_a_wrong_gain(gain):
    _, X, y, _, start = problem(n=100)
    with pytest.raises(ValueError, match="gain: expected a finite number >= 0"):
        hl.fit_least_squares(hl.ValueGated(PHI), X, y, start, gain=gain)
