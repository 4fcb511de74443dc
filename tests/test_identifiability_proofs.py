"""Relations, certificates and harmlessness: each with a wrong one that must be refused."""

import copy
import importlib
import itertools
import json
import math
import re
from fractions import Fraction
from pathlib import Path

import flint
import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import iv

from hmoe_lib import identifiability as engine
from hmoe_lib.identifiability import conditions, kernels, structural
from hmoe_lib.identifiability.lattice import Generators
from hmoe_lib.identifiability.parsing import parse, real
from hmoe_lib.identifiability.points import interior
from hmoe_lib.identifiability.reconstruction import rational_near
from hmoe_lib.identifiability.solve import complete
from hmoe_lib.identifiability.tape import Arrays, Balls, Tape
from hmoe_lib.identifiability.truths import generic_atoms

X, Y = real("x"), real("y")
RECHECK = importlib.import_module("hmoe_lib.identifiability.recheck")


@pytest.fixture(scope="module")
def gelu():
    return engine.verdict("gelu")


@pytest.fixture(scope="module")
def sigmoid():
    return engine.verdict("sigmoid(z + 1)")


# ---- proofs of zero --------------------------------------------------------------------------


TRUE = [
    "tanh(x) - 2/(1 + exp(-2*x)) + 1",
    "sin(x + y) - sin(x)*cos(y) - cos(x)*sin(y)",
    "sin(3*x) - 3*sin(x) + 4*sin(x)**3",
    "cosh(x)**2 - sinh(x)**2 - 1",
    "exp(x/2 + y/3)**6 - exp(3*x)*exp(2*y)",
    "log(1 + exp(-x)) - log(1 + exp(x)) + x",
    "sqrt(1 + x**2)**2 - 1 - x**2",
    "1/(sqrt(1 + x**2) - x) - sqrt(1 + x**2) - x",
    "erf(x - y) + erf(y - x)",
    "(1 + x**2)**(1/3)*(1 + x**2)**(2/3) - 1 - x**2",
    "exp(1)*exp(x) - exp(x + 1)",
    "tan(x)*cos(x) - sin(x)",
]
FALSE = [
    "tanh(x) - 2/(1 + exp(-2*x)) + 1 + x/10**9",
    "sin(x + y) - sin(x)*cos(y) + cos(x)*sin(y)",
    "sin(2*x) - 2*sin(x)",
    "exp(x/2 + y/3)**6 - exp(3*x)*exp(2*y) - 1/1000",
    "log(1 + exp(-x)) - log(1 + exp(x)) - x",
    "1/(sqrt(1 + x**2) - x) - sqrt(1 + x**2) + x",
    "erf(x - y) - erf(y - x)",
    "sqrt(2) - 141421356237/100000000000",
    "exp(x + 1) - 3*exp(x)",
]


@pytest.mark.parametrize("text", TRUE)
def test_identities_are_proved(text):
    assert kernels.is_zero(parse(text, "xy"))


@pytest.mark.parametrize("text", FALSE)
def test_false_identities_are_not(text):
    assert not kernels.is_zero(parse(text, "xy"))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=6, max_size=6), st.integers(1, 4))
def test_kernels_keep_the_value(c, q):
    """Kernels put back in their places, the rational function has the old values."""
    e = (
        sympy.exp((c[0] * X + c[1] * Y) / q) * sympy.sin(c[2] * X + c[3] * Y + 1)
        + sympy.tanh(c[4] * X) * sympy.erf(c[5] * Y)
        + sympy.cos((c[2] * X + 2 * c[3] * Y) / q)
    )
    made = kernels.Kernels([e])
    difference = e - made.rational(e)
    at = {X: sympy.Rational(1, 3), Y: sympy.Rational(-2, 7)}
    back = {y: sympy.exp(made._exponents.expression(y)) for y in made._exponents.symbols}
    back |= {t: sympy.tan(made._angles.expression(t) / 2) for t in made._angles.symbols}
    back |= {symbol: key for key, symbol in made._symbol.items()}
    assert abs(difference.subs(back).subs(at).evalf(30)) < 1e-25


@pytest.mark.parametrize("digits", [1, 10**9], ids=["a short basis", "generators picked"])
def test_coordinates_rebuild_their_form(digits):
    """A wrong sign or multiple would put a wrong power of a symbol into a proof."""
    forms = [X, X / digits + Y / 2, Y / 2, Y / 5 - X / 5]
    made = Generators(forms, itertools.count(1), "Y")
    assert (made._lattice is None) is (digits > 1)
    for n, m in itertools.product(range(-4, 5), repeat=2):
        for one, other in itertools.combinations(forms, 2):
            form = n * one + m * other
            parts = made.coordinates(form)
            assert parts is not None and len(parts) <= 2, form
            rebuilt = sympy.Add(*(k * made.expression(symbol) for symbol, k in parts))
            assert sympy.expand(form - rebuilt) == 0
    for foreign in (X / 11, 1000 * Y, real("w") + X):
        assert made.coordinates(foreign) is None


def test_exponents_with_many_digits_stay_small_powers():
    """A lattice over such vectors has huge coordinates; the proofs must not need them."""
    atoms = [
        ([["0.123456789012", "7.1"], ["7.1", "-3.3333333331"]], [a, b])
        for a, b in (("1.234567890123", "-0.3"), ("0.7071067811865", "2.718281828459"), (1, 1))
    ]
    v = engine.verdict("exp", atoms=atoms)
    assert v.strongly_identifiable is False and v.rank == 63 - 9 - 9
    assert all(r.proved for r in v.relations)
    assert engine.verdict("sigmoid", atoms=atoms).strongly_identifiable is True


# ---- relations -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phi", "square"), [("sin(pi*z)", sympy.pi**2), ("sin(z/pi)", 1 / sympy.pi**2)]
)
def test_a_coefficient_that_is_no_fraction_is_recognised(phi, square):
    """phi'' = -c^2 phi: the second derivative in a is -c^2 times the first in M."""
    v = engine.verdict(phi, dim=1)
    assert v.strongly_identifiable is False and all(r.proved for r in v.relations)
    ratios = {abs(c / d) for r in v.relations
              for c, d in itertools.permutations(r.coefficients.values(), 2)}  # fmt: skip
    assert any(sympy.simplify(c - square) == 0 for c in ratios)


def test_relations_hold_numerically(gelu):
    family = gelu.family
    problem = engine.Problem(family, engine.parse_activation("gelu"))
    x = np.random.default_rng(1).uniform(-1, 1, (50, 2))
    F = np.stack([np.broadcast_to(c, 50) for c in problem.tape.run(list(x.T), Arrays())])
    for r in (*gelu.relations, *gelu.structural):
        terms = np.array([float(c) * F[i] for i, c in r.coefficients.items()])
        assert np.abs(terms.sum(0)).max() < 1e-12 * np.abs(terms).max()


def test_a_wrong_relation_is_refused(gelu):
    expressions = gelu.family.expressions(engine.parse_activation("gelu"))
    right = gelu.relations[0].coefficients
    assert engine.prove(right, expressions)
    for place in right:
        wrong = dict(right)
        wrong[place] += 1
        assert not engine.prove(wrong, expressions)
        assert not engine.prove({i: c for i, c in right.items() if i != place}, expressions)


def test_structural_relations_hold_for_every_activation(gelu):
    texts = {str(r) for r in gelu.structural}
    assert "[d2/dM12^2 u1] - 4 * [d2/dM11 dM22 u1] = 0" in texts
    for phi in ("z**4 + z", "cos(z + 1)"):
        explicit = gelu.family.expressions(engine.parse_activation(phi))
        for r in gelu.structural:
            assert engine.prove(r.coefficients, explicit)
        assert not engine.prove(gelu.relations[0].coefficients, explicit)


def test_a_relation_found_but_not_proved_is_said_to_be_so():
    """exp(asinh z) = z + sqrt(1 + z^2) is beyond the prover, so this identity stays unproved."""
    v = engine.verdict("exp(asinh(z)) - sqrt(1 + z**2)", dim=1)
    assert v.relations and not any(r.proved for r in v.relations)
    assert v.strongly_identifiable is None
    assert "found, not proved" in str(v.relations[0])
    assert any("decides nothing" in note for note in v.notes)
    assert v.rank == engine.verdict("z", dim=1).rank


def test_irrational_coefficients_are_recognised_and_proved():
    v = engine.verdict("exp(pi*z)", dim=1)
    assert v.strongly_identifiable is False and all(r.proved for r in v.relations)
    assert any(c.has(sympy.pi) for r in v.relations for c in r.coefficients.values())
    root = engine.verdict("z/sqrt(1 + z**2)", dim=1)
    assert root.strongly_identifiable is False and all(r.proved for r in root.relations)


@given(st.fractions(max_denominator=10**8, min_value=-(10**6), max_value=10**6))
def test_rationals_are_reconstructed(value):
    with flint.ctx.workprec(400):
        near = rational_near(flint.arb(flint.fmpq(value.numerator, value.denominator)))
        assert near == sympy.Rational(value.numerator, value.denominator)
        off = flint.arb(flint.fmpq(value.numerator, value.denominator)) + flint.arb(2) ** -150
        assert rational_near(off) != near
        rounded = flint.arb(flint.fmpq(value.numerator, value.denominator)) + flint.arb(2) ** -225
        assert rational_near(rounded) == near


# ---- harmless coincidences -------------------------------------------------------------------


def test_coincidences_are_harmless_with_an_exact_witness(sigmoid):
    result = sigmoid.coincidences
    assert result.holds is True
    assert structural.check_witness(sigmoid.family, sigmoid.structural, result.witness)
    spoiled = copy.deepcopy(result.witness)
    cell = next(iter(spoiled))
    spoiled[cell][1][0][0] = -spoiled[cell][1][0][0]
    assert not structural.check_witness(sigmoid.family, sigmoid.structural, spoiled)
    spoiled[cell] = (spoiled[cell][0], [[flint.fmpq(i == j) for j in range(5)] for i in range(5)])
    assert not structural.check_witness(sigmoid.family, sigmoid.structural, spoiled)


def test_relation_of_gelu_is_harmless_and_that_of_exp_is_not(gelu):
    assert gelu.harmless.holds is True
    both = [*gelu.structural, *gelu.relations]
    assert structural.check_witness(gelu.family, both, gelu.harmless.witness)
    v = engine.verdict("exp")
    assert v.harmless.holds is False and "a split of an atom can use" in v.harmless.reason


@pytest.mark.parametrize("block", [[[2, 1], [1, 2]], [[1, 1], [1, 1]], [[0, 0], [0, 0]]])
def test_semidefinite_matrices(block):
    exact = [[flint.fmpq(v) for v in row] for row in block]
    assert structural._semidefinite(exact)


@pytest.mark.parametrize("block", [[[1, 2], [2, 1]], [[0, 1], [1, 0]], [[-1, 0], [0, 0]]])
def test_indefinite_matrices(block):
    exact = [[flint.fmpq(v) for v in row] for row in block]
    assert not structural._semidefinite(exact)


# ---- certificates ----------------------------------------------------------------------------


def test_certificates_are_rechecked(sigmoid, gelu):
    for v in (sigmoid, gelu):
        text = v.certificate.to_json()
        assert engine.recheck(text) and engine.recheck(json.loads(text))
        assert engine.Certificate.from_json(text) == v.certificate


def corruptions(data):
    def change(path, value):
        spoiled = copy.deepcopy(data)
        place = spoiled
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return spoiled

    name = data["functions"][0][0][0]
    yield "a point twice", change(["points", 3], data["points"][4])
    yield "another point", change(["points", 3, 0], "1/7")
    yield "a point outside", change(["points", 3, 0], "9/7")
    yield "a point less", change(["points"], data["points"][1:])
    yield "a function twice", change(["functions", 5], data["functions"][4])
    yield "another derivative", change(["functions", 1, 0, 1], ["a1", "a1"])
    yield "an unknown parameter", change(["functions", 1, 0, 1], ["q"])
    yield "a third derivative", change(["functions", 1, 0, 1], ["a1", "a1", "a1"])
    yield "another atom", change(["definitions", name, "at", "a1"], "1/3")
    yield "another function", change(["definitions", name, "text"], "exp(x1)")
    yield "a call", change(["definitions", name, "text"], "__import__('os').getcwd()")
    yield "another determinant", change(["determinant", "mid"], "1e-3")
    yield "its sign", change(
        ["determinant", "mid"], data["determinant"]["mid"].replace("-", "", 1)
        if data["determinant"]["mid"].startswith("-") else "-" + data["determinant"]["mid"]
    )  # fmt: skip
    yield "no number", change(["determinant", "mid"], "large")
    yield "no precision", change(["bits"], "many")
    yield "no function", change(["functions"], [])


def test_a_corrupted_certificate_does_not_verify(sigmoid):
    data = json.loads(sigmoid.certificate.to_json())
    found = list(corruptions(data))
    assert len(found) == 16
    for name, spoiled in found:
        assert not engine.recheck(spoiled), name
    for text in ("", "{}", "[]", "null", "{'a': 1}"):
        assert not engine.recheck(text)
    assert not engine.recheck(None)


def test_damaged_certificates_are_not_read(sigmoid):
    text = sigmoid.certificate.to_json()
    for damaged in (text[:-5], "[]", text.replace("certificate 1", "certificate 2"), '{"a": 1}'):
        with pytest.raises(ValueError, match="certificate: expected"):
            engine.Certificate.from_json(damaged)
    with pytest.raises(ValueError, match="fields"):
        engine.Certificate.from_json(json.dumps({**json.loads(text), "extra": 1}))


def test_dependent_functions_get_no_certificate(gelu):
    problem = engine.Problem(gelu.family, engine.parse_activation("gelu"))
    assert engine.certify(problem) is None
    places = sorted({*gelu.independent, *gelu.relations[0].coefficients})
    assert engine.certify(problem, places) is None
    assert engine.certify(problem, gelu.independent) is not None


def test_the_recheck_shares_no_code():
    text = Path(RECHECK.__file__).read_text(encoding="utf8")
    imported = re.findall(r"^(?:import|from) (\S+)", text, re.MULTILINE)
    assert set(imported) == {"__future__", "ast", "json", "fractions", "mpmath"}


FUNCTIONS = {
    "exp": mpmath.exp,
    "log": lambda t: mpmath.log(t + 4),
    "sqrt": lambda t: mpmath.sqrt(t + 4),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
    "asinh": mpmath.asinh,
    "atan": mpmath.atan,
    "erf": mpmath.erf,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("t", ["-3", "-1/3", "0", "1/100", "7/5", "29/10"])
def test_intervals_of_the_recheck_hold_the_truth(name, t):
    shift = 4 if name in ("log", "sqrt") else 0
    value = Fraction(t) + shift
    before, iv.prec = iv.prec, 200
    try:
        with mpmath.workprec(260):
            enclosures = RECHECK._FUNCTIONS[name](RECHECK._interval(str(value)))
            for order, ball in enumerate(enclosures):
                exact = mpmath.diff(FUNCTIONS[name], mpmath.mpf(Fraction(t).numerator)
                                    / Fraction(t).denominator, order)  # fmt: skip
                assert ball.delta < mpmath.mpf(2) ** -150
                assert abs(mpmath.mpf(ball.mid) - exact) < mpmath.mpf(2) ** (
                    -150 if not order else -60
                )
    finally:
        iv.prec = before


def test_balls_and_floats_agree():
    text = "exp(x)*sin(y)/(1 + x**2)**(3/2) + erf(x*y) - log(2 + cos(x)) + atan(y)*asinh(x) + pi"
    tape = Tape([parse(text, "xy")], [X, Y])
    for point in interior(2, 5):
        ball = tape.run([flint.arb(c) for c in point], Balls())[0]
        plain = tape.run([float(c.p) / float(c.q) for c in point], Arrays())[0]
        assert math.isclose(float(ball), plain, rel_tol=1e-12)


def test_points_are_inside_and_different():
    points = interior(3, 200)
    assert len(set(points)) == 200
    assert all(-1 < c < 1 for c in itertools.chain(*points))


def test_equal_gates_of_two_channels_are_certified():
    (M, a), (_, b) = generic_atoms(2)
    problem = engine.Problem(conditions.type_1([(M, a), (M, b)]), engine.parse_activation("tanh"))
    solution = complete(problem, problem.coincidences()[1])
    assert solution.complete and solution.rank == 36
