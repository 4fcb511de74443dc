"""What the engine must find by itself: the tables and findings about identifiability."""

import numpy as np
import pytest
import sympy

import hmoe_lib as hl
from hmoe_lib import identifiability as engine
from hmoe_lib.identifiability import conditions
from hmoe_lib.identifiability.admission import admit
from hmoe_lib.identifiability.solve import complete
from hmoe_lib.identifiability.tape import Arrays
from hmoe_lib.identifiability.truths import generic_atoms, generic_truth

M = [["7/5", "-4/5"], ["-4/5", -1]]
OPPOSITE = [{"M": M, "a": [1, "-3/5"]}, {"M": M, "a": [-1, "3/5"]}]
AT_ZERO = [{"M": M, "a": [1, "-3/5"]}, {"M": [[1, 0], [0, "1/5"]], "a": [0, 0]}]
ONE_HEAD = {
    "omega": [[1]],
    "M": [[M, [[0, 0], [0, 0]]]],
    "a": [[[[1, "-3/5"]], [[-1, "3/5"]]]],
}

RANKS = [
    ("identity", 10, 22),
    ("z**2", 10, 24),
    ("z**3", 10, 24),
    ("exp(-z**2)", 8, 18),
    ("exp", 12, 30),
    ("sin", 12, 30),
    ("erf", 12, 30),
    ("sinc(z)", 12, 32),
    ("gelu", 12, 34),
    ("gelu(z + 1)", 12, 36),
    ("sigmoid(z + 1)", 12, 36),
    ("sigmoid", 12, 36),
    ("tanh", 12, 36),
    ("silu", 12, 36),
    ("softplus", 12, 36),
    ("sech(z)", 12, 36),
    ("exp(z) + z", 12, 36),
]


def rank_of(family, phi):
    problem = engine.Problem(family, admit(engine.parse_activation(phi)))
    structural, kept = problem.coincidences()
    solution = complete(problem, kept)
    assert solution.complete, "every relation proved, and certified to be all"
    return len(structural), solution.rank


@pytest.mark.parametrize(("phi", "order_1", "order_2"), RANKS)
def test_table_of_ranks(phi, order_1, order_2):
    atoms = generic_atoms(2)
    assert rank_of(conditions.first_order(atoms), phi) == (0, order_1)
    assert rank_of(conditions.type_1(atoms), phi) == (6, order_2)


NUMERATORS = [
    ("identity", False, False),
    ("z**2", False, False),
    ("z**3", False, False),
    ("exp", False, False),
    ("sin", False, False),
    ("exp(-z**2)", False, False),
    ("gelu", False, True),
    ("erf", False, True),
    ("sigmoid", True, True),
    ("sigmoid(z + 1)", True, True),
    ("tanh", True, True),
    ("silu", True, True),
    ("softplus", True, True),
]


@pytest.mark.parametrize(("phi", "listed", "sharp"), NUMERATORS)
def test_listed_and_sharp(phi, listed, sharp):
    for condition, expected in (("listed", listed), ("sharp", sharp)):
        v = engine.verdict(phi, dim=2, condition=condition)
        assert v.strongly_identifiable is expected
        assert all(r.proved for r in (*v.relations, *v.structural))
        assert bool(v.relations) is not expected
        assert len(v.certificate.functions) == v.rank == v.distinct - len(v.relations)
        assert v.coincidences.holds is True


MODEL = [
    ("identity", 12),
    ("z**2", 15),
    ("z**3", 18),
    ("exp", 50),
    ("sin", 50),
    ("exp(-z**2)", 50),
    ("gelu", 50),
    ("erf", 50),
    ("sigmoid", 50),
    ("sigmoid(z + 1)", 50),
    ("tanh", 50),
    ("silu", 50),
    ("softplus", 50),
]


@pytest.mark.parametrize(("phi", "rank"), MODEL)
def test_model_condition_of_setting_1(phi, rank):
    v = engine.verdict(phi, condition="model")
    assert (v.listed, v.distinct, v.rank) == (50, 50, rank)
    assert v.strongly_identifiable is (rank == 50)
    assert all(r.proved for r in v.relations)


@pytest.mark.parametrize(("phi", "rank"), [("identity", 12), ("gelu", 62), ("sigmoid(z+1)", 62)])
def test_model_condition_of_setting_2(phi, rank):
    v = engine.verdict(phi, condition="model", setting="II")
    assert (v.listed, v.distinct, v.rank) == (66, 62, rank)
    assert v.strongly_identifiable is (rank == 62)
    assert v.coincidences.holds is True


@pytest.mark.parametrize(
    ("phi", "rank"), [("z + z**2", 13), ("z + z**3", 13), ("1 + z**2", 10), ("z + z**2 + z**3", 14)]
)
def test_two_term_polynomials_fail_the_model_with_one_channel(phi, rank):
    v = engine.verdict(phi, condition="model", atoms=generic_truth(2, 1, 2, 1))
    assert (v.listed, v.rank) == (14, rank)
    assert v.strongly_identifiable is (rank == 14)


def test_no_activation_passes_type_2_as_printed():
    v = engine.verdict("sigmoid(z + 1)", setting="II")
    assert (v.listed, v.rank) == (129, 78)
    assert v.strongly_identifiable is False
    assert v.relations == (), "the activation is not to blame"
    assert v.coincidences.holds is False and "second derivative" in v.coincidences.reason
    first = conditions.type_2(generic_truth(2, 1, 2, 1))
    first = first.subset([i for i, f in enumerate(first.listed) if len(f.by) < 2])
    assert len(first) == 17
    assert rank_of(first, "sigmoid(z+1)") == (3, 14)


def test_the_euler_relation_of_type_2_is_among_the_coincidences():
    family = conditions.type_2(generic_truth(1, 1, 2, 1))
    at = {label: i for i, label in enumerate(family.labels)}
    first, mixed = at["(d/dM11 u1[11]) phi'/E"], at["(d2/dM11 da1 u1[11]) phi'/E"]
    a = generic_truth(1, 1, 2, 1).a[0][0][0][0]
    assert engine.prove({mixed: a, first: sympy.Integer(-1)}, family.expressions())
    assert not engine.prove({mixed: a + 1, first: sympy.Integer(-1)}, family.expressions())


@pytest.mark.parametrize("phi", ["gelu", "sigmoid(z + 1)"])
def test_repaired_type_2_passes(phi):
    v = engine.verdict(phi, condition="sharp", setting="II")
    assert (v.listed, v.distinct, v.rank) == (27, 27, 27)
    assert v.strongly_identifiable is True


def test_identity_fails_repaired_type_2():
    assert engine.verdict("z", condition="sharp", setting="II").strongly_identifiable is False


# ---- special atoms ---------------------------------------------------------------------------


def test_opposite_experts_in_one_head():
    listed = engine.verdict("sech(z)", atoms=ONE_HEAD)
    model = engine.verdict("sech(z)", condition="model", atoms=ONE_HEAD)
    assert listed.strongly_identifiable is True and listed.rank == 36
    assert model.strongly_identifiable is False and (model.rank, model.listed) == (11, 14)
    assert [str(r) for r in model.relations] == [
        f"[d/dM11_{pq} g] = 0" for pq in ("11", "12", "22")
    ]
    assert engine.verdict("sigmoid(z+1)", condition="model", atoms=ONE_HEAD).strongly_identifiable


def test_bias_matters_at_opposite_atoms_with_equal_gates():
    without = engine.verdict("sigmoid", atoms=OPPOSITE)
    assert without.strongly_identifiable is False and without.rank == 27
    assert engine.verdict("sigmoid(z + 1)", atoms=OPPOSITE).strongly_identifiable is True


@pytest.mark.parametrize(
    ("phi", "rank"),
    [
        ("sigmoid", 33),
        ("sigmoid(z + 1)", 33),
        ("softplus", 33),
        ("gelu(z + 1)", 33),
        ("tanh(z + 1/2)", 33),
        ("exp", 30),
        ("tanh", 24),
        ("gelu", 26),
        ("sin", 21),
        ("sech(z)", 27),
    ],
)
def test_every_activation_fails_at_a_zero_atom(phi, rank):
    v = engine.verdict(phi, atoms=AT_ZERO)
    assert v.strongly_identifiable is False
    assert v.rank == rank
    assert all(r.proved for r in v.relations)


def test_multiplicative_gate_keeps_the_euler_relation():
    u = "exp(m11*x1**2 + 2*m12*x1*x2 + m22*x2**2) * (a1*x1 + a2*x2) * phi(c1*x1 + c2*x2)"
    at = {"m11": 1, "m12": "1/3", "m22": -2, "a1": 2, "a2": "1/5", "c1": "3/7", "c2": -1}
    family = engine.custom(u, [at], order=1)
    structural, _ = engine.Problem(family, engine.parse_activation("sigmoid")).coincidences()
    assert [str(r) for r in structural] == ["5 * [u1] - 10 * [d/da1 u1] - [d/da2 u1] = 0"]
    found = engine.examine(family, "sigmoid")
    assert found.coincidences.holds is False, "a relation of first order is never harmless"
    assert found.solution.relations == () and found.solution.rank == 7


def test_three_dimensions():
    v = engine.verdict("sigmoid(z + 1)", dim=3)
    assert (v.listed, len(v.structural), v.rank) == (110, 28, 82)
    assert v.strongly_identifiable is True


def test_activations_and_measures_are_accepted():
    G = hl.HierarchicalMeasure([[2.0]], [[[[1.0]], [[0.0]]]], [[[[1.5]], [[-1.0]]]])
    phi = hl.activation("sigmoid", bias=1.0)
    v = engine.verdict(phi, dim=1, condition="model", atoms=G)
    assert v.strongly_identifiable and v.phi == "1/(exp(-z - 1) + 1)"
    z = sympy.Symbol("z")
    assert engine.verdict(sympy.tanh(z), dim=1).strongly_identifiable
    assert engine.verdict("tanh", dim=1, atoms=G).listed == 12


# ---- the one-atom equations ------------------------------------------------------------------


ODES = [
    ("gelu", "listed", "(2 - t^2) phi + (-2 t + t^3) phi' + t^2 phi'' = 0"),
    ("gelu", "sharp", None),
    ("gelu(z + 1)", "listed", None),
    ("erf", "listed", "2 t^3 phi' + t^2 phi'' = 0"),
    ("erf", "sharp", None),
    ("erf(z + 1)", "listed", None),
    ("exp", "sharp", "t^2 phi - t^2 phi'' = 0"),
    ("exp", "model", None),
    ("sin", "sharp", "t^2 phi + t^2 phi'' = 0"),
    ("sin", "model", None),
    ("exp(-z**2)", "sharp", "2 t^2 phi + t phi' = 0"),
    ("exp(-z**2)", "model", None),
    ("z + z**2", "model", "2 phi - 2 t phi' + t^2 phi'' = 0"),
    ("z**5 - z**2", "model", "10 phi - 6 t phi' + t^2 phi'' = 0"),
    ("sigmoid", "listed", None),
    ("tanh", "listed", None),
    ("silu", "listed", None),
]


@pytest.mark.parametrize(("phi", "condition", "equation"), ODES)
def test_equations_of_one_atom(phi, condition, equation):
    test = engine.ode_test(phi, condition)
    assert test.satisfied is (equation is not None)
    if equation is None:
        assert test.relations == () and engine.recheck(test.certificate.to_json())
    else:
        assert equation in test.equations and all(r.proved for r in test.relations)


@pytest.mark.parametrize("phi", ["exp", "gelu", "sinc(z)", "tanh", "z*exp(-z**2)", "z + sin(z)"])
@pytest.mark.parametrize("condition", ["listed", "sharp"])
def test_equation_and_list_agree(phi, condition):
    fails = engine.verdict(phi, condition=condition).strongly_identifiable is False
    assert engine.ode_test(phi, condition).satisfied is fails


def test_ranks_agree_with_a_plain_numerical_rank():
    family = conditions.sharp(generic_atoms(2))
    problem = engine.Problem(family, engine.parse_activation("exp"))
    X = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    F = np.stack([np.broadcast_to(c, 400) for c in problem.tape.run(list(X.T), Arrays())])
    assert np.linalg.matrix_rank(F, tol=1e-9 * np.linalg.norm(F)) == 12
