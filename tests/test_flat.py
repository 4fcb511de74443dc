"""Flat regressions: values against loops, derivatives against differences, fits that come home."""

from functools import partial

import numpy as np
import pytest

from hmoe_lib import reference_flat as loops
from hmoe_lib.estimation import Box, fit_gradient_descent, fit_least_squares, perturbed
from hmoe_lib.experts import expert
from hmoe_lib.gates import GATES, gate
from hmoe_lib.mixing import MixingMeasure
from hmoe_lib.models import FlatModel

K, D, N = 3, 2, 40
OPTIONS = {"perturbed_cosine": {"tau": 0.7, "temperature": 0.5}}
EXPERTS = {"affine": lambda z: z, "gelu": loops.GELU, "tanh": np.tanh}


def named(name, expert_name="gelu", amplitude=False, **more):
    h = expert(expert_name, amplitude=amplitude)
    return FlatModel(gate(name, **OPTIONS.get(name, {}), **more), h)


def draw(model, rng, k=K, d=D, pinned=True):
    score = model.gate.score
    router, bias = rng.standard_normal((k, score.router_size(d))), rng.standard_normal(k)
    pins = model.gate.pins(router)
    if pinned:
        router[pins[0]], bias[pins[1]] = 0.0, 0.0
    eta = rng.standard_normal((k, model.expert.size(d)))
    G = MixingMeasure(router, bias, eta, rng.uniform(0.5, 2.0, score.shared))
    return G.pinned_for(pins) if pinned else G


@pytest.mark.parametrize("phi", EXPERTS)
@pytest.mark.parametrize("name", GATES)
def test_predict_is_the_loops(name, phi):
    rng = np.random.default_rng(1)
    model, X = named(name, phi), rng.standard_normal((N, D))
    G = draw(model, rng)
    score = {
        "perturbed_cosine": partial(loops.cosine, tau=0.7, tau_x=0.7, temperature=0.5),
    }.get(name) or loops.SCORES[name.replace("sigmoid_", "").replace("sigmoid", "linear")
                                if name.startswith("sigmoid") else name]  # fmt: skip
    weights = loops.sigmoid_weights if name.startswith("sigmoid") else loops.softmax_weights
    slow = [loops.flat(G, x, score, weights, EXPERTS[phi]) for x in X]
    assert np.allclose(model.predict(G, X), slow, rtol=1e-12, atol=1e-13)


def test_top_K_is_the_loops():
    rng = np.random.default_rng(2)
    model, X = named("linear", top=2), rng.standard_normal((N, D))
    G = draw(model, rng)
    weights = partial(loops.softmax_weights, top=2)
    slow = [loops.flat(G, x, loops.SCORES["linear"], weights, loops.GELU) for x in X]
    assert np.allclose(model.predict(G, X), slow, rtol=1e-12)
    assert np.all((model.weights(G, X) > 0).sum(axis=1) == 2)


def errors(model, G, X, y, h=1e-5):
    """Errors of the Jacobian and of the Hessian of half the loss against central differences."""
    theta, J = G.to_vector(), model.jacobian(G, X)
    normal = model.normal_equations(G, X, y, curvature=True)
    worst = [0.0, 0.0]
    for j, e in enumerate(h * np.eye(theta.size)):
        up, down = G.from_vector(theta + e), G.from_vector(theta - e)
        gap = (model.predict(up, X) - model.predict(down, X)) / (2 * h) - J[:, j]
        worst[0] = max(worst[0], np.abs(gap).max())
        ahead, behind = (model.normal_equations(at, X, y).gradient for at in (up, down))
        gap = (ahead - behind) / (2 * h) - (normal.gram + normal.curvature)[j]
        worst[1] = max(worst[1], np.abs(gap).max())
    return worst


@pytest.mark.parametrize("amplitude", [False, True])
@pytest.mark.parametrize("name", GATES)
def test_jacobian_and_curvature_are_the_differences(name, amplitude):
    rng = np.random.default_rng(3)
    model, X = named(name, "tanh", amplitude), rng.standard_normal((N, D))
    G = draw(model, rng)
    first, second = errors(model, G, X, rng.standard_normal(N))
    assert first < 1e-8 and second < 1e-8


class Broken(FlatModel):
    """Forgets that moving a score moves the weights of all experts."""

    def _first(self, parts, x):
        f, J, w, h, c, D, E = super()._first(parts, x)
        k, p = parts.router.shape
        J[: k * p] = ((w * h)[:, None] * D[:, :p]).reshape(-1, x.shape[1])
        return f, J, w, h, c, D, E


def test_a_wrong_jacobian_is_seen():
    rng = np.random.default_rng(3)
    model, X = Broken("linear", "tanh"), rng.standard_normal((N, D))
    first, second = errors(model, draw(model, rng), X, rng.standard_normal(N))
    assert first > 1e-2 and second > 1e-2


def test_blocks_add_up_and_the_normal_equations_are_those_of_the_jacobian():
    rng = np.random.default_rng(4)
    model, X = named("polynomial"), rng.standard_normal((7000, D))  # more than one block
    G, y = draw(model, rng), rng.standard_normal(7000)
    J, r = model.jacobian(G, X), model.predict(G, X) - y
    normal = model.normal_equations(G, X, y)
    assert np.allclose(normal.gram, J.T @ J / 7000, rtol=1e-10)
    assert np.allclose(normal.gradient, J.T @ r / 7000, rtol=1e-9, atol=1e-12)
    loss, gradient = model.loss_and_gradient(G, X, y)
    assert np.isclose(loss, np.mean(r**2)) and np.allclose(gradient, 2 * normal.gradient)


@pytest.mark.parametrize("newton", [False, True])
@pytest.mark.parametrize("name", ["linear", "monomial", "perturbed_cosine", "sigmoid"])
def test_a_fit_without_noise_finds_the_truth(name, newton):
    rng = np.random.default_rng(5)
    model = named(name, "tanh")
    G_star, X = draw(model, rng, k=2), rng.uniform(-2, 2, (2000, D))
    box = Box.around(G_star, 2.0)
    start = perturbed(G_star, 0.1, rng=rng, bounds=box)
    fit = fit_least_squares(model, X, model.predict(G_star, X), start, bounds=box, newton=newton)
    assert fit.converged and np.allclose(fit.measure.to_vector(), G_star.to_vector(), atol=1e-5)
    assert "perturbed by 0.1" in fit.message
    assert fit.measure.shape.size == G_star.shape.size  # pins survive a fit


def test_a_fit_moves_a_temperature_and_no_pin():
    rng = np.random.default_rng(6)
    model = named("activated_temperature", "tanh")
    G_star, X = draw(model, rng), rng.uniform(-2, 2, (3000, D))
    start = perturbed(G_star, 0.05, rng=rng)
    fit = fit_least_squares(model, X, model.predict(G_star, X), start)
    assert fit.loss < 1e-12 and fit.measure.bias[-1] == 0.0
    assert start.shared[0] != fit.measure.shared[0] > 0


def test_gradient_descent_runs_on_a_flat_model():
    rng = np.random.default_rng(7)
    model = named("linear", "tanh")
    G_star, X = draw(model, rng, k=2), rng.uniform(-2, 2, (300, D))
    start, y = perturbed(G_star, 0.1, rng=rng), model.predict(G_star, X)
    fit = fit_gradient_descent(model, X, y, start, max_epochs=50)
    assert fit.history[-1] < 0.5 * fit.history[0]


def test_the_box_of_a_mixing_measure():
    G = MixingMeasure([[0.2], [0.0]], [3.0, 0.0], [[5.0, 0.0], [1.0, 0.0]], [2.0])
    box = Box.around(G.pinned_for(gate("temperature").pins(G.router)), 1.5)
    assert box.upper.tolist() == [1.5, 5.5, 7.5, 7.5, 7.5, 7.5, 30.0]
    assert box.lower[-1] == pytest.approx(2.0 / 15) and box.lower[0] == -1.5


MODEL = named("linear", "tanh")
GOOD = draw(MODEL, np.random.default_rng(8))
BAD = [
    (lambda: MODEL.predict(1, [[1.0, 1.0]]), "G: expected a MixingMeasure, got int"),
    (lambda: MODEL.predict(GOOD, [[1.0]]), r"router: expected shape \(3, 1\)"),
    (lambda: named("monomial", "tanh").predict(GOOD, [[1.0, 1.0]]), r"router: expected shape"),
    (lambda: named("linear", "linear").predict(GOOD, [[1.0, 1.0]]), r"expert: expected shape"),
    (lambda: named("linear", top=4).predict(GOOD, [[1.0, 1.0]]), "top: expected at most k = 3"),
    (lambda: named("cosine").predict(GOOD, [[0.0, 0.0]]), "X: expected rows other than zero"),
    (lambda: MODEL.predict(GOOD, [[np.inf, 0.0]]), "X: expected finite numbers"),
    (lambda: MODEL.sample(GOOD, [[1.0, 1.0]], rng=3), "rng: expected a numpy Generator"),
    (lambda: FlatModel("liner", "tanh"), "did you mean 'linear'"),
    (lambda: FlatModel("linear", "tan"), "did you mean 'tanh'"),
    (lambda: perturbed(GOOD, -1.0, rng=np.random.default_rng(0)), "distance: expected a finite"),
    (lambda: perturbed(1, 1.0, rng=np.random.default_rng(0)), "G: expected a MixingMeasure"),
    (lambda: perturbed(GOOD, 1.0, rng=0), "rng: expected a numpy Generator, got int"),
    (lambda: perturbed(GOOD, 1.0, rng=np.random.default_rng(0), bounds=Box([0.0], [1.0])),
     f"bounds: expected a Box of {GOOD.shape.size} entries"),
    (lambda: fit_least_squares(MODEL, [[1.0, 1.0]], [1.0], GOOD), "X: expected at least"),
    (lambda: fit_least_squares(GOOD, [[1.0, 1.0]], [1.0], GOOD), "model: expected a model"),
]  # fmt: skip


@pytest.mark.parametrize("call, message", BAD)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_experts_that_coincide_are_allowed_and_flat():
    """Equal atoms are a legal measure: the gate between them then has no influence at all."""
    router, eta = [[1.0, 0.5], [0.0, 0.0]], [[1.0, 0.2, 0.3]] * 2
    G = MixingMeasure(router, [0.2, 0.0], eta).pinned_for(gate("linear").pins(np.array(router)))
    X = np.random.default_rng(9).standard_normal((100, 2))
    J = FlatModel("linear", "tanh").jacobian(G, X)
    at = G.shape.slices
    assert np.abs(J[:, at["router"]]).max() < 1e-15 and np.abs(J[:, at["bias"]]).max() < 1e-15
    assert np.abs(J[:, at["expert"]]).max() > 0.1
