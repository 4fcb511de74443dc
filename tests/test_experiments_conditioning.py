"""How well a truth is resolved, by two roads; the search; the declared truths."""

import numpy as np
import pytest
from checks import check_close, random_measure

import hmoe_lib as hl
from hmoe_lib.experiments import TRUTH_OUTPUT, TRUTH_VALUE, conditioning, declared_truth
from hmoe_lib.experiments import search_truth as search
from hmoe_lib.models import KeyGated, LayerGated, QueryGated

SIGMOID = {"phi": "sigmoid", "bias": 1.0}
SETTINGS = {"value": hl.ValueGated(**SIGMOID), "output": hl.OutputGated(**SIGMOID)}
LINEAR = {
    "key": KeyGated(**SIGMOID),
    "query": QueryGated(**SIGMOID),
    "layer": LayerGated(**SIGMOID),
}
each_setting = pytest.mark.parametrize("name", SETTINGS)


def points(d, count=900, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (count, d))


def split(G, h, k, v, delta):
    """The truth with channel (h, k) split into equal halves a +- delta v."""
    omega = np.insert(G.omega, k, 0.0, axis=1)
    a = np.insert(G.a, k, G.a[:, :, k], axis=2)
    omega[:, k] = omega[:, k + 1] = G.omega[:, k] / 2
    a[h, :, k] += delta * v
    a[h, :, k + 1] -= delta * v
    return hl.HierarchicalMeasure(omega, G.M, a)


def resolutions(model, G, X, n, noise_sd, rng, directions=300, project=True):
    """Resolution in random directions, from the functions themselves instead of derivatives."""
    Q, _ = np.linalg.qr(model.jacobian(G, X))
    values = []
    for h, k in np.ndindex(G.omega.shape):
        for v in rng.standard_normal((directions, G.experts, G.dim)):
            moved = split(G, h, k, v / np.linalg.norm(v), 1e-3)
            change = (model.predict(moved, X) - model.predict(G, X)) / 1e-6
            if project:
                change -= Q @ (Q.T @ change)
            values.append((3.84 * noise_sd**2 / (n * np.mean(change**2))) ** 0.25)
    return np.array(values)


@each_setting
def test_the_resolution_is_the_worst_of_many_splits(name):
    """No direction is worse, and some random direction is nearly as bad."""
    model, X = SETTINGS[name], points(2)
    G = random_measure(np.random.default_rng(1), H=2, N=2, K=2, spread=3.0)
    seen = conditioning(model, G, X, n=500, noise_sd=0.2)
    tried = resolutions(model, G, X, 500, 0.2, np.random.default_rng(2))
    assert tried.max() <= seen.resolution * (1 + 1e-4)
    assert tried.max() > 0.8 * seen.resolution
    # Negative control: without the projection every split looks easier than it is.
    easy = resolutions(model, G, X, 500, 0.2, np.random.default_rng(2), 100, project=False)
    assert easy.max() < 0.8 * seen.resolution


@each_setting
def test_the_standard_error_is_that_of_the_worst_combination(name):
    model, X = SETTINGS[name], points(2)
    G = random_measure(np.random.default_rng(3), H=2, N=2, K=2, spread=2.0)
    J = model.jacobian(G, X)
    covariance = 0.2**2 / 500 * np.linalg.inv(J.T @ J / len(X))
    seen = conditioning(model, G, X, n=500, noise_sd=0.2)
    check_close(seen.standard_error**2, np.linalg.eigvalsh(covariance)[-1], 1e-6)
    assert seen.score == seen.resolution + 0.5 * seen.standard_error


@each_setting
def test_how_both_numbers_scale(name):
    """Standard error like n^{-1/2} and the noise, resolution like n^{-1/4} and its root."""
    model, X = SETTINGS[name], points(2)
    G = {"value": TRUTH_VALUE, "output": TRUTH_OUTPUT}[name]
    one, more, louder = (
        conditioning(model, G, X, n, sd) for n, sd in ((1e4, 0.1), (16e4, 0.1), (1e4, 0.4))
    )
    check_close(np.divide(one, more), [4.0, 2.0], 1e-9)
    check_close(np.divide(louder, one), [4.0, 2.0], 1e-9)


def test_a_channel_without_weight_is_never_resolved():
    G = hl.HierarchicalMeasure([[8.0, 0.0], [8.0, 8.0]], TRUTH_VALUE.M, TRUTH_VALUE.a)
    seen = conditioning(SETTINGS["value"], G, points(2))
    assert seen.resolution == np.inf or seen.resolution > 1e3
    assert seen.standard_error > 1e6


@pytest.mark.parametrize("name", LINEAR)
def test_linear_experts_have_as_many_combinations_as_counted(name):
    """12 of 26 for d = H = N = K = 2: the twelfth singular value is far above the thirteenth."""
    G, X = declared_truth(name, 2, 2), points(2)
    singular = np.linalg.svd(LINEAR[name].jacobian(G, X) / 30.0, compute_uv=False)
    assert singular[11] > 1e-3 and singular[12] < 1e-10
    seen = conditioning(LINEAR[name], G, X)
    check_close(seen.standard_error, 0.1 / 100 / singular[11], 1e-9)
    assert seen.resolution == np.inf and seen.score == 0.5 * seen.standard_error


@pytest.mark.parametrize("name", [*SETTINGS, "layer"])
def test_the_search_follows_its_seed_and_improves(name):
    model = {**SETTINGS, **LINEAR}[name]
    options = {"points": 200, "draws": 6}
    short, again, longer = (
        search(model, 1, 2, rng=np.random.default_rng(4), steps=steps, **options)
        for steps in (1, 1, 40)
    )
    X = points(2, 200, seed=4)  # those of the search: it draws them first
    assert short == again
    assert conditioning(model, longer, X).score < conditioning(model, short, X).score
    assert np.array_equal(longer.a, longer.a.round(1)) and np.abs(longer.a).max() <= 12


@pytest.mark.parametrize(("heads", "dim"), [(1, 2), (4, 2), (2, 4), (2, 8)])
@each_setting
def test_the_declared_truths_are_better_resolved_than_random_ones(name, heads, dim):
    rng, X = np.random.default_rng(5), points(dim, 700)
    G, model = declared_truth(name, heads, dim), SETTINGS[name]
    assert G.shape == (heads, 2, 2, dim) and np.all(G.omega == 8)
    drawn = [
        hl.HierarchicalMeasure.normalized(
            G.omega,
            rng.uniform(-1, 1, G.M.shape) * np.abs(G.M).max(),
            rng.uniform(-1, 1, G.a.shape) * np.abs(G.a).max(),
        )
        for _ in range(8)
    ]
    scores = [conditioning(model, other, X).score for other in drawn]
    assert conditioning(model, G, X).score < min(scores)


def test_what_is_refused():
    X = points(2)
    with pytest.raises(ValueError, match="model: expected a model such as"):
        conditioning("value", TRUTH_VALUE, X)
    with pytest.raises(ValueError, match="X: expected more than 26 points, got 26"):
        conditioning(SETTINGS["value"], TRUTH_VALUE, X[:26])
    with pytest.raises(ValueError, match="n: expected a finite number > 0"):
        conditioning(SETTINGS["value"], TRUTH_VALUE, X, n=0)
    with pytest.raises(ValueError, match="steps: expected an integer >= 1, got 0"):
        search(SETTINGS["value"], 1, 1, rng=np.random.default_rng(0), steps=0)
    with pytest.raises(ValueError, match=r"truth: expected setting, .* got \('value', 3, 2\)"):
        declared_truth("value", 3, 2)
