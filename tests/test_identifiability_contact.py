"""Gram matrices, orders of contact, identities and series."""

import numpy as np
import pytest
import sympy

import hmoe_lib as hl
from hmoe_lib import identifiability as engine
from hmoe_lib.identifiability import conditions
from hmoe_lib.identifiability.admission import admit
from hmoe_lib.identifiability.gram import ModelGram, cube_rule, gram, gram_of
from hmoe_lib.identifiability.parsing import parse_activation
from hmoe_lib.identifiability.relations import Problem
from hmoe_lib.identifiability.tape import Arrays
from hmoe_lib.identifiability.truths import generic_atoms, generic_truth, read_truth
from hmoe_lib.identifiability.verdict import place_of

O = [[0, 0], [0, 0]]  # noqa: E741
TRUTH = hl.HierarchicalMeasure(
    [[7.87, 6.55], [7.63, 6.80]],
    [[[[-9.08, 21.41], [21.41, 3.36]], O], [[[-4.98, -14.74], [-14.74, 4.02]], O]],
    [
        [[(2.92, -6.01), (-4.14, 4.91)], [(0.60, 4.33), (4.60, 7.38)]],
        [[(4.80, -2.08), (-8.42, -0.40)], [(-0.32, 3.54), (7.68, -7.92)]],
    ],
)
TRUTH_2 = hl.HierarchicalMeasure(
    [[7.47, 7.54], [7.93, 7.79]],
    [[[[-3.23, -5.26], [-5.26, 2.04]], O], [[[-3.75, 2.95], [2.95, 0.90]], O]],
    [
        [[(-10.42, -12.17), (0.52, 4.31)], [(-2.71, 2.56), (3.71, 4.70)]],
        [[(-1.40, 2.62), (7.09, -11.60)], [(-0.94, -16.31), (3.79, 10.32)]],
    ],
)
SMALL = hl.HierarchicalMeasure([[2.0]], [[[[1.0]], [[0.0]]]], [[[[1.5]], [[-1.0]]]])
SIGMOID_1 = hl.ValueGated("sigmoid", bias=1.0)
SIGMOID_2 = hl.OutputGated("sigmoid", bias=1.0)


# ---- orders of contact -----------------------------------------------------------------------


@pytest.mark.parametrize(("model", "truth"), [(SIGMOID_1, TRUTH), (SIGMOID_2, TRUTH_2)])
def test_gated_attention_has_order_2_and_an_exact_fit_order_1(model, truth):
    split = engine.contact_order(model, truth, (0, 0, 0, 0))
    assert split.integer == 2 and split.error < 0.05
    assert split.rate == pytest.approx(-0.25, abs=0.01)
    fitted_once = engine.contact_order(model, truth, (0, 0, 0, 0), split=False)
    assert fitted_once.integer == 1
    assert np.all(split.distances < fitted_once.distances)


def test_plain_attention_has_infinite_order_with_a_proved_identity():
    identity = engine.prove_identity("mha", TRUTH, engine.plain_split(TRUTH, 0, 0, 0, 0))
    assert identity.proved and engine.plain_split(TRUTH) == engine.plain_split(TRUTH, 0, 0, 0, 0)
    contact = engine.contact_order(hl.Mha(), TRUTH, identity=identity)
    assert contact.order == np.inf and contact.proved and contact.resolution(1e9) == np.inf
    assert contact.rate == 0.0 and contact.integer is None
    without = engine.contact_order(hl.Mha(), TRUTH)
    assert np.isnan(without.order) and not without.proved and "identity" in str(without)


def test_an_identity_that_is_not_proved_is_refused():
    false = engine.prove_identity("I", TRUTH, engine.plain_split(TRUTH), "tanh")
    assert not false.proved
    with pytest.raises(ValueError, match="not proved"):
        engine.contact_order(hl.Mha(), TRUTH, identity=false)


def test_gates_are_learned_at_the_parametric_rate_in_every_setting():
    for model in (SIGMOID_1, hl.Mha()):
        assert engine.contact_order(model, SMALL, ("M", 0, 0, 0, 0)).integer == 1
    assert engine.contact_order(SIGMOID_1, SMALL, ("omega", 0, 0)).integer == 1
    assert np.isnan(engine.contact_order(hl.Mha(), SMALL, ("omega", 0, 0)).order)


@pytest.mark.parametrize("phi", ["exp", "sin", "gelu"])
def test_numerator_lists_do_not_decide_the_order(phi):
    assert engine.contact_order(hl.ValueGated(phi), SMALL).integer == 2


@pytest.mark.parametrize(("phi", "degree"), [("power2", 2), ("power3", 3), ("identity", 1)])
def test_homogeneous_activations_have_infinite_order(phi, degree):
    truth = read_truth(SMALL, 1)
    split = engine.homogeneous_split(truth, degree)
    identity = engine.prove_identity("I", truth, split, phi, dim=1)
    assert identity.proved
    wrong = engine.homogeneous_split(truth, degree + 1)
    assert not engine.prove_identity("I", truth, wrong, phi, dim=1).proved
    contact = engine.contact_order(hl.ValueGated(phi), SMALL, identity=identity)
    assert contact.order == np.inf


def test_resolution_is_where_noise_hides_the_distance():
    contact = engine.contact_order(SIGMOID_1, SMALL)
    n, sd = 1e6, 0.2
    delta = contact.resolution(n, sd)
    assert n * (contact.constant * delta**contact.order) ** 2 == pytest.approx(3.84 * sd**2)
    assert contact.resolution(16 * n, sd) == pytest.approx(delta / 2, rel=0.02)


def test_minimised_distance_is_below_the_plain_split():
    contact = engine.contact_order(SIGMOID_1, SMALL, deltas=[0.4, 0.3, 0.2, 0.1])
    X, w = cube_rule(1, 20)
    a = SMALL.a.copy()
    pair = np.concatenate([a, a[:, :, :1]], axis=2)
    for delta, distance in zip(contact.deltas, contact.distances, strict=True):
        moved = pair.copy()
        moved[0, 0, 0, 0] += delta
        moved[0, 0, 1, 0] -= delta
        G = hl.HierarchicalMeasure([[1.0, 1.0]], SMALL.M, moved)
        plain = np.sqrt(w @ (SIGMOID_1.predict(G, X) - SIGMOID_1.predict(SMALL, X)) ** 2)
        assert 0 < distance < plain


@pytest.mark.parametrize(
    ("setting", "phi", "order"),
    [
        ("mha", None, np.inf),
        ("I", "z", np.inf),
        ("II", "z", np.inf),
        ("I", "sigmoid(z + 1)", 2),
        ("II", "sigmoid(z + 1)", 2),
        ("I", "gelu", 2),
    ],
)
def test_series_of_the_split(setting, phi, order):
    found, leading = engine.split_series(setting, phi)
    assert found == order
    assert (leading == 0) is (order == np.inf)


def test_slopes_that_spread_give_no_integer():
    """Two channels in one dimension are too flat for these displacements: said, not rounded."""
    flat = hl.HierarchicalMeasure([[2.0, 1.0]], SMALL.M, [[[[1.5], [0.7]], [[-1.0], [2.0]]]])
    contact = engine.contact_order(SIGMOID_1, flat, ("omega", 0, 1))
    assert contact.error > 0.25 and contact.integer is None


def test_orders_are_proved_where_series_and_certificate_meet():
    assert engine.prove_order("mha", truth=TRUTH).order == np.inf
    for setting, truth in (("I", TRUTH), ("II", TRUTH_2)):
        assert engine.prove_order(setting, "sigmoid(z + 1)", truth).order == 2
    assert engine.prove_order("I", "gelu").order == 2
    assert engine.prove_order("I", "z").order == np.inf
    failing = engine.prove_order("I", "z**2")
    assert failing.order is None and "does not hold" in failing.lower


def test_bad_coordinates_and_displacements():
    for coordinate in ((0, 0, 0, 1), (1, 0, 0, 0), (0, 0, 0), ("b", 0, 0), ("M", 0, 1, 0, 0)):
        with pytest.raises(ValueError, match="coordinate: expected"):
            engine.contact_order(SIGMOID_1, SMALL, coordinate)
    with pytest.raises(ValueError, match="deltas: expected"):
        engine.contact_order(SIGMOID_1, SMALL, deltas=[0.1, 0.2, 0.3])


# ---- Gram matrices ---------------------------------------------------------------------------


def test_model_functions_are_the_models_own_derivatives():
    """First derivatives of the family against the Jacobian of the numerical model."""
    X = np.random.default_rng(3).uniform(-1, 1, (40, 2))
    for setting, model in (("I", SIGMOID_1), ("II", SIGMOID_2)):
        family = conditions.model(read_truth(TRUTH, 2), setting)
        places = [i for i, f in enumerate(family.listed) if len(f.by) == 1]
        problem = engine.Problem(family.subset(places), engine.parse_activation(model.phi))
        F = np.stack(problem.tape.run(list(X.T), Arrays()), axis=1)
        J = model.jacobian(TRUTH, X)
        assert F.shape == J.shape == (40, 26)
        order = [int(np.argmin(np.abs(J - F[:, [c]]).sum(0))) for c in range(26)]
        assert sorted(order) == list(range(26))
        assert np.abs(J[:, order] - F).max() < 1e-9 * np.abs(J).max()


def test_second_derivatives_against_differences():
    X = np.random.default_rng(4).uniform(-1, 1, (20, 1))
    for setting, model in (("I", SIGMOID_1), ("II", SIGMOID_2)):
        family = conditions.model(read_truth(SMALL, 1), setting)
        problem = engine.Problem(family, engine.parse_activation(model.phi))
        F = problem.tape.run(list(X.T), Arrays())
        at = SMALL.shape.slices["a"].start
        h = 1e-4
        plus, minus = (SMALL.to_vector() + s * h * np.eye(SMALL.shape.size)[at] for s in (1, -1))
        values = [model.predict(SMALL.from_vector(v), X) for v in (plus, SMALL.to_vector(), minus)]
        second = (values[0] - 2 * values[1] + values[2]) / h**2
        assert F[family.labels.index("d2/da111_1^2 g")] == pytest.approx(second, abs=1e-6)


def test_gram_of_quadrature_sampling_and_the_compiled_search_agree():
    exact = gram("sigmoid(z + 1)", atoms=TRUTH, nodes=40)
    assert exact.matrix.shape == (50, 50) and exact.error < 0.01 * exact.smallest
    assert np.allclose(np.diag(exact.matrix), 1.0)
    search = ModelGram("sigmoid(z + 1)", (2, 2, 2, 2), nodes=40)
    assert search(TRUTH).smallest == pytest.approx(exact.smallest, rel=1e-6)
    drawn = gram("sigmoid(z + 1)", atoms=TRUTH, samples=20_000, rng=np.random.default_rng(5))
    assert abs(drawn.smallest - exact.smallest) < 6 * drawn.error


@pytest.mark.parametrize("scaling", ["unit", "raw"])
def test_the_error_of_a_sampled_gram_matrix_is_that_of_its_eigenvalue(scaling):
    """The spread over forty samples; its own relative error is one ninth."""
    family, reach = place_of(1, "sharp", "I", None)
    problem = Problem(family, admit(parse_activation("tanh"), reach))
    places = problem.coincidences()[1]
    found = [
        gram_of(problem, places, 24, scaling, samples=4000, rng=np.random.default_rng(seed))
        for seed in range(40)
    ]
    spread = np.std([g.smallest for g in found], ddof=1)
    assert 0.6 < np.mean([g.error for g in found]) / spread < 1.6
    exact = gram_of(problem, places, 24, scaling)
    assert abs(np.mean([g.smallest for g in found]) - exact.smallest) < spread


def test_dependent_functions_have_a_singular_gram_matrix():
    failing, passing = gram("z**2"), gram("sigmoid(z + 1)")
    assert failing.smallest == 0.0 < 1e-13 < passing.smallest
    assert failing.sample_size() == np.inf > passing.sample_size()


def test_scalings_and_the_sample_size():
    unit, raw = (gram("tanh", dim=1, condition="sharp", scaling=s) for s in ("unit", "raw"))
    norms = np.sqrt(np.diag(raw.matrix))
    assert np.allclose(unit.matrix, raw.matrix / np.outer(norms, norms))
    assert unit.sample_size(0.2, 0.1) == pytest.approx(0.04 / (0.01 * unit.smallest))
    assert unit.condition == pytest.approx(unit.largest / unit.smallest)
    with pytest.raises(ValueError, match="scaling"):
        gram("tanh", dim=1, scaling="none")
    with pytest.raises(ValueError, match="rng"):
        gram("tanh", dim=1, samples=1000)
    with pytest.raises(ValueError, match="samples"):
        gram("tanh", dim=1, samples=20, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="nodes"):
        gram("tanh", dim=1, nodes=1)


def test_quadrature_is_exact_on_polynomials():
    X, w = cube_rule(2, 6)
    for p, q in ((0, 0), (2, 4), (10, 0), (3, 2)):
        mean = [0 if e % 2 else 1 / (e + 1) for e in (p, q)]
        assert w @ (X[:, 0] ** p * X[:, 1] ** q) == pytest.approx(np.prod(mean), abs=1e-14)


def test_generic_atoms_are_generic():
    for d in (1, 2, 3):
        atoms = generic_atoms(d)
        assert len(set(atoms)) == 2 and all(any(c != 0 for c in a) for _, a in atoms)
        truth = generic_truth(d)
        vectors = [a for _, a in truth.atoms()]
        if d > 1:
            assert len({*vectors, *(tuple(-c for c in a) for a in vectors)}) == 2 * len(vectors)
        assert truth.M[0] != truth.M[1] and all(w > 0 for row in truth.omega for w in row)
        assert isinstance(truth.a[0][0][0][0], sympy.Rational)
