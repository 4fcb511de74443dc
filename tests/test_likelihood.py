"""Maximum likelihood: two estimators, one maximum; monotone histories, named endings, starts."""

import numpy as np
import pytest
from scipy import optimize

from hmoe_lib.densities import ContaminatedMoE, GaussianMoE, MultinomialMoE
from hmoe_lib.estimation import (
    LIKELIHOOD_STATUSES,
    Box,
    data_start,
    fit_em,
    fit_likelihood,
    fit_mixture,
    likelihood_box,
    split_start,
)
from hmoe_lib.gates import gate
from hmoe_lib.mixing import MixingMeasure

LOG = np.log(0.25)
# d = 1, two experts whose gate is centred in the window of the inputs.
CENTRED = MixingMeasure([[3.0], [0.0]], [0.3, 0.0], [[-4.0, 2.0, LOG], [4.0, -2.0, LOG]])
CLASSES = MixingMeasure(
    [[4.0, -3.0], [0.0, 0.0]],
    [0.3, 0.0],
    [[3.0, 2.0, 0.5, -2.0, 3.0, -0.4], [-3.0, 1.0, -0.6, 1.0, -4.0, 0.7]],
)


def data(model, G, n, seed=0, half=2.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-half, half, (n, G.router.shape[1]))
    return X, model.sample(G, X, rng=rng), rng


def check_monotone(history):
    """The smallest step: a largest one above zero would say nothing."""
    smallest = np.diff(history).min()
    if smallest < -1e-9 * abs(history[-1]):
        raise AssertionError(f"the log-likelihood fell by {-smallest:.1e}")


@pytest.mark.parametrize(
    ("model", "G", "n"),
    [
        (GaussianMoE(), CENTRED, 2000),
        (GaussianMoE(gate("linear", top=1)), CENTRED, 2000),
        (MultinomialMoE(3), CLASSES, 3000),
        (MultinomialMoE(3, "transformed"), CLASSES, 3000),
    ],
    ids=["gaussian", "top-1", "multinomial", "transformed"],
)
def test_both_estimators_reach_one_maximum(model, G, n):
    X, y, rng = data(model, G, n)
    start = split_start(model, G, None, distance=0.1, rng=rng)
    newton = fit_likelihood(model, X, y, start, tolerance=1e-10)
    em = fit_em(model, X, y, start, tolerance=1e-9)
    for fit in (newton, em):
        check_monotone(fit.history)
        assert fit.status in ("converged", "separable"), fit.message
        assert fit.log_likelihood > model.log_density(G, X, y).sum()
    assert abs(newton.log_likelihood - em.log_likelihood) < 1e-4


def test_a_history_that_falls_is_found():
    """Negative control: its largest step is positive all the same."""
    with pytest.raises(AssertionError, match="fell by"):
        check_monotone([-10.0, -5.0, -5.1, -4.0])


def test_the_maximum_is_that_of_a_general_optimiser():
    model = GaussianMoE()
    X, y, rng = data(model, CENTRED, 1000)
    start = split_start(model, CENTRED, None, distance=0.1, rng=rng)
    fit = fit_likelihood(model, X, y, start)

    def minus(theta):
        here = model.expansion(start.from_vector(theta), X, y)
        return -here.value, -here.gradient

    other = optimize.minimize(minus, start.to_vector(), jac=True, method="L-BFGS-B")
    assert abs(fit.log_likelihood + other.fun) < 1e-4
    assert abs(fit.gradient).max() < 1e-2 and fit.converged


def test_over_fitted_newton_arrives_where_em_is_still_on_its_way():
    """The reason for the default: at 150 iterations EM is short of the maximum."""
    model = GaussianMoE()
    X, y, rng = data(model, CENTRED, 3000, seed=2)
    start = split_start(model, CENTRED, 0, distance=0.3, rng=rng)
    newton = fit_likelihood(model, X, y, start)
    em = fit_em(model, X, y, start, max_iterations=150)
    assert newton.converged and newton.iterations < 100
    assert em.status == "out of steps" and not em.converged
    check_monotone(em.history)
    assert newton.log_likelihood > em.log_likelihood + 0.01


def test_scores_stay_on_an_orbit_that_the_exact_hessian_runs_along():
    """A free temperature: along the orbit the likelihood is flat, and the loss is the optimiser."""
    model = GaussianMoE("temperature")
    truth = model.pinned(MixingMeasure(CENTRED.router, CENTRED.bias, CENTRED.expert, [1.0]))
    X, y, rng = data(model, truth, 2000)
    start = split_start(model, truth, None, distance=0.1, rng=rng)
    fits = {c: fit_likelihood(model, X, y, start, curvature=c) for c in ("scores", "hessian")}
    moved = {c: abs(np.log(f.measure.shared[0] / start.shared[0])) for c, f in fits.items()}
    assert abs(fits["scores"].log_likelihood - fits["hessian"].log_likelihood) < 1e-4
    assert moved["scores"] < 0.1


def test_a_prompt_is_found_by_both():
    def log_known(x, y):
        return -np.abs(y - np.tanh(x[0])) / 0.4 - np.log(0.8)

    def draw(x, rng):
        return np.tanh(x[0]) + rng.laplace(scale=0.4, size=x.shape[1])

    model = ContaminatedMoE(log_known, draw_known=draw)
    G = model.prompt(0.3, [-1.0, 0.0], 0.25)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 2))
    y = model.sample(G, X, rng=rng)
    start = model.prompt(0.4, [-0.8, 0.1], 0.3)
    newton, em = fit_likelihood(model, X, y, start), fit_em(model, X, y, start)
    check_monotone(em.history)
    np.testing.assert_allclose(newton.measure.to_vector(), em.measure.to_vector(), atol=1e-3)
    assert abs(newton.measure.expert[0, 0] + 1.0) < 0.15


# ---- endings -------------------------------------------------------------------------------------


def test_every_ending_has_its_name():
    rng = np.random.default_rng(1)
    model = GaussianMoE()
    X = rng.uniform(-2, 2, (300, 1))
    y = 0.5 * X[:, 0] + rng.standard_normal(300)
    y[:6] = 0.25 * X[:6, 0] + 9.0  # six points on one line: a variance can run to zero
    eta = [[0.25, 9.0, -3.0], [0.5, 0.0, 0.0]]
    start = model.pinned(MixingMeasure([[0.0], [0.0]], [-3.0, 0.0], eta))
    assert fit_likelihood(model, X, y, start).status == "variance floor"
    few = fit_likelihood(model, X, y, start, max_iterations=1)
    assert few.status == "out of steps" and not few.converged
    # Two lines, one on each side of zero: the gate's slope runs to its bound.
    y = np.where(X[:, 0] > 0, 5.0, -5.0) + 0.1 * rng.standard_normal(300)
    eta = [[0.0, 5.0, -4.0], [0.0, -5.0, -4.0]]
    start = model.pinned(MixingMeasure([[3.0], [0.0]], [0.0, 0.0], eta))
    fit = fit_likelihood(model, X, y, start)
    assert fit.status == "separable" and abs(fit.measure.router[0, 0]) == 30.0
    assert fit_em(model, X, y, start).status in ("separable", "out of steps")


def test_a_vanishing_component_is_named():
    rng = np.random.default_rng(3)
    model = GaussianMoE()
    X = rng.uniform(-1, 1, (200, 1))
    y = X[:, 0] + 0.5 * rng.standard_normal(200)
    eta = [[1.0, 4.5, np.log(0.25)], [1.0, 0.0, np.log(0.25)]]
    start = model.pinned(MixingMeasure([[0.0], [0.0]], [-6.0, 0.0], eta))
    # The expert is held where no sample is: only its weight can move, and it goes to nothing.
    box = likelihood_box(model, start, y)
    theta = start.to_vector()
    lower, upper = box.lower.copy(), box.upper.copy()
    held = slice(*[start.shape.slices["expert"].start + shift for shift in (0, 3)])
    lower[held], upper[held] = theta[held] - 1e-6, theta[held] + 1e-6
    fit = fit_likelihood(model, X, y, start, bounds=Box(lower, upper))
    assert fit.status == "vanishing component", fit.message
    assert fit.status in LIKELIHOOD_STATUSES and fit.message.startswith("vanishing component: ")


def test_a_perfectly_classified_sample_is_separable():
    X = np.linspace(-1, 1, 60)[:, None]
    y = (X[:, 0] > 0.1).astype(int)
    model = MultinomialMoE(2)
    fit = fit_mixture(model, X, y, 1, starts=1, rng=np.random.default_rng(0))
    assert fit.status == "separable" and fit.log_likelihood > -2.0  # chance: -42


# ---- starts --------------------------------------------------------------------------------------


def test_near_truth_starts_say_so_and_nodes_keep_moments():
    model, rng = GaussianMoE(), np.random.default_rng(0)
    start = split_start(model, CENTRED, 0, copies=3, nodes=0.6, distance=0.0, rng=rng)
    assert "truth" in start.note and "Gauss-Hermite" in start.note
    w = np.exp(start.bias[:3])
    shift = start.expert[:3, 1] - 2.0
    variance = np.exp(start.expert[:3, 2])
    assert np.isclose(w.sum(), np.exp(0.3)) and abs(w @ shift) < 1e-12
    assert np.isclose(w @ (shift**2 + variance) / w.sum(), 0.25)  # the second moment of one expert
    X, y, _ = data(model, CENTRED, 500)
    assert "started at the truth" in fit_likelihood(model, X, y, start, max_iterations=1).message


def test_many_starts_keep_the_best_and_count_them():
    model = GaussianMoE()
    X, y, _ = data(model, CENTRED, 800)
    fit = fit_mixture(model, X, y, 2, starts=4, rng=np.random.default_rng(0))
    single = [fit_mixture(model, X, y, 2, starts=1, rng=np.random.default_rng(s)) for s in range(3)]
    assert "best of 4 starts" in fit.message and fit.converged
    assert fit.log_likelihood > max(f.log_likelihood for f in single) - 1e-6
    assert fit.log_likelihood > model.log_density(CENTRED, X, y).sum()


@pytest.mark.parametrize("kind", ["kmeans", "random"])
def test_starts_from_data_survive_repeated_rows(kind):
    rng = np.random.default_rng(0)
    X, y = np.ones((20, 2)), np.repeat([0.0, 1.0], 10)
    start = data_start(GaussianMoE(), X, y, 3, kind, rng=rng)
    assert np.isfinite(start.to_vector()).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"curvature": "newton"}, "curvature: expected one of"),
        ({"y": None}, "y: expected shape"),
        ({"bounds": 3}, "bounds: expected a Box"),
        ({"model": "gaussian"}, "model: expected a density"),
        ({"X": np.zeros((3, 1)), "y": np.zeros(3)}, "expected at least 8 samples"),
        ({"y": np.ones(20)}, "not all equal"),
        ({"tolerance": -1.0}, "tolerance: expected"),
    ],
)
def test_bad_fits_are_refused(change, message):
    model = GaussianMoE()
    X, y, _ = data(model, CENTRED, 20)
    start = model.pinned(CENTRED)
    with pytest.raises(ValueError, match=message):
        fit_likelihood(**({"model": model, "X": X, "y": y, "start": start} | change))
