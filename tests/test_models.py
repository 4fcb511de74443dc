"""The models: values, derivatives, blocks, samples, and what they refuse."""

import inspect

import checks
import numpy as np
import pytest
from checks import (
    LINEAR_EXPERTS,
    PHI,
    SEEDS,
    check_close,
    check_constant_memory,
    check_derivative,
    check_predictions,
    finite_differences,
    inner,
    loops,
    random_measure,
    score,
    sizes,
)
from hypothesis import given, settings

import hmoe_lib as hl
from hmoe_lib import reference
from hmoe_lib.blocks import BLOCK_SIZE, Samples
from hmoe_lib.models import KeyGated, LayerGated, QueryGated

MODELS = checks.MODELS | LINEAR_EXPERTS
GATED = (hl.ValueGated, hl.OutputGated, KeyGated, QueryGated, LayerGated)
each_model = pytest.mark.parametrize("name", MODELS)
FIXED = {"H": 2, "N": 4, "K": 3, "d": 3, "seed": 11}
SMALL = {"H": 2, "N": 3, "K": 3, "d": 2, "seed": 11}


def problem(H, N, K, d, seed, n=7, **more):
    """A measure, and data it did not produce: residuals of order one."""
    rng = np.random.default_rng(seed)
    G = random_measure(rng, H, N, K, d, **more)
    return G, rng.uniform(-1, 1, (n, d)), rng.standard_normal(n)


# ---- values ----------------------------------------------------------------------------------


@each_model
@given(sizes())
@settings(max_examples=30, deadline=None)
def test_predictions_equal_plain_loops(name, size):
    G, X, _ = problem(**size, seed=size["H"] + 4 * size["K"])
    check_predictions(MODELS[name].predict, MODELS[name], G, X)


@each_model
@given(sizes(), SEEDS)
@settings(max_examples=30, deadline=None)
def test_channel_functions_equal_plain_loops(name, size, seed):
    G, X, _ = problem(**size, seed=seed, n=3)
    model = MODELS[name]
    expected = [
        [[reference.channel_function(G, h, k, x, inner(model), score(model))
          for k in range(G.channels)] for h in range(G.heads)] for x in X
    ]  # fmt: skip
    check_close(model.components(G, X), expected, 1e-12, "channels")


@each_model
@given(sizes(), SEEDS)
@settings(max_examples=20, deadline=None)
def test_predictions_are_the_weighted_channels(name, size, seed):
    G, X, _ = problem(**size, seed=seed, signed=True)
    channels = MODELS[name].components(G, X)
    if name == "output":
        channels = MODELS[name].phi(channels)
    total = np.tensordot(channels, G.omega, 2)
    if name == "layer":
        total = MODELS[name].phi(total)
    check_close(MODELS[name].predict(G, X), total, 1e-12)


def test_a_gate_at_the_wrong_place_is_found():
    """Negative control: phi outside for inside, inside for outside, none, another bias."""
    G, X, _ = problem(**FIXED)
    inside, outside = hl.ValueGated(PHI), hl.OutputGated(PHI)
    wrong = [
        (inside, outside.predict),
        (outside, inside.predict),
        (inside, hl.Mha().predict),
        (hl.Mha(), outside.predict),
        (inside, hl.ValueGated("sigmoid").predict),
        (outside, LayerGated(PHI).predict),  # G5: after the sum over channels
        (LayerGated(PHI), hl.Mha().predict),
        (KeyGated(PHI), QueryGated(PHI).predict),
        (QueryGated(PHI), KeyGated(PHI).predict),
        (KeyGated(PHI), KeyGated("sigmoid").predict),
        (outside, lambda G, X: np.tensordot(outside.components(G, X), G.omega, 2)),
    ]
    for model, predict in wrong:
        with pytest.raises(AssertionError, match="predictions: differ"):
            check_predictions(predict, model, G, X, tolerance=1e-3)


def test_one_expert_gates_coincide():
    """With N = 1 the softmax is 1, and both settings are the same model."""
    G, X, _ = problem(2, 1, 3, 2, seed=5)
    check_close(hl.ValueGated(PHI).predict(G, X), hl.OutputGated(PHI).predict(G, X), 1e-14)


def test_identity_gates_are_plain_attention():
    G, X, _ = problem(**FIXED)
    for Model in GATED:
        check_close(Model("identity").predict(G, X), hl.Mha().predict(G, X), 1e-13)


def test_only_the_key_gate_pins_an_expert_that_it_cannot_exchange():
    """x^T phi(M x) is not linear in M: exchanging a head's experts is no symmetry at G3."""
    G, X, _ = problem(**SMALL)
    for name, model in MODELS.items():
        exchanged = model.predict(G.permuted(experts=[2, 0, 1]), X)
        gap = np.abs(exchanged - model.predict(G, X)).max()
        assert gap > 1e-3 if name == "key" else gap < 1e-12, name


@pytest.mark.parametrize("name", ["mha", *LINEAR_EXPERTS])
def test_linear_experts_trade_without_a_trace(name):
    """Euler's relation and the split a +- v, with any gate that leaves the experts linear."""
    G, X, _ = problem(**SMALL)
    J = MODELS[name].jacobian(G, X)
    _, a, omega = (J[:, G.shape.slices[block]] for block in ("M", "a", "omega"))
    along = np.einsum("bhikp,hikp->bhk", a.reshape(-1, *G.a.shape), G.a)
    check_close(along, omega.reshape(-1, *G.omega.shape) * G.omega, 1e-12)
    halves = np.repeat(G.omega, 2, axis=1) / 2
    v = np.array([0.3, -0.7])
    split = np.stack([G.a + v, G.a - v], axis=3).reshape(*G.a.shape[:2], -1, 2)
    split = hl.HierarchicalMeasure(halves, G.M, split)
    check_close(MODELS[name].predict(split, X), MODELS[name].predict(G, X), 1e-12)


@pytest.mark.parametrize("name", ["value", "output"])
def test_curved_experts_show_the_trade(name):
    """Negative control of the trades."""
    with pytest.raises(AssertionError, match="values: differ"):
        test_linear_experts_trade_without_a_trace(name)


@each_model
@pytest.mark.parametrize("N", [1, 2, 4])
def test_saturated_gates_stay_finite_and_right(name, N):
    """Scores up to 1e4 either way: one expert takes all, and nothing overflows."""
    G, X, y = problem(2, N, 3, 2, seed=12)
    G = hl.HierarchicalMeasure(G.omega, 1e4 * G.M, G.a)
    check_predictions(MODELS[name].predict, MODELS[name], G, X)
    here = MODELS[name].normal_equations(G, X, y, curvature=True)
    assert all(np.isfinite(part).all() for part in here)


# ---- derivatives -----------------------------------------------------------------------------


def at(G, theta):
    return G.from_vector(theta)


def check_jacobian(model, G, X, jacobian=None):
    jacobian = jacobian or model.jacobian
    check_derivative(lambda t: model.predict(at(G, t), X), lambda t: jacobian(at(G, t), X),
                     G.to_vector())  # fmt: skip


def check_gradient(model, G, X, y, gradient=None):
    gradient = gradient or (lambda G, X, y: model.loss_and_gradient(G, X, y)[1])
    check_derivative(lambda t: np.mean((model.predict(at(G, t), X) - y) ** 2),
                     lambda t: gradient(at(G, t), X, y), G.to_vector())  # fmt: skip


def check_half_hessian(model, G, X, y, half_hessian):
    check_derivative(lambda t: 0.5 * model.loss_and_gradient(at(G, t), X, y)[1],
                     lambda t: half_hessian(model.normal_equations(at(G, t), X, y, True)),
                     G.to_vector())  # fmt: skip


def exact(here):
    return here.gram + here.curvature


@each_model
@given(sizes(H=2, K=3), SEEDS)
@settings(max_examples=8, deadline=None)
def test_jacobian_and_gradient_equal_finite_differences(name, size, seed):
    G, X, y = problem(**size, seed=seed, signed=True)
    check_jacobian(MODELS[name], G, X)
    check_gradient(MODELS[name], G, X, y)


@each_model
def test_jacobian_and_gradient_with_many_experts_and_channels(name):
    G, X, y = problem(**FIXED)
    check_jacobian(MODELS[name], G, X)
    check_gradient(MODELS[name], G, X, y)


@each_model
@given(sizes(), SEEDS)
@settings(max_examples=20, deadline=None)
def test_normal_equations_are_sums_of_the_jacobian(name, size, seed):
    G, X, y = problem(**size, seed=seed)
    model = MODELS[name]
    J, r = model.jacobian(G, X), model.predict(G, X) - y
    here = model.normal_equations(G, X, y)
    assert here.curvature is None or isinstance(model, hl.Mha)
    loss, gradient = model.loss_and_gradient(G, X, y)
    check_close(here.loss, np.mean(r**2), 1e-12, "loss")
    check_close(loss, np.mean(r**2), 1e-12, "loss")
    check_close(here.gradient, J.T @ r / len(r), 1e-12, "gradient")
    check_close(gradient, 2.0 * here.gradient, 1e-12, "gradient")
    check_close(here.gram, J.T @ J / len(r), 1e-12, "gram")
    check_close(model.loss_at(G.to_vector(), G.shape, Samples(X, y)), loss, 1e-12, "loss")


@pytest.mark.parametrize("name", ["value", "output"])
@given(sizes(H=2, K=3), SEEDS)
@settings(max_examples=6, deadline=None)
def test_gram_and_curvature_are_half_the_hessian(name, size, seed):
    G, X, y = problem(**size, seed=seed, signed=True)
    check_half_hessian(MODELS[name], G, X, y, exact)


@pytest.mark.parametrize("name", ["value", "output"])
def test_hessian_with_many_experts_and_channels(name):
    G, X, y = problem(**FIXED)
    check_half_hessian(MODELS[name], G, X, y, exact)
    here = MODELS[name].normal_equations(G, X, y, curvature=True)
    check_close(here.curvature, here.curvature.T, 1e-15)
    for part, without in zip(here[:3], MODELS[name].normal_equations(G, X, y), strict=False):
        check_close(part, without, 1e-13)


def test_plain_attention_reports_no_curvature():
    G, X, y = problem(**FIXED)
    here = hl.Mha().normal_equations(G, X, y, curvature=True)
    assert not here.curvature.any() and here.curvature.shape == here.gram.shape
    assert "curvature" in inspect.getdoc(hl.Mha.normal_equations_at)


@pytest.mark.parametrize("activation", ["gelu", "silu", "exp", "sin", "softplus", "power2", "erf"])
@pytest.mark.parametrize("Model", [hl.ValueGated, hl.OutputGated])
def test_derivatives_with_other_activations(activation, Model):
    G, X, y = problem(2, 3, 3, 2, seed=13, spread=0.5)
    model = Model(activation, bias=0.3)
    check_jacobian(model, G, X)
    check_gradient(model, G, X, y)
    check_half_hessian(model, G, X, y, exact)


READERS = {
    "derivative is the argument": (lambda z: z * z / 2, lambda z: z, np.ones_like),
    "value is the argument": (lambda z: z, np.ones_like, np.zeros_like),
    "constants": (lambda z: 2 * z, lambda z: 2, lambda z: 0),
    "booleans and views": (
        lambda z: np.maximum(z, 0),
        lambda z: z > 0,
        lambda z: np.broadcast_to(0.0, z.shape),
    ),
}


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("Model", [hl.ValueGated, hl.OutputGated])
def test_derivatives_with_a_readers_activation(kind, Model):
    """Arrays that a reader's functions return may be their argument: none is changed in place."""
    G, X, y = problem(2, 3, 3, 2, seed=14)
    model = Model(hl.Activation(kind, *READERS[kind], expression="z"))
    check_jacobian(model, G, X)
    check_gradient(model, G, X, y)
    check_half_hessian(model, G, X, y, exact)


def swapped(G, vector, block, first, second):
    """A derivative with two axes of one block exchanged, parameters on the last axis."""
    names = {"M": 0, "a": 1, "omega": 2}
    parts = [np.array(part) for part in G.shape.split(np.array(vector))]
    part = parts[names[block]]
    parts[names[block]] = part.swapaxes(first, second)
    return np.concatenate([part.ravel() for part in parts])


@each_model
def test_transposed_blocks_of_a_gradient_are_found(name):
    """Negative control: gradient and parameters in different orders, which K = 1 would hide."""
    G, X, y = problem(**SMALL)
    model = MODELS[name]
    right = model.loss_and_gradient(G, X, y)[1]
    # Axes of (H, N-1, pairs), (H, N, K, d) and (H, K), of the same size or of different sizes.
    for block, first, second in [("M", 0, 1), ("a", 0, 2), ("a", 1, 2), ("a", 2, 3),
                                 ("omega", 0, 1)]:  # fmt: skip
        wrong = swapped(G, right, block, first, second)
        with pytest.raises(AssertionError, match="derivatives: differ"):
            check_gradient(model, G, X, y, lambda *_, wrong=wrong: wrong)


@each_model
def test_broken_derivatives_are_found(name):
    """Negative control: a factor, a sign, a lost 2 of the off-diagonal entries, a lost mean."""
    G, X, y = problem(**SMALL)
    model = MODELS[name]
    p, q = np.triu_indices(G.dim)
    off_diagonal = np.ones(G.shape.size)
    G.shape.split(off_diagonal)[0][...] = np.where(p == q, 1.0, 0.5)
    one_sign = np.ones(G.shape.size)
    one_sign[-1] = -1.0
    check_jacobian(model, G, X, lambda G, X: model.jacobian(G, X) * 1.0)
    for factor in (1.0 + 1e-5, off_diagonal, one_sign):
        with pytest.raises(AssertionError, match="derivatives: differ"):
            check_jacobian(model, G, X, lambda G, X, f=factor: model.jacobian(G, X) * f)
    with pytest.raises(AssertionError, match="derivatives: differ"):
        check_gradient(model, G, X, y, lambda *data: model.normal_equations(*data).gradient)


@pytest.mark.parametrize("name", ["value", "output"])
def test_a_hessian_without_a_part_of_the_curvature_is_found(name):
    """Negative control: Gauss-Newton alone, and each pair of blocks left out in turn."""
    G, X, y = problem(**SMALL)
    with pytest.raises(AssertionError, match="derivatives: differ"):
        check_half_hessian(MODELS[name], G, X, y, lambda here: here.gram)
    at_block = G.shape.slices
    for rows, columns in [("M", "M"), ("M", "a"), ("a", "a"), ("M", "omega"), ("a", "omega")]:

        def without(here, rows=at_block[rows], columns=at_block[columns]):
            half = exact(here)
            half[rows, columns] -= here.curvature[rows, columns]
            return half

        with pytest.raises(AssertionError, match="derivatives: differ"):
            check_half_hessian(MODELS[name], G, X, y, without)


def test_finite_differences_themselves():
    """The yardstick on a function whose derivative is known, and on one with a kink."""
    theta = np.array([0.3, -1.2])
    got = finite_differences(lambda t: np.array([np.sin(t[0]) * t[1], t[0] ** 3]), theta)
    expected = [[np.cos(0.3) * -1.2, np.sin(0.3)], [3 * 0.09, 0.0]]
    check_close(got, expected, 1e-11)
    with pytest.raises(AssertionError):
        check_derivative(lambda t: np.abs(t), lambda t: np.eye(1), [1e-4])


# ---- blocks ----------------------------------------------------------------------------------


def check_block_independence(sums, n=200):
    """sums(samples) with blocks of one, of seven, and all in one."""
    rng = np.random.default_rng(16)
    X, y = rng.uniform(-1, 1, (n, 3)), rng.standard_normal(n)
    whole = sums(Samples(X, y, size=10 * n))
    for size in (1, 7, n - 1, n):
        for part, expected in zip(sums(Samples(X, y, size=size)), whole, strict=True):
            check_close(part, expected, 1e-12, f"blocks of {size}")


@each_model
def test_sums_do_not_depend_on_the_size_of_the_blocks(name):
    G, *_ = problem(**FIXED)
    model, theta = MODELS[name], G.to_vector()
    check_block_independence(lambda s: model.normal_equations_at(theta, G.shape, s, True))
    check_block_independence(lambda s: model.loss_and_gradient_at(theta, G.shape, s))
    check_block_independence(lambda s: [model.loss_at(theta, G.shape, s)])


@each_model
def test_rows_do_not_depend_on_the_blocks_they_are_in(name):
    n = BLOCK_SIZE + 61
    G, X, _ = problem(2, 3, 2, 2, seed=17, n=n)
    for function in (MODELS[name].predict, MODELS[name].components, MODELS[name].jacobian):
        pieces = [function(G, X[start : start + 997]) for start in range(0, n, 997)]
        check_close(np.concatenate(pieces), function(G, X), 1e-13)


def test_a_lost_block_and_a_mean_of_means_are_found():
    """Negative control: the last, shorter block dropped; blocks averaged with equal weights."""
    G, *_ = problem(**FIXED)
    theta = G.to_vector()

    def mean_of_means(samples):
        losses = [
            hl.Mha().loss_at(theta, G.shape, Samples(block.x.T, block.y)) for block in samples
        ]
        return [np.mean(losses)]

    def last_lost(samples):
        whole = len(samples) // samples.size * samples.size or len(samples)
        return [hl.Mha().loss_at(theta, G.shape, samples.head(whole))]

    for broken in (mean_of_means, last_lost):
        with pytest.raises(AssertionError, match="blocks of"):
            check_block_independence(broken)


@each_model
def test_memory_does_not_grow_with_the_sample(name):
    G, *_ = problem(2, 2, 2, 2, seed=18)
    model, theta = MODELS[name], G.to_vector()

    def make(n):
        rng = np.random.default_rng(19)
        return Samples(rng.uniform(-1, 1, (n, 2)), rng.standard_normal(n))

    for curvature in (False, True):
        check_constant_memory(
            lambda s, c=curvature: model.normal_equations_at(theta, G.shape, s, c), make
        )
    check_constant_memory(lambda s: model.loss_and_gradient_at(theta, G.shape, s), make)
    check_constant_memory(lambda s: model.loss_at(theta, G.shape, s), make)
    # Negative controls: the whole Jacobian, or only the whole residual.
    for wasteful in (model.jacobian, model.predict):
        with pytest.raises(AssertionError, match="peaks"):
            check_constant_memory(lambda s, f=wasteful: f(G, s.X), make)


# ---- overflow --------------------------------------------------------------------------------


@pytest.mark.parametrize("Model", [hl.ValueGated, hl.OutputGated])
def test_overflow_is_an_infinite_loss_without_a_warning(Model):
    """A line search may come here; warnings are errors in this test."""
    G, X, y = problem(1, 2, 2, 2, seed=20, spread=1.0)
    far = hl.HierarchicalMeasure(G.omega, G.M, 1e4 * np.abs(G.a))
    X = np.abs(X)
    model = Model("exp")
    assert not np.isfinite(model.loss_at(far.to_vector(), far.shape, Samples(X, y)))
    assert not np.isfinite(model.loss_and_gradient(far, X, y)[0])
    assert not np.isfinite(model.normal_equations(far, X, y).loss)


def test_a_derivative_that_overflows_makes_the_loss_infinite():
    """omega = 1e-170 keeps the function finite where its derivative in omega squared is not."""
    G = hl.HierarchicalMeasure([[1e-170]], [[[[0.0]]]], [[[[400.0]]]])
    X, y = np.ones((3, 1)), np.zeros(3)
    model = hl.ValueGated("exp")
    assert np.isfinite(model.loss_at(G.to_vector(), G.shape, Samples(X, y)))
    assert model.normal_equations(G, X, y).loss == np.inf


# ---- samples ---------------------------------------------------------------------------------


@each_model
def test_samples_follow_their_seed(name):
    G, *_ = problem(**FIXED)
    one, same, other = (
        MODELS[name].sample(G, 50, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(one[0], same[0]) and np.array_equal(one[1], same[1])
    assert not np.array_equal(one[0], other[0])
    assert one[0].shape == (50, 3) and one[1].shape == (50,)


@each_model
def test_samples_are_uniform_with_gaussian_noise(name):
    G, *_ = problem(**FIXED)
    n = 40_000
    X, y = MODELS[name].sample(G, n, noise_sd=0.25, rng=np.random.default_rng(3))
    assert np.abs(X).max() <= 1 and X.min() < -0.999 and X.max() > 0.999
    # Moments of U[-1, 1] and of N(0, 0.25^2), each within five standard errors.
    assert np.abs(X.mean(0)).max() < 5 * np.sqrt(1 / 3 / n)
    assert np.abs((X**2).mean(0) - 1 / 3).max() < 5 * np.sqrt(4 / 45 / n)
    assert np.abs(np.corrcoef(X.T) - np.eye(3)).max() < 5 / np.sqrt(n)
    noise = (y - MODELS[name].predict(G, X)) / 0.25
    assert abs(noise.mean()) < 5 / np.sqrt(n)
    assert abs((noise**2).mean() - 1) < 5 * np.sqrt(2 / n)
    assert abs((noise**4).mean() - 3) < 5 * np.sqrt(96 / n)  # uniform noise would give 1.8
    assert abs(np.mean(noise * X[:, 0])) < 5 / np.sqrt(n)


@pytest.mark.parametrize("n", [1, 2, 7, 3.0])
def test_any_number_of_samples_can_be_drawn(n):
    G, *_ = problem(**FIXED)
    X, y = hl.Mha().sample(G, n, rng=np.random.default_rng(0))
    assert X.shape == (n, 3) and y.shape == (n,)


def test_samples_without_noise_are_the_function():
    G, *_ = problem(**FIXED)
    X, y = hl.Mha().sample(G, 20, noise_sd=0.0, rng=np.random.default_rng(0))
    assert np.array_equal(y, hl.Mha().predict(G, X))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n": 0}, "n: expected an integer >= 1, got 0"),
        ({"n": 1.5}, "n: expected an integer >= 1, got 1.5"),
        ({"n": np.nan}, "n: expected an integer >= 1, got nan"),
        ({"n": "10"}, "n: expected an integer >= 1, got '10'"),
        ({"noise_sd": -0.1}, "noise_sd: expected a finite number >= 0, got -0.1"),
        ({"noise_sd": np.inf}, "noise_sd: expected a finite number >= 0, got inf"),
        ({"noise_sd": None}, "noise_sd: expected a finite number >= 0, got None"),
        ({"rng": None}, "rng: expected a numpy Generator, got NoneType"),
        ({"rng": 0}, "rng: expected a numpy Generator, got int"),
        ({"rng": np.random.RandomState(0)}, "rng: expected a numpy Generator, got RandomState"),
        ({"G": None}, "G: expected a HierarchicalMeasure, got NoneType"),
    ],
)
def test_samples_refuse(changed, message):
    G, *_ = problem(**FIXED)
    arguments = {"G": G, "n": 10, "rng": np.random.default_rng(0)} | changed
    with pytest.raises(ValueError, match=message):
        hl.Mha().sample(**arguments)


# ---- bad input -------------------------------------------------------------------------------


@each_model
@pytest.mark.parametrize("method", ["predict", "components", "jacobian"])
def test_wrong_inputs_are_named(name, method):
    G, X, _ = problem(**FIXED)
    function = getattr(MODELS[name], method)
    nan = X.copy()
    nan[2, 1] = np.nan
    for wrong, message in [
        (X.T, r"X: expected shape \(n, 3\) for this measure, got \(3, 7\)"),
        (X[:, :2], r"X: expected shape \(n, 3\) for this measure, got \(7, 2\)"),
        (X[0], r"X: expected shape \(n, d\), not empty, got \(3,\)"),
        (X[:0], r"X: .*not empty, got \(0, 3\)"),
        (nan, "X: expected finite numbers, got NaN or infinity"),
        (nan * np.inf, "X: expected finite"),
        ("text", "X: expected numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            function(G, wrong)
    with pytest.raises(ValueError, match="G: expected a HierarchicalMeasure, got tuple"):
        function((G.omega, G.M, G.a), X)


@each_model
@pytest.mark.parametrize("method", ["loss_and_gradient", "normal_equations"])
def test_wrong_responses_are_named(name, method):
    """A column for a row would broadcast to n x n without a word."""
    G, X, y = problem(**FIXED)
    function = getattr(MODELS[name], method)
    for wrong, message in [
        (y[:, None], r"y: expected shape \(n,\), not empty, got \(7, 1\)"),
        (y[None], r"y: expected shape \(n,\), not empty, got \(1, 7\)"),
        (y[:-1], r"y: expected shape \(7,\) to match X, got \(6,\)"),
        (np.full(7, np.nan), "y: expected finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            function(G, X, wrong)


@pytest.mark.parametrize("Model", [hl.ValueGated, hl.OutputGated])
def test_models_take_names_and_activations(Model):
    G, X, _ = problem(**FIXED)
    by_name = Model("sigmoid", bias=1.0).predict(G, X)
    assert np.array_equal(Model(PHI).predict(G, X), by_name)
    assert not np.array_equal(Model("sigmoid").predict(G, X), by_name)
    assert Model().phi.name == "sigmoid"
    with pytest.raises(ValueError, match="did you mean 'sigmoid'"):
        Model("sigmoyd")


@each_model
def test_lists_are_arrays_too(name):
    G, X, _ = problem(**FIXED)
    expected = [loops(MODELS[name], G, x) for x in X]
    check_close(MODELS[name].predict(G, X.tolist()), expected, 1e-12)
