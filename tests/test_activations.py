"""Activations: three derivatives by three roads, extreme arguments, a reader's own."""

from fractions import Fraction

import numpy as np
import pytest
import sympy
from checks import check_activation_derivatives, check_activation_values

import hmoe_lib as hl
from hmoe_lib.activations import ACTIVATIONS, Activation, activation, power

NAMES = [*ACTIVATIONS, "power1", "power2", "power3", "power7"]
# Twenty points off the kink of ReLU, in the range of the data and far outside it.
POINTS = [Fraction(n, 8) for n in (-240, -97, -53, -37, -29, -21, -13, -10, -7, -3)]
POINTS += [Fraction(n, 8) for n in (1, 2, 5, 9, 11, 19, 27, 41, 83, 240)]


@pytest.mark.parametrize("bias", [0.0, 1.0, -0.375])
@pytest.mark.parametrize("name", NAMES)
def test_value_and_derivatives_equal_the_symbolic_ones(name, bias):
    phi = activation(name, bias=bias)
    points = [point for point in POINTS if point + Fraction(bias) != 0]
    check_activation_values(phi, phi.symbolic, points)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_equal_finite_differences(name):
    check_activation_derivatives(activation(name, bias=0.25), np.linspace(-3.1, 2.9, 13))


def test_expressions_are_the_textbook_functions():
    """The symbolic road could share a mistake with its text: numbers from tables cannot."""
    table = {"sigmoid": 0.7310585786300049, "tanh": 0.7615941559557649, "silu": 0.7310585786300049,
             "gelu": 0.8413447460685429, "relu": 1.0, "softplus": 1.3132616875182228,
             "erf": 0.8427007929497149, "exp": 2.718281828459045, "sin": 0.8414709848078965,
             "identity": 1.0, "power3": 1.0}  # fmt: skip
    assert set(ACTIVATIONS) <= set(table)
    for name, at_one in table.items():
        assert float(activation(name)(1.0)) == pytest.approx(at_one, rel=1e-15)


@pytest.mark.parametrize("broken", ["value", "first", "second"])
def test_a_broken_derivative_is_found_by_both_checks(broken):
    """Negative control: one part wrong by a factor of 1 + 1e-5, or a sign."""
    good = activation("tanh")
    for factor in (1.0 + 1e-5, -1.0):
        parts = {name: getattr(good, name) for name in ("value", "first", "second")}
        right = parts[broken]
        parts[broken] = lambda z, right=right, factor=factor: factor * right(z)
        bad = Activation("broken", **parts, expression="tanh(z)")
        with pytest.raises(AssertionError, match=r"broken, derivative [012]"):
            check_activation_values(bad, bad.symbolic, POINTS)
        with pytest.raises(AssertionError, match="differ by"):
            check_activation_derivatives(bad, [0.3, 1.0], tolerance=1e-6)


def test_a_wrong_bias_is_found():
    """Negative control: the bias of the expression against another one of the values."""
    phi = activation("sigmoid", bias=1.0)
    with pytest.raises(AssertionError):
        check_activation_values(phi.with_bias(1.0 + 1e-9), phi.symbolic, POINTS)


# ---- extreme arguments (warnings are errors) -----------------------------------------------------


@pytest.mark.parametrize("name", [*ACTIVATIONS, "power2", "power99"])
def test_no_warning_and_no_nan_up_to_ten_thousand(name):
    z = np.concatenate([-np.logspace(4, -300, 500), [0.0], np.logspace(-300, 4, 500)])
    phi = activation(name)
    for function in (phi, phi.first_derivative, phi.second_derivative):
        values = function(z)
        assert not np.isnan(values).any()
        if name not in ("exp", "power99"):  # float64 itself ends there
            assert np.isfinite(values).all()


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("sigmoid", 0.0, 1.0),
        ("tanh", -1.0, 1.0),
        ("silu", 0.0, 1e4),
        ("gelu", 0.0, 1e4),
        ("softplus", 0.0, 1e4),
        ("erf", -1.0, 1.0),
        ("exp", 0.0, np.inf),
    ],
)
def test_limits_are_the_right_ones(name, low, high):
    phi = activation(name)
    assert phi(np.array([-1e4, 1e4])).tolist() == [low, high]
    if name != "exp":
        assert phi.second_derivative(np.array([-1e4, 1e4])).tolist() == [0.0, 0.0]


def test_relu_has_derivative_zero_at_its_kink():
    phi = activation("relu")
    at_zero = [float(f(0.0)) for f in (phi, phi.first_derivative, phi.second_derivative)]
    assert at_zero == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", NAMES)
def test_shapes_are_kept_and_the_argument_is_left_alone(name):
    phi = activation(name)
    for shape in [(), (3,), (2, 0), (2, 3, 4)]:
        z = np.full(shape, 0.7)
        z.flags.writeable = False
        results = [phi(z), phi.first_derivative(z), phi.second_derivative(z)]
        both = phi.value_and_first(z)
        assert all(np.shape(value) == shape for value in (*results, *both))
        assert np.allclose(both, results[:2], rtol=1e-15, atol=0)
        assert not any(np.shares_memory(value, z) for value in results if z.size)


# ---- bias ------------------------------------------------------------------------------------


def test_bias_is_added_inside():
    z = np.linspace(-2, 2, 9)
    assert np.array_equal(activation("gelu", bias=0.5)(z), activation("gelu")(z + 0.5))
    assert float(activation("sigmoid", bias=1.0)(-1.0)) == 0.5


def test_bias_of_a_name_an_activation_and_its_copy():
    phi = activation("sigmoid", bias=1.0)
    assert activation("sigmoid").bias == 0.0
    assert activation(phi).bias == 1.0
    assert activation(phi, bias=2.0).bias == 2.0
    assert phi.with_bias(0.0).bias == 0.0
    assert phi.bias == 1.0  # the original is unchanged


@pytest.mark.parametrize("bias", [np.nan, np.inf, "x", None, [1.0], 1j])
def test_a_bias_that_is_no_finite_number(bias):
    with pytest.raises(ValueError, match="bias: expected a finite number, got"):
        activation("tanh").with_bias(bias)


# ---- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "near"),
    [("sigmod", "sigmoid"), ("tahn", "tanh"), ("gelo", "gelu"), ("Swilu", "silu"),
     ("softpls", "softplus"), ("idenity", "identity")],
)  # fmt: skip
def test_an_unknown_name_gets_the_closest_one(name, near):
    with pytest.raises(ValueError, match=f"'{name}' is not known; did you mean '{near}'"):
        activation(name)


def test_a_name_like_no_other_gets_the_list():
    with pytest.raises(ValueError, match=r"not known; known: sigmoid, tanh.*power2"):
        activation("qqqqq")


def test_powers_begin_at_one():
    with pytest.raises(ValueError, match="'power0' is not known; did you mean 'power"):
        activation("power0")


def test_case_and_space_do_not_matter():
    assert activation(" SiLU ") is ACTIVATIONS["silu"]
    assert activation("power12").name == "power12"


@pytest.mark.parametrize("wrong", [3, None, np.tanh])
def test_neither_name_nor_activation(wrong):
    with pytest.raises(ValueError, match="activation: expected a name or an Activation, got"):
        activation(wrong)


@pytest.mark.parametrize("p", [0, -1, 1.5, "a", None, np.inf, np.nan])
def test_a_power_that_is_none(p):
    with pytest.raises(ValueError, match="p: expected an integer >= 1, got"):
        power(p)


# ---- a reader's activation -------------------------------------------------------------------


T = sympy.Symbol("t")
FROM_SYMPY = {
    "t exp(-t^2)": T * sympy.exp(-(T**2)),
    "a polynomial": T**3 / 3 - T,
    "softsign": T / (1 + sympy.Abs(T)),
    "log(1 + t^2)": sympy.log(1 + T**2),
    "gelu with erf": T * (1 + sympy.erf(T / sympy.sqrt(2))) / 2,
    "leaky relu": sympy.Max(T, T / 10),
    "elu": sympy.Piecewise((T, T > 0), (sympy.exp(T) - 1, True)),
}


@pytest.mark.parametrize("name", FROM_SYMPY)
def test_an_activation_from_sympy(name):
    phi = Activation.from_sympy(FROM_SYMPY[name], name=name, bias=0.25)
    assert (phi.name, phi.bias) == (name, 0.25)
    points = [p for p in POINTS if abs(p) < 6 and p != Fraction(-1, 4)]
    check_activation_values(phi, lambda z: FROM_SYMPY[name].subs(T, z + sympy.Rational(1, 4)),
                            points, tolerance=1e-11)  # fmt: skip
    check_activation_derivatives(phi, [-1.3, 0.4, 2.0], tolerance=1e-6)


def test_from_sympy_of_a_constant_derivative_keeps_the_shape():
    phi = Activation.from_sympy(3 * T)
    assert phi.name == "3*t"
    assert phi.first_derivative(np.zeros((2, 3))).tolist() == [[3.0] * 3] * 2
    assert phi.second_derivative(np.zeros((2, 3))).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("wrong", [sympy.Integer(3), T * sympy.Symbol("s"), "t**2", 1.0])
def test_from_sympy_needs_one_symbol(wrong):
    with pytest.raises(ValueError, match=r"expression: expected one free symbol, got [02]"):
        Activation.from_sympy(wrong)


def test_an_activation_given_directly_may_return_constants():
    phi = Activation("linear", lambda z: 2 * z, lambda z: 2, lambda z: 0.0, "2*z")
    z = np.ones((2, 3))
    assert phi.first_derivative(z).tolist() == [[2.0] * 3] * 2
    assert phi.value_and_first(z)[1].shape == phi.second_derivative(z).shape == (2, 3)
    check_activation_values(phi, phi.symbolic, POINTS)


def test_an_activation_that_returns_another_shape():
    phi = Activation("sum", lambda z: z.reshape(-1), np.ones_like, np.zeros_like, "z")
    with pytest.raises(ValueError, match=r"sum: expected values of shape \(2, 3\), got \(6,\)"):
        phi(np.ones((2, 3)))


def test_activations_are_frozen():
    with pytest.raises(AttributeError):
        hl.activation("tanh").bias = 1.0
