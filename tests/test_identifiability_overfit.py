"""The order of an over-fitted Gaussian expert: system, Gauss-Hermite split, elimination, signs."""

import itertools

import numpy as np
import pytest
import sympy
from scipy import optimize, stats

from hmoe_lib import identifiability as engine
from hmoe_lib.identifiability.kernels import is_zero
from hmoe_lib.identifiability.overfit import GAUSSIAN
from hmoe_lib.identifiability.parsing import parse, real

X1, B, S = real("x1"), real("b"), real("s")


def test_the_two_relations_are_proved_and_are_all():
    relations = [str(r) for r in engine.gaussian_relations()]
    assert "2 * [d/dnu u1] - [d2/db^2 u1] = 0" in relations
    assert "[d/da u1] - [d2/dbeta db u1] = 0" in relations
    assert all(r.proved for r in engine.gaussian_relations())
    atom = {"beta": "1/2", "a": "-1/3", "b": "1/5", "nu": 1}
    other = engine.custom(GAUSSIAN.replace("exp(beta*x1)", "exp(beta*x1**3)"), [atom])
    left = [str(r) for r in engine.examine(other).solution.relations]
    assert left == ["2 * [d/dnu u1] - [d2/db^2 u1] = 0"]


@pytest.mark.parametrize("order", [1, 2])
def test_the_system_is_the_taylor_expansion(order):
    """Sum over the system times x^l1 d_b^l2 u is the derivative of u along the differences."""
    u, t = parse(GAUSSIAN, ["x1", "x2", "beta", "a", "b", "nu"]), real("t")
    steps = {"beta": "p1_1", "a": "p2_1", "b": "p3_1", "nu": "p4_1"}
    moved = u.subs({real(k): real(k) + t * real(v) for k, v in steps.items()}, simultaneous=True)
    exact = moved.diff(t, order).subs(t, 0) / sympy.factorial(order)
    system = {k: e.coeff(real("w1")) for k, e in engine.overfit_system(2, 2 * order).items()}
    scaled = {real(v): t * real(v) for v in steps.values()}
    terms = [
        sympy.Poly(e.subs(scaled), t).coeff_monomial(t**order) * X1**i * u.diff(B, j)
        for (i, j), e in system.items()
    ]
    assert is_zero(sympy.Add(*terms) - exact)
    assert not is_zero(sympy.Add(*terms) - next(e for e in terms if e != 0) - exact)


def test_the_system_has_a_generating_function():
    w, p = real("w1"), [real(f"p{k}_1") for k in range(1, 5)]
    whole = sympy.exp(p[0] * X1 + (p[1] * X1 + p[2]) * S + p[3] * S**2 / 2)
    for (i, j), e in engine.overfit_system(2, 4).items():
        term = whole.diff(X1, i).diff(S, j).subs({X1: 0, S: 0})
        expected = w * term / (sympy.factorial(i) * sympy.factorial(j))
        assert sympy.expand(e.subs(real("w2"), 0) - expected) == 0


@pytest.mark.parametrize("m", [2, 3, 4])
def test_gauss_hermite_solves_the_system_up_to_its_order(m):
    rule = engine.gauss_hermite(m)
    at = {real(f"w{n + 1}"): w for n, w in enumerate(rule.weights)}
    at |= {real(f"p3_{n + 1}"): z for n, z in enumerate(rule.nodes)}
    at |= {real(f"p4_{n + 1}"): -1.0 for n in range(m)}
    values = {k: float(e.subs(at)) for k, e in engine.overfit_system(m, 2 * m).items() if k[0] == 0}
    below = [v for (_, k), v in values.items() if k < 2 * m]
    assert np.abs(below).max() < 1e-13
    defect = values[0, 2 * m] * float(sympy.factorial(2 * m))
    assert np.isclose(defect, float(rule.defect), rtol=1e-9)
    at[real("p3_1")] += 1e-3
    broken = engine.overfit_system(m, 2)[0, 1].subs(at)
    assert abs(float(broken)) > 1e-5


@pytest.mark.parametrize("m", range(2, 9))
def test_gauss_hermite_in_exact_arithmetic(m):
    rule = engine.gauss_hermite(m)
    assert rule.order == engine.r_bar(m) == 2 * m
    assert rule.defect == -sympy.factorial(m) and rule.real_nodes
    assert rule.weights.min() > 0 and np.isclose(rule.weights.sum(), 1)


def test_two_atoms_by_elimination():
    found, w, t = engine.eliminate_two(), real("w"), real("t")
    assert found.zeros == 0
    roots = sympy.roots(sympy.Poly(sympy.fraction(found.factor)[0], w))
    assert not [r for r in roots if r.is_real and 0 < r < 1]
    # Another road to the factor: order 4 as it stands, with the solution put in.
    half = {w: sympy.Rational(1, 2)}
    q = -(t**2) / 4  # of both atoms, from order 2; order 3 holds by symmetry
    at = {real("w1"): half[w], real("w2"): half[w], real("p3_1"): t / 2, real("p3_2"): -t / 2}
    at |= {real("p4_1"): q, real("p4_2"): q}
    system = {k: e.subs(at) for k, e in engine.overfit_system(2, 4).items() if k[0] == 0}
    assert [sympy.expand(system[0, k]) for k in (1, 2, 3)] == [0, 0, 0]
    assert sympy.expand(system[0, 4] - found.factor.subs(half) * t**4) == 0


def smallest_defect(m, order, seed=0):
    """Smallest sum of squared equations at unit size of the split, weights at least 0.1."""
    rng = np.random.default_rng(seed)
    system = [e for (i, _), e in engine.overfit_system(m, order).items() if i == 0]
    names = [real(f"{n}_{j + 1}") for n in ("p3", "p4") for j in range(m)]
    weights = [real(f"w{j + 1}") for j in range(m)]
    values = sympy.lambdify([*weights, *names], system, "numpy")

    def residual(z):
        e = np.exp(z[:m] - z[:m].max())
        w = 0.1 + (1 - 0.1 * m) * e / e.sum()
        b, v = z[m : 2 * m], z[2 * m :]
        size = (w @ (b**2 + np.abs(v))) ** 0.5
        return np.array(values(*w, *(b / size), *(v / size**2)))

    starts = rng.standard_normal((12, 3 * m))
    fits = [optimize.least_squares(residual, z, xtol=1e-15, ftol=1e-15, gtol=1e-15) for z in starts]
    return min(f.cost for f in fits)


@pytest.mark.parametrize("m", [2, 3])
def test_the_system_loses_its_solutions_exactly_at_2m(m):
    assert smallest_defect(m, 2 * m - 1) < 1e-20
    assert smallest_defect(m, 2 * m) > 1e-12


def sign_changes(weights, means, variances):
    y = np.linspace(-60, 60, 24001)
    f = sum(c * stats.norm.pdf(y, a, np.sqrt(v)) for c, a, v in zip(*[weights, means, variances],
            strict=True))  # fmt: skip
    signs = np.sign(f[np.abs(f) > 1e-13])
    return int((signs[1:] != signs[:-1]).sum())


def test_a_combination_of_normals_has_few_sign_changes():
    """The lemma behind the upper bound; the bound is attained, so one less would be refused."""
    rng = np.random.default_rng(1)
    for k, _ in itertools.product((2, 3, 4), range(60)):
        c, a = rng.standard_normal(k), rng.normal(0, 3, k)
        assert sign_changes(c, a, rng.uniform(0.3, 9, k)) <= 2 * (k - 1)
    assert sign_changes([1.0, -0.9], [0, 0], [1.0, 2.0]) == 2
    rule = engine.gauss_hermite(2)
    nodes, tight = 0.8 * rule.nodes, np.full(2, 1 - 0.8**2)
    split = ([*rule.weights, -1.0], [*nodes, 0.0], [*tight, 1.0])
    assert sign_changes(*split) == 4


@pytest.mark.parametrize("m", [2, 3, 4])
def test_total_variation_falls_with_the_power_2m(m):
    t = np.array([0.08, 0.1, 0.12])
    tv = engine.gauss_hermite_tv(m, t)
    slopes = np.diff(np.log(tv)) / np.diff(np.log(t))
    assert np.all((slopes > 2 * m) & (slopes < 2 * m + 0.2))
    # Mehler's leading term: m!/(2m)! times half the mean of |He_2m|.
    y, w = np.polynomial.hermite_e.hermegauss(90)
    he = np.polynomial.hermite_e.hermeval(y, [0] * (2 * m) + [1])
    leading = np.abs(he) @ w / w.sum() / 2
    ratio = float(sympy.factorial(m) / sympy.factorial(2 * m)) * leading
    assert np.allclose(tv / t ** (2 * m), ratio, rtol=0.05)


def test_total_variation_by_another_road():
    t, rule = 0.4, engine.gauss_hermite(3)
    y = np.linspace(-10, 10, 400001)
    parts = sum(w * stats.norm.pdf(y, t * z, np.sqrt(1 - t * t))
                for w, z in zip(rule.weights, rule.nodes, strict=True))  # fmt: skip
    plain = np.trapezoid(np.abs(parts - stats.norm.pdf(y)), y) / 2
    assert np.isclose(engine.gauss_hermite_tv(3, t)[0], plain, rtol=1e-6)


@pytest.mark.parametrize("m", [1, 0, -2, 13, 2.0, True, "2", None])
def test_cells_that_are_refused(m):
    for f in (engine.r_bar, engine.gauss_hermite, lambda k: engine.overfit_system(k, 2)):
        with pytest.raises(ValueError, match="m: expected an integer from 2"):
            f(m)


@pytest.mark.parametrize("t", [0.0, 1.0, -0.1, np.nan, [0.1, 2.0]])
def test_sizes_that_are_refused(t):
    with pytest.raises(ValueError, match="t: expected numbers between 0 and 1"):
        engine.gauss_hermite_tv(2, t)


@pytest.mark.parametrize("r", [0, -1, 1.5, 99, True])
def test_orders_that_are_refused(r):
    with pytest.raises(ValueError, match="r: expected an integer"):
        engine.overfit_system(2, r)
