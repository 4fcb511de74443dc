"""Smoothed top-K mixtures: against loops and differences; the fit that follows sets that move."""

import itertools
import math

import numpy as np
import pytest

from hmoe_lib.estimation import Box, fit_least_squares, fit_top_k, perturbed
from hmoe_lib.gates import gate
from hmoe_lib.mixing import MixingMeasure
from hmoe_lib.models import FlatModel, SmoothedTop

K, D, N = 4, 2, 30


def measure(seed, gate_name="linear", k=K, **options):
    rng, g = np.random.default_rng(seed), gate(gate_name, top=2, **options)
    router, eta = rng.standard_normal((k, D)), rng.standard_normal((k, D + 1))
    pins = g.pins(router)
    router[pins[0]] = 0.0
    bias = np.where(pins[1], 0.0, rng.standard_normal(k))
    shared = np.full(g.score.shared, 0.7)
    return g, MixingMeasure(router, bias, eta, shared).pinned_for(pins)


def slow(G, x, width, top):
    """The formula with loops over sets, for linear scores and tanh experts."""
    z = [float(G.router[i] @ x + G.bias[i]) for i in range(G.atoms)]
    h = [math.tanh(float(G.expert[i, :-1] @ x + G.expert[i, -1])) for i in range(G.atoms)]
    total = mass = 0.0
    for chosen in itertools.combinations(range(G.atoms), top):
        P = math.exp(sum(z[i] for i in chosen) / width)
        e = {i: math.exp(z[i]) for i in chosen}
        total += P * sum(e[i] * h[i] for i in chosen) / sum(e.values())
        mass += P
    return total / mass


@pytest.mark.parametrize("top", [1, 2, 3])
def test_values_are_the_loops(top):
    _, G = measure(1)
    X = np.random.default_rng(2).standard_normal((N, D))
    model = SmoothedTop(gate("linear", top=top), "tanh", 0.7)
    assert np.allclose(model.predict(G, X), [slow(G, x, 0.7, top) for x in X], rtol=1e-12)


def jacobian_error(model, G, X, h=1e-6):
    theta, J = G.to_vector(), model.jacobian(G, X)
    ahead = (model.predict(G.from_vector(theta + h * e), X) for e in np.eye(theta.size))
    behind = (model.predict(G.from_vector(theta - h * e), X) for e in np.eye(theta.size))
    gaps = [(a - b) / (2 * h) - J[:, j] for j, (a, b) in enumerate(zip(ahead, behind, strict=True))]
    return np.abs(gaps).max()


@pytest.mark.parametrize(
    ("name", "options"), [("linear", {}), ("temperature", {}), ("perturbed_cosine", {"tau": 0.5})]
)
def test_derivatives_are_the_differences_and_the_hard_ones_miss_the_sets(name, options):
    g, G = measure(3, name, **options)
    X = np.random.default_rng(4).standard_normal((N, D))
    assert jacobian_error(SmoothedTop(g, "tanh", 0.2), G, X) < 1e-7

    class Broken(SmoothedTop):
        def _mixed(self, z, h):
            f, w, _ = super()._mixed(z, h)
            return f, w, self.gate.first(w, h)

    assert jacobian_error(Broken(g, "tanh", 0.2), G, X) > 1e-2


def test_a_narrow_width_is_the_top_K_mixture():
    g, G = measure(5)
    X = np.random.default_rng(6).standard_normal((200, D))
    z = np.sort(G.router @ X.T + G.bias[:, None], axis=0)
    apart = z[-2] - z[-3] > 0.05
    hard, soft = FlatModel(g, "tanh").predict(G, X), SmoothedTop(g, "tanh", 1e-3).predict(G, X)
    assert np.allclose(hard[apart], soft[apart], atol=1e-12) and apart.mean() > 0.8
    wide = SmoothedTop(g, "tanh", 0.5).predict(G, X)
    assert np.abs(wide - hard).max() > 0.1


def problem(seed):
    """Eight inputs that matter, five experts of which two are on: the jumps are large."""
    rng, g, k, d = np.random.default_rng(seed), gate("linear", top=2), 5, 4
    router, eta = 0.3 * rng.standard_normal((k, d)), rng.standard_normal((k, d + 1))
    router[-1] = 0.0
    G = MixingMeasure(router, np.zeros(k), eta).pinned_for(g.pins(router))
    X = rng.uniform(-1, 1, (1500, d))
    model = FlatModel(g, "tanh")
    y = model.sample(G, X, 0.1, rng=rng)
    start = perturbed(G, 0.1, rng=rng)
    return model, G, X, y, start, Box.around(G, 2.0)


WIDE = tuple(0.05 * 2.0 ** (-step / 2) for step in range(10))


def test_smoothing_reaches_what_derivatives_do_not_see():
    below = 0
    for seed in range(3):
        model, G, X, y, start, box = problem(seed)
        truth = np.mean((y - model.predict(G, X)) ** 2)
        fit = fit_top_k(model, X, y, start, box, WIDE)
        plain = fit_least_squares(model, X, y, start, box)
        assert fit.loss == pytest.approx(np.mean((y - model.predict(fit.measure, X)) ** 2))
        assert fit.loss <= fit.history.min() + 1e-15 and len(fit.history) == len(WIDE) + 2
        assert fit.loss < 1.05 * truth < 2.0 * truth < plain.loss
        below += fit.loss < truth
    assert below > 0


MODEL, G, X, Y, START, BOX = problem(0)
BAD = [
    (lambda: SmoothedTop("linear", "tanh", 0.1), "gate: expected a softmax gate with top"),
    (lambda: SmoothedTop("sigmoid", "tanh", 0.1), "gate: expected a softmax gate with top"),
    (lambda: SmoothedTop(gate("linear", top=2), "tanh", 0.0), "width: expected a finite number"),
    (lambda: fit_top_k(MODEL, X, Y, START, BOX, ()), "widths: expected at least one"),
    (lambda: fit_top_k(FlatModel("linear", "tanh"), X, Y, START, BOX), "gate: expected a softmax"),
    (
        lambda: fit_least_squares(
            SmoothedTop(MODEL.gate, "tanh", 0.1), X, Y, START, BOX, newton=True
        ),
        "newton: expected False",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
