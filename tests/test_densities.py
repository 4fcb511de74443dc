"""Densities: two roads to every value, derivatives against differences, distances, ranks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hmoe_lib import reference_density as loops
from hmoe_lib.activations import activation
from hmoe_lib.cell_losses import translated
from hmoe_lib.densities import (
    ContaminatedMoE,
    GaussianMoE,
    MultinomialMoE,
    density_distance,
    monte_carlo_hellinger,
)
from hmoe_lib.gates import gate
from hmoe_lib.mixing import MixingMeasure

GATES = {
    "linear": ("linear", {}),
    "top-2": (gate("linear", top=2), {"top": 2}),
    "temperature": ("temperature", {}),
    "activated": ("activated_temperature", {"phi": activation("sigmoid")}),
    "transformed": ("transformed", {"m": activation("tanh")}),
}
LAWS = {
    "gaussian": lambda g: GaussianMoE(g),
    "three classes": lambda g: MultinomialMoE(3, g),
    "four classes": lambda g: MultinomialMoE(4, g),
}


def laplace(x, y):
    return -np.abs(y - np.tanh(x[0])) / 0.4 - np.log(0.8)


CONTAMINATED = ContaminatedMoE(
    laplace, draw_known=lambda x, rng: np.tanh(x[0]) + rng.laplace(scale=0.4, size=x.shape[1])
)


def random_mixture(model, k, d, rng):
    score = model.gate.score
    router, bias = rng.standard_normal((k, d)), rng.standard_normal(k)
    eta = rng.standard_normal((k, model.law.size(d)))
    return model.pinned(MixingMeasure(router, bias, eta, [0.7] * score.shared))


def problem(law, which, seed=0, k=3, d=2, n=200):
    rng = np.random.default_rng(seed)
    model = LAWS[law](GATES[which][0])
    G = random_mixture(model, k, d, rng)
    X = rng.uniform(-1, 1, (n, d))
    return model, G, X, model.sample(G, X, rng=rng)


def prompt_problem(n=200, share=0.3):
    rng = np.random.default_rng(5)
    G = CONTAMINATED.prompt(share, [-1.0, 0.3], 0.25)
    X = rng.standard_normal((n, 2))
    return CONTAMINATED, G, X, CONTAMINATED.sample(G, X, rng=rng)


def check_derivatives(model, G, X, y, spoil=0.0):
    """Gradient and Hessian against central differences of value and gradient."""
    here, theta, h = model.expansion(G, X, y), G.to_vector(), 1e-5
    gradient, hessian = np.empty(theta.size), np.empty((theta.size,) * 2)
    for j in range(theta.size):
        step = np.zeros(theta.size)
        step[j] = h
        up, down = (model.expansion(G.from_vector(theta + s), X, y) for s in (step, -step))
        gradient[j] = (up.value - down.value) / (2 * h)
        hessian[j] = -(up.gradient - down.gradient) / (2 * h)
    worst = abs(gradient - here.gradient - spoil).max() / abs(gradient).max()
    if worst > 1e-7:
        raise AssertionError(f"gradient off by {worst:.1e}")
    worst = abs(hessian - here.hessian).max() / abs(hessian).max()
    if worst > 1e-8:
        raise AssertionError(f"Hessian off by {worst:.1e}")


@pytest.mark.parametrize("which", GATES)
@pytest.mark.parametrize("law", LAWS)
def test_derivatives_agree_with_differences(law, which):
    for k, d in ((3, 2), (4, 1)):
        check_derivatives(*problem(law, which, seed=k, k=k, d=d))


def test_derivatives_of_a_prompt_and_of_other_means():
    check_derivatives(*prompt_problem())
    model, G, X, y = prompt_problem()
    check_derivatives(model, MixingMeasure([[0.5, -1.0]], G.bias, G.expert), X, y)
    rng = np.random.default_rng(1)
    model = GaussianMoE("linear", "tanh")
    G = random_mixture(model, 3, 2, rng)
    check_derivatives(model, G, X, model.sample(G, X, rng=rng))


def test_a_wrong_gradient_is_found():
    """Negative control."""
    with pytest.raises(AssertionError, match="gradient off"):
        check_derivatives(*problem("gaussian", "linear"), spoil=1e-3)


@pytest.mark.parametrize("which", GATES)
@pytest.mark.parametrize("law", LAWS)
def test_densities_are_those_of_plain_loops(law, which):
    model, G, X, y = problem(law, which, n=25)
    options = GATES[which][1]
    if model.classes is None:
        slow = [loops.gaussian_density(G, *pair, **options) for pair in zip(X, y, strict=True)]
    else:
        slow = [
            loops.multinomial_density(G, *pair, model.classes, **options)
            for pair in zip(X, y, strict=True)
        ]
    np.testing.assert_allclose(np.exp(model.log_density(G, X, y)), slow, rtol=1e-12)
    assert np.isclose(model.expansion(G, X, y).value, np.log(slow).sum())


def test_the_contaminated_density_is_that_of_plain_loops():
    model, G, X, y = prompt_problem(25)
    known = np.exp(laplace(X.T, y))
    slow = [loops.contaminated_density(G, *row) for row in zip(X, y, known, strict=True)]
    np.testing.assert_allclose(np.exp(model.log_density(G, X, y)), slow, rtol=1e-12)


def test_a_density_integrates_to_one():
    model, G, X, _ = problem("gaussian", "top-2", n=5)
    y = np.linspace(-40, 40, 40001)
    for x in X:
        p = np.exp(model.log_density(G, np.tile(x, (y.size, 1)), y))
        assert abs(np.trapezoid(p, y) - 1) < 1e-9
    model, G, X, _ = problem("four classes", "linear", n=5)
    np.testing.assert_allclose(model.probabilities(G, X).sum(axis=1), 1.0, rtol=1e-13)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["gaussian", "three classes"]))
def test_translations_and_orders_of_atoms_change_nothing(seed, law):
    model, G, X, y = problem(law, "linear", seed=seed, n=20)
    rng = np.random.default_rng(seed)
    moved = translated(G, rng.standard_normal(2), rng.standard_normal())
    order = rng.permutation(G.atoms)
    shuffled = MixingMeasure(G.router[order], G.bias[order], G.expert[order])
    for H in (moved, shuffled):
        np.testing.assert_allclose(
            model.log_density(H, X, y), model.log_density(G, X, y), rtol=1e-9, atol=1e-9
        )


def test_selection_by_the_router_ignores_biases():
    """A copy with a small weight is selected wherever its expert is."""
    model = GaussianMoE(gate("linear", top=1))
    eta = [[0.0, 5.0, 0.0], [0.0, -5.0, 0.0]]
    G = MixingMeasure([[1.0], [0.0]], [-20.0, 0.0], eta)
    assert model.mean(G, [[1.0]])[0] == 5.0
    assert model.mean(MixingMeasure([[-1.0], [0.0]], [20.0, 0.0], eta), [[1.0]])[0] == -5.0


def test_samples_follow_the_density():
    model, G, _, _ = problem("four classes", "linear")
    X = np.tile([[0.3, -0.2]], (40_000, 1))
    y = model.sample(G, X, rng=np.random.default_rng(0))
    p = model.probabilities(G, X[:1])[0]
    error = np.sqrt(p * (1 - p) / len(y))
    assert np.all(abs(np.bincount(y, minlength=4) / len(y) - p) < 4 * error)


def test_expected_scores_vanish_and_both_curvatures_agree_on_average():
    """Bartlett's identities, which fail for a wrong density: the negative control moves G."""
    model, G, _, _ = problem("gaussian", "linear")
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (40_000, 2))
    y = model.sample(G, X, rng=rng)
    here = model.expansion(G, X, y)
    standard = here.gradient / np.sqrt(np.diag(here.scores))
    assert abs(standard).max() < 4.5
    size = np.sqrt(np.outer(np.diag(here.scores), np.diag(here.scores)))
    assert abs((here.scores - here.hessian) / size).max() < 0.1
    other = model.expansion(G.from_vector(G.to_vector() + 0.1), X, y)
    assert abs(other.gradient / np.sqrt(np.diag(other.scores))).max() > 10


# ---- Fisher information --------------------------------------------------------------------------


def rank(model, G, X, y=None):
    rng = np.random.default_rng(3)
    information = model.fisher_information(G, X, rng=rng)
    scale = np.sqrt(np.diag(information))
    return np.linalg.matrix_rank(information / np.outer(scale, scale), tol=1e-10)


def test_a_free_temperature_costs_one_rank_and_an_activation_repairs_it():
    rng = np.random.default_rng(4)
    X = rng.uniform(-2, 2, (5000, 2))
    eta = [[-3.0, 2.0, 1.5, np.log(0.25)], [3.0, 1.0, -1.5, np.log(0.25)]]
    plain = GaussianMoE("temperature")
    G = plain.pinned(MixingMeasure([[3.0, -2.0], [0.0, 0.0]], [0.4, 0.0], eta, [1.0]))
    assert (rank(plain, G, X), G.shape.size) == (11, 12)
    activated = GaussianMoE("activated_temperature")
    G = activated.pinned(MixingMeasure([[3.0, -2.0], [-2.0, -3.0]], [0.5, 0.0], eta, [0.4]))
    assert (rank(activated, G, X), G.shape.size) == (14, 14)


def test_unpinned_measures_lose_the_rank_of_the_translation():
    model, G, X, _ = problem("three classes", "linear", n=4000)
    free = MixingMeasure(G.router, G.bias, G.expert)
    assert free.shape.size - rank(model, free, X) == 3  # d + 1


# ---- distances -----------------------------------------------------------------------------------


def test_distances_have_closed_forms_and_two_roads():
    model = GaussianMoE()
    at = [MixingMeasure([[0.0]], [0.0], [[0.0, m, 0.0]]) for m in (0.0, 1.0)]
    tv = density_distance(model, *at, [[0.0]])
    assert abs(tv.value - 0.3829249225480261) < 1e-7 and tv.error < 1e-4
    hellinger = density_distance(model, *at, [[0.0]], kind="hellinger")
    assert abs(hellinger.value**2 - (1 - np.exp(-1 / 8))) < 1e-12
    X = np.zeros((20_000, 1))
    sampled = monte_carlo_hellinger(model, *at, X, np.random.default_rng(0))
    assert abs(sampled.value - hellinger.value**2) < 4 * sampled.error < 0.02


def test_distances_between_classes_are_sums():
    model, G, X, _ = problem("three classes", "linear")
    H = G.from_vector(G.to_vector() + 0.1)
    p, q = model.probabilities(G, X), model.probabilities(H, X)
    distance = density_distance(model, G, H, X)
    assert distance.error == 0 and np.isclose(distance.value, 0.5 * abs(p - q).sum(axis=1).mean())
    with pytest.raises(ValueError, match="kind: expected one of"):
        density_distance(model, G, H, X, kind="kl")


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": [[np.nan, 0.0]]}, "X: expected finite"),
        ({"X": [0.0, 1.0]}, "X: expected shape"),
        ({"X": [["a", "b"]]}, "X: expected numbers"),
        ({"X": [[0.0]]}, "G: expected router"),
        ({"y": [3]}, "y: expected classes 0..2"),
        ({"y": [0.5]}, "y: expected classes 0..2"),
        ({"y": [0, 1]}, "y: expected shape"),
        ({"y": [np.inf]}, "y: expected finite"),
        ({"G": "G"}, "G: expected a MixingMeasure"),
    ],
)
def test_bad_data_are_refused_by_name(change, message):
    model, G, _, _ = problem("three classes", "linear")
    arguments = {"G": G, "X": [[0.0, 0.0]], "y": [1]} | change
    with pytest.raises(ValueError, match=message):
        model.log_density(**arguments)


def test_bad_models_are_refused():
    for make, message in (
        (lambda: MultinomialMoE(1), "classes: expected an integer >= 2"),
        (lambda: GaussianMoE("sigmoid"), "expected a softmax gate"),
        (lambda: ContaminatedMoE("laplace"), "known: expected a function"),
        (lambda: CONTAMINATED.prompt(1.5, [0.0], 1.0), "share: expected"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
