"""Gates, experts and mixing measures: formulas against loops, derivatives against differences."""

import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hmoe_lib import reference_flat as loops
from hmoe_lib.activations import activation
from hmoe_lib.experts import Neuron, expert
from hmoe_lib.gates import GATES, Cosine, Linear, Softmax, Temperature, gate
from hmoe_lib.mixing import MixingMeasure

K, D, N = 4, 3, 17
PERTURBED = partial(loops.cosine, tau=0.7, tau_x=0.7, temperature=0.5)
OPTIONS = {"perturbed_cosine": {"tau": 0.7, "temperature": 0.5}}


def named(name):
    return gate(name, **OPTIONS.get(name, {}))


def draw(name, rng, d=D, k=K):
    score = named(name).score
    router = rng.standard_normal((k, score.router_size(d)))
    return router, rng.standard_normal(k), rng.uniform(0.5, 2.0, score.shared)


def moved(parameters, i, j, h):
    """The parameters with entry j of atom i's (router, bias, shared) moved by h."""
    router, bias, shared = (part.copy() for part in parameters)
    p = router.shape[1]
    if j < p:
        router[i, j] += h
    elif j == p:
        bias[i] += h
    else:
        shared[j - p - 1] += h
    return router, bias, shared


def score_errors(score, parameters, x, h=1e-5):
    """Largest error of first and second derivatives against central differences."""
    z, first = score.derivatives(*parameters, x)
    second = score.second(*parameters, x)
    second = np.zeros((*first.shape[:2], *first.shape[1:])) if second is None else second
    worst = [np.abs(z - score.value(*parameters, x)).max(), 0.0]
    for i in range(len(z)):
        for j in range(first.shape[1]):
            up, down = (score.derivatives(*moved(parameters, i, j, s * h), x) for s in (1, -1))
            gap = np.abs((up[0] - down[0])[i] / (2 * h) - first[i, j]).max()
            worst[0] = max(worst[0], gap)
            gap = np.abs((up[1] - down[1])[i] / (2 * h) - second[i, j]).max()
            worst[1] = max(worst[1], gap)
    return worst


@pytest.mark.parametrize("name", GATES)
def test_scores_are_the_loops_and_derivatives_the_differences(name):
    rng = np.random.default_rng(1)
    parameters, x = draw(name, rng), rng.standard_normal((D, N))
    score = named(name).score
    formula = {
        "perturbed_cosine": PERTURBED,
        "sigmoid": loops.SCORES["linear"],
        "sigmoid_polynomial": loops.SCORES["polynomial"],
        "sigmoid_monomial": loops.SCORES["monomial"],
    }.get(name) or loops.SCORES[name]
    z = score.value(*parameters, x)
    router, bias, shared = parameters
    slow = [
        [formula(router[i], bias[i], shared, list(x[:, j])) for j in range(N)] for i in range(K)
    ]
    assert np.allclose(z, slow, rtol=1e-12, atol=1e-13)
    first, second = score_errors(score, parameters, x)
    assert first < 1e-8 and second < 1e-7


class Broken(Cosine):
    """A cosine that forgets that the norm depends on the router."""

    def derivatives(self, router, bias, shared, x):
        z, D = super().derivatives(router, bias, shared, x)
        _, over = self._norms(router)
        D[:, :-1] = over[:, None, None] * self._direction(x)
        return z, D


def test_a_wrong_derivative_is_seen():
    rng = np.random.default_rng(1)
    first, second = score_errors(
        Broken(0.7), draw("perturbed_cosine", rng), rng.standard_normal((D, N))
    )
    assert first > 1e-2 and second > 1e-2


@pytest.mark.parametrize("name", ["linear", "sigmoid"])
def test_weights_and_their_derivatives(name):
    rng = np.random.default_rng(2)
    g, z, h = named(name), rng.standard_normal((K, N)), rng.standard_normal((K, N))
    slow = loops.sigmoid_weights if name == "sigmoid" else loops.softmax_weights
    w = g.weights(z)
    assert np.allclose(w.T, [slow(list(column)) for column in z.T], rtol=1e-13)

    def f(z):
        return np.sum(g.weights(z) * h, axis=0)

    step = 1e-5
    for i in range(K):
        e = step * np.eye(K)[i][:, None]
        assert np.allclose((f(z + e) - f(z - e)) / (2 * step), g.first(w, h)[i], atol=1e-9)
        gap = (g.weights(z + e) - g.weights(z - e)) / (2 * step)
        assert np.allclose(gap, g.cross(w)[i], atol=1e-9)
        gap = (g.first(g.weights(z + e), h) - g.first(g.weights(z - e), h)) / (2 * step)
        assert np.allclose(gap, g.second(w, h)[i], atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(0, 2**31))
def test_top_K_keeps_the_largest_and_ties_go_to_the_first(top, seed):
    rng = np.random.default_rng(seed)
    z = np.round(rng.standard_normal((5, 8)), 0)  # with ties
    g = Softmax(Linear(), top=top)
    w = g.weights(z)
    assert np.allclose(w.T, [loops.softmax_weights(list(c), top) for c in z.T], rtol=1e-13)
    assert np.all((w > 0).sum(axis=0) == top) and np.allclose(w.sum(axis=0), 1.0)
    with np.errstate(divide="ignore"):
        assert np.allclose(np.log(w), g.log_weights(z), atol=1e-12)


def function(name, parameters, x, h):
    g = named(name)
    return np.sum(g.weights(g.score.value(*parameters, x)) * h, axis=0)


def jacobian(name, parameters, x, h):
    """Derivatives of sum_i w_i h_i in the unpinned entries of router, bias, shared."""
    g = named(name)
    z, first = g.score.derivatives(*parameters, x)
    c = g.first(g.weights(z), h)
    p = parameters[0].shape[1]
    blocks = (c[:, None] * first[:, :p], c * first[:, p], (c[:, None] * first[:, p + 1 :]).sum(0))
    pins = g.pins(parameters[0])
    return np.concatenate([b[~pin] for b, pin in zip(blocks, pins, strict=True)])


@pytest.mark.parametrize("name", GATES)
def test_pins_take_out_what_is_exactly_unidentifiable(name):
    """With pins and independent experts the Jacobian has full rank, or the defect we name."""
    rng = np.random.default_rng(3)
    router, bias, shared = draw(name, rng)
    pins = named(name).pins(router)
    router[pins[0]], bias[pins[1]] = 0.0, 0.0
    x = rng.uniform(-2, 2, (D, 400))
    h = np.tanh(rng.standard_normal((K, D)) @ x + 0.3)
    J = jacobian(name, (router, bias, shared), x, h)
    defect = {"cosine": K, "temperature": 1}.get(name, 0)
    assert len(J) - np.linalg.matrix_rank(J, rtol=1e-9) == defect


def test_norm_pins_repair_the_cosine():
    rng = np.random.default_rng(3)
    router, bias, shared = draw("cosine", rng)
    score = Cosine(pin_norms=True)
    pins = Softmax(score).pins(router)
    assert pins[0].sum() == K and np.all(np.abs(router[pins[0]]) == np.abs(router).max(axis=1))
    x = rng.uniform(-2, 2, (D, 400))
    h = np.tanh(rng.standard_normal((K, D)) @ x + 0.3)
    z, first = score.derivatives(router, bias, shared, x)
    c = Softmax(score).first(Softmax(score).weights(z), h)
    J = np.concatenate([(c[:, None] * first[:, :D])[~pins[0]], (c * first[:, D])[:-1]])
    assert np.linalg.matrix_rank(J, rtol=1e-9) == len(J)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(["linear", "monomial", "polynomial", "transformed", "temperature"]),
       st.integers(0, 2**31))  # fmt: skip
def test_a_softmax_does_not_see_a_common_shift(name, seed):
    rng = np.random.default_rng(seed)
    router, bias, shared = draw(name, rng)
    x, h = rng.standard_normal((D, N)), rng.standard_normal((K, N))
    shifted = router + rng.standard_normal(router.shape[1]), bias + 0.7, shared
    assert np.allclose(
        function(name, (router, bias, shared), x, h), function(name, shifted, x, h), atol=1e-10
    )


def test_shifts_that_are_visible():
    rng = np.random.default_rng(5)
    x, h = rng.standard_normal((D, N)), rng.standard_normal((K, N))
    for name in ("sigmoid", "activated_temperature", "cosine", "perturbed_cosine"):
        router, bias, shared = draw(name, rng)
        shifted = router + 0.5, bias, shared
        gap = function(name, (router, bias, shared), x, h) - function(name, shifted, x, h)
        assert np.abs(gap).max() > 1e-3


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31))
def test_the_perturbed_cosine_keeps_a_shift_in_the_ball(seed):
    """v = beta / (norm + tau) is free in the unit ball, and a common shift of v is not seen."""
    rng = np.random.default_rng(seed)
    tau = OPTIONS["perturbed_cosine"]["tau"]
    v = rng.uniform(-0.4, 0.4, (K, D))
    t = rng.uniform(-0.1, 0.1, D)

    def router(v):
        r = np.linalg.norm(v, axis=1)[:, None]
        return tau * v / (1.0 - r)

    x, h = rng.standard_normal((D, N)), rng.standard_normal((K, N))
    bias = rng.standard_normal(K)
    one, two = ((router(u), bias, np.zeros(0)) for u in (v, v + t))
    assert np.allclose(
        function("perturbed_cosine", one, x, h), function("perturbed_cosine", two, x, h), atol=1e-10
    )


NEURONS = ["linear", "affine", "relu", "tanh", "sigmoid", "gelu", "polynomial2", "polynomial3"]


@pytest.mark.parametrize("amplitude", [False, True])
@pytest.mark.parametrize("name", NEURONS)
def test_derivatives_of_experts(name, amplitude):
    rng = np.random.default_rng(4)
    h, x, step = expert(name, amplitude=amplitude), rng.standard_normal((D, N)), 1e-5
    eta = rng.standard_normal((K, h.size(D)))
    value, first = h.derivatives(eta, x)
    assert np.allclose(value, h.value(eta, x), rtol=1e-13)
    assert first.shape == (K, h.size(D), N)
    for j in range(h.size(D)):
        e = step * np.eye(h.size(D))[j]
        up, down = h.derivatives(eta + e, x), h.derivatives(eta - e, x)
        assert np.allclose((up[0] - down[0]) / (2 * step), first[:, j], atol=1e-8)
        second = h.second(eta, x)[:, j]
        assert np.allclose((up[1] - down[1]) / (2 * step), second, atol=1e-7)
    if not amplitude and name != "linear":
        phi = activation({"affine": "identity"}.get(name, name.replace("polynomial", "power")))
        slow = [[float(phi(np.dot(e[:D], x[:, j]) + e[D])) for j in range(N)] for e in eta]
        assert np.allclose(value, slow, rtol=1e-12)


def measure(pinned=True):
    rng = np.random.default_rng(6)
    router, bias = rng.standard_normal((K, D)), rng.standard_normal(K)
    router[-1], bias[-1] = 0.0, 0.0
    router[0] = router[0] if pinned else 0.0  # two sigmoids add up to one only at slope zero
    G = MixingMeasure(router, bias, rng.standard_normal((K, D + 1)))
    return G.pinned_for(gate("linear").pins(G.router)) if pinned else G


def test_vectors_of_a_measure():
    G = measure()
    theta = G.to_vector()
    assert len(theta) == G.shape.size == measure(pinned=False).shape.size - D - 1
    H = G.from_vector(2.0 * theta)
    assert np.array_equal(H.router, 2 * G.router) and np.array_equal(H.expert, 2 * G.expert)
    assert not H.router[-1].any() and H.bias[-1] == 0.0
    at = G.shape.slices
    assert np.array_equal(theta[at["expert"]], G.expert.ravel())
    assert np.array_equal(theta[at["router"]], G.router[:-1].ravel())
    assert at["shared"] == slice(len(theta), len(theta))
    again = MixingMeasure.from_json(H.to_json())
    assert again == H and hash(again) == hash(H) and again.shape.size == H.shape.size
    copy = pickle.loads(pickle.dumps(G))
    assert copy == G
    with pytest.raises(ValueError):
        copy.router[0, 0] = 1.0


@pytest.mark.parametrize("weight, name", [("exp", "linear"), ("sigmoid", "sigmoid")])
@pytest.mark.parametrize("i", [0, K - 1])
def test_a_split_atom_leaves_the_function(weight, name, i):
    G = measure(pinned=weight == "exp")
    H = G.split_atom(i, [0.25, 0.75], weight)
    x = np.random.default_rng(7).standard_normal((D, N))
    h = expert("gelu")

    def f(G):
        w = gate(name).weights(gate(name).score.value(G.router, G.bias, G.shared, x))
        return np.sum(w * h.value(G.expert, x), axis=0)

    assert H.atoms == K + 1 and np.allclose(f(G), f(H), atol=1e-13)
    if weight == "exp":
        assert H.shape.size == G.shape.size + 2 * D + 2 and H.bias[-1] == 0.0


BAD = [
    (lambda: MixingMeasure([[np.nan]], [0.0], [[1.0]]), "router: expected finite"),
    (lambda: MixingMeasure([[1.0]], [0.0, 1.0], [[1.0]]), "router: expected 2 rows"),
    (lambda: MixingMeasure([[1.0]], [0.0], [["1"]]), "expert: expected numbers"),
    (lambda: MixingMeasure([[1.0]], [0.0], [[1.0]], pinned=([[1]],) * 4), "expected a mask"),
    (lambda: measure().from_vector([1.0]), "vector: expected shape"),
    (lambda: measure().split_atom(0, [0.5, 0.6], "exp"), "shares: expected positive"),
    (lambda: measure().split_atom(0, [0.5, 0.5], "softmax"), "weight: expected 'exp'"),
    (lambda: measure().pinned_for(gate("temperature").pins(np.ones((K, D)))), "shared: expected 1"),
    (lambda: MixingMeasure.from_json("{}"), "text: expected the JSON"),
    (lambda: gate("cosine", tau=1.0), "tau"),
    (lambda: gate("perturbed_cosine", tau=-1.0), "tau: expected a finite number >= 0, got -1"),
    (lambda: gate("linear", top=0), "top: expected an integer >= 1"),
    (lambda: gate("sigmoid", top=2), "top"),
    (lambda: gate("linear", top=5).check(4), "top: expected at most k = 4 atoms, got 5"),
    (lambda: gate("softmaxx"), "gate: 'softmaxx' is not known"),
    (lambda: expert("gelo"), "did you mean 'gelu'"),
    (lambda: Cosine().check(np.ones((2, 2)), (), np.zeros((2, 3))), "row 0 has no cosine"),
    (lambda: Cosine().check(np.zeros((2, 2)), (), np.ones((2, 3))), "atom 0 has no cosine"),
    (lambda: Temperature().check(None, np.zeros(1), None), "shared: expected a temperature > 0"),
]


@pytest.mark.parametrize("call, message", BAD)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_zero_vectors_with_a_meaning():
    Cosine().check(np.array([[1.0, 0.0], [0.0, 0.0]]), (), np.ones((2, 3)))  # the reference
    Cosine(1.0).check(np.zeros((2, 2)), (), np.zeros((2, 3)))
    z = Cosine().value(np.zeros((1, 2)), np.array([0.3]), (), np.ones((2, 3)))
    assert np.all(z == 0.3)
    assert isinstance(expert(Neuron(activation("tanh"))), Neuron)
