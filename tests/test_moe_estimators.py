"""The scikit-learn style classes: its own checks, awkward data, criteria with one sign."""

import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pytest

from hmoe_lib import moe_estimators
from hmoe_lib.estimation.sklearn_base import HAVE_SKLEARN
from hmoe_lib.moe_estimators import MoEClassifier, MoERegressor, bic, icl

if HAVE_SKLEARN:
    from sklearn.utils.estimator_checks import parametrize_with_checks

    @pytest.mark.filterwarnings("default")
    @parametrize_with_checks(
        [kind(k, n_starts=1, random_state=0) for kind in (MoERegressor, MoEClassifier)
         for k in (1, 2)]
    )  # fmt: skip
    def test_scikit_learn_accepts_them(estimator, check):
        check(estimator)

    @pytest.mark.filterwarnings("default")
    def test_scikit_learn_would_not_accept_a_refusal_of_few_samples(monkeypatch):
        """Negative control: the rule of those who fit a density directly fails the checks."""
        from sklearn.utils.estimator_checks import check_n_features_in_after_fitting as check

        strict = partial(moe_estimators.fit_mixture, few_samples=False)
        monkeypatch.setattr(
            moe_estimators, "fit_mixture", lambda *a, few_samples, **named: strict(*a, **named)
        )
        with pytest.raises(ValueError, match="one a parameter"):
            check("MoERegressor", MoERegressor(2, n_starts=1, random_state=0))

else:

    @pytest.mark.skip(reason="SKIPPED, NOT PASSED: no scikit-learn; pip install -e '.[sklearn]'")
    def test_scikit_learn_accepts_them():
        pass


def tent(n=300, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 1))
    return scale * X, scale * (np.abs(X[:, 0]) + 0.05 * rng.standard_normal(n))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_units_do_not_matter(scale):
    X, y = tent(scale=scale)
    fit = MoERegressor(2, random_state=0).fit(X, y)
    assert fit.score(X, y) > 0.9 and fit.result_.converged
    base = MoERegressor(2, random_state=0).fit(*tent())
    shift = len(y) * np.log(scale)
    expected = base.log_density(*tent()).sum() - shift
    assert np.isclose(fit.log_density(X, y).sum(), expected, rtol=1e-6, atol=1e-3)


def test_constant_columns_repeated_rows_and_integers():
    X, y = tent()
    wide = np.column_stack([X, np.full(len(X), 7.0)])
    fit = MoERegressor(2, random_state=0).fit(wide, y)
    assert fit.score(wide, y) > 0.9
    fit = MoERegressor(2, random_state=0).fit(np.repeat(X, 3, axis=0), np.repeat(y, 3))
    assert fit.score(X, y) > 0.9
    whole = np.arange(100)[:, None]
    assert (
        MoERegressor(2, random_state=0)
        .fit(whole, abs(whole[:, 0] - 50))
        .score(whole, abs(whole[:, 0] - 50))
        > 0.9
    )


WITHOUT = """
import sys

sys.modules["sklearn"] = None  # importing it fails
import numpy as np
from hmoe_lib.estimation.sklearn_base import HAVE_SKLEARN
from hmoe_lib.moe_estimators import MoEClassifier, MoERegressor

assert not HAVE_SKLEARN
X = np.linspace(-1, 1, 200)[:, None]
y = np.abs(X[:, 0]) + 0.05 * np.random.default_rng(0).standard_normal(200)
fit = MoERegressor(2, random_state=0).fit(X, y)
print(repr(fit.score(X, y)), fit.get_params()["n_experts"])
print(MoEClassifier(2, random_state=0).fit(X, y > 0.5).score(X, y > 0.5) > 0.9)
for wrong in (np.full((200, 1), np.nan), X[:, 0]):
    try:
        fit.fit(wrong, y)
    except ValueError as error:
        print(error)
for call in (
    lambda: fit.set_params(experts=3),
    lambda: MoERegressor().predict(X),
    lambda: fit.predict(np.hstack([X, X])),
    lambda: MoERegressor(1).fit(X, y[1:]),
):
    try:
        call()
    except ValueError as error:
        print(error)
print(fit.set_params(n_experts=7) is fit, fit.get_params()["n_experts"])
"""


def test_nothing_needs_scikit_learn():
    """The plain pieces of sklearn_base give the same fit and refuse the same input."""
    run = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    score, right, *refused = run.stdout.splitlines()
    X, y = np.linspace(-1, 1, 200)[:, None], np.random.default_rng(0).standard_normal(200)
    y = np.abs(X[:, 0]) + 0.05 * y
    here = MoERegressor(2, random_state=0).fit(X, y).score(X, y)
    assert np.isclose(float(score.split()[0]), here, rtol=1e-12) and right == "True"
    assert all(line.startswith("X: expected finite") for line in refused[:2])
    assert refused[2:] == [
        "experts: not a parameter of MoERegressor",
        "MoERegressor: expected a fit before this call",
        "X: expected 1 columns, got 2",
        "y: expected finite values of shape (200,), got (199,)",
        "True 7",
    ]


def test_the_origin_of_the_starts_may_be_a_number_a_generator_or_a_state():
    X, y = tent(100)

    def fitted(state):
        return MoERegressor(2, n_starts=2, random_state=state).fit(X, y).measure_.to_vector()

    number = fitted(4)
    assert np.array_equal(fitted(np.random.default_rng(4)), number)
    state = np.random.RandomState(4)
    assert np.array_equal(fitted(state), fitted(np.random.RandomState(4)))
    assert not np.array_equal(fitted(state), number)  # a state moves on when it is asked


def test_a_classifier_s_density_is_its_probability_and_other_classes_are_refused():
    X, y = tent(100)
    words = np.where(y > 0.5, "high", "low")
    fit = MoEClassifier(2, n_starts=1, random_state=0).fit(X, words)
    chosen = fit.predict_proba(X)[np.arange(100), (words == "low").astype(int)]
    assert np.allclose(np.exp(fit.log_density(X, words)), chosen, rtol=1e-12)
    for other in ("lower", "a", "zero"):
        with pytest.raises(ValueError, match="y: expected the classes of the fit, got others"):
            fit.log_density(X[:1], [other])


def test_strings_and_frames():
    pandas = pytest.importorskip("pandas", reason="SKIPPED, NOT PASSED: pandas is missing")
    pytest.importorskip("sklearn", reason="SKIPPED, NOT PASSED: scikit-learn is missing")
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 2))
    frame = pandas.DataFrame(X, columns=["left", "right"])
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    fit = MoEClassifier(2, random_state=0).fit(frame, pandas.Series(y))
    assert fit.score(frame, y) > 0.8 and list(fit.feature_names_in_) == ["left", "right"]
    assert set(fit.predict(frame)) <= {"same", "different"}
    far = MoEClassifier(2, random_state=0).fit(X, np.where(y == "same", 10_000, -3))
    assert set(far.classes_) == {-3, 10_000}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.ones(300)}, "not all equal"),
        ({"n_experts": 400}, "at most n|at least"),
        ({"n_experts": 0}, "atoms: expected"),
        ({"gate": "gatee"}, "gate: 'gatee' is not known"),
        ({"method": "sgd"}, "method: expected"),
        ({"X": np.full((300, 1), np.nan)}, "NaN|finite"),
    ],
)
def test_bad_input_is_refused(change, message):
    X, y = tent()
    data = {"X": X, "y": y} | {k: v for k, v in change.items() if k in ("X", "y")}
    options = {k: v for k, v in change.items() if k not in ("X", "y")}
    with pytest.raises(ValueError, match=message):
        MoERegressor(**({"n_experts": 2} | options)).fit(**data)


@pytest.mark.parametrize("method", ["newton", "em"])
@pytest.mark.parametrize("n", [4, 10, 17])
def test_few_samples_are_fitted_and_say_so(n, method):
    """4 inputs and 2 experts have 17 parameters: one more than n, or many more."""
    rng = np.random.default_rng(n)
    X, y = rng.standard_normal((n, 4)), rng.standard_normal(n)
    fit = MoERegressor(2, random_state=0, method=method).fit(X, y)
    found = fit.result_
    assert fit.measure_.shape.size == 17 and found.converged
    assert (found.status == "few samples") is (n < 17), found.message
    # A maximum inside the box: uphill is only where a bound is in the way.
    free = ~found.at_bound
    assert np.abs(found.gradient[free]).max() < (1e-3 if method == "newton" else 0.1)
    assert np.exp(fit.measure_.expert[:, -1]).min() >= 0.999e-4, "a variance below the floor"
    new = rng.standard_normal((50, 4))
    assert np.isfinite(fit.predict(new)).all() and np.all(fit.predict_variance(new) > 0)
    labels = np.arange(n) % 2
    probabilities = MoEClassifier(2, random_state=0).fit(X, labels).predict_proba(new)
    assert np.allclose(probabilities.sum(axis=1), 1) and np.all(probabilities >= 0)


def test_with_as_many_samples_as_parameters_the_two_rules_agree():
    """Whoever fits a density directly still has to ask for it."""
    from hmoe_lib.densities import GaussianMoE
    from hmoe_lib.estimation import fit_mixture

    X, y = tent(8)
    rng = np.random.default_rng
    few = fit_mixture(GaussianMoE(), X, y, 2, starts=2, rng=rng(0), few_samples=True)
    plain = fit_mixture(GaussianMoE(), X, y, 2, starts=2, rng=rng(0))
    assert few.status == plain.status != "few samples" and few.measure == plain.measure
    with pytest.raises(ValueError, match="expected at least 8 samples, one a parameter, got 7"):
        fit_mixture(GaussianMoE(), X[:7], y[:7], 2, starts=2, rng=rng(0))


def test_one_class_is_refused_and_a_class_may_be_rare():
    X = np.random.default_rng(0).uniform(-1, 1, (60, 1))
    with pytest.raises(ValueError, match="one class"):
        MoEClassifier(2).fit(X, np.zeros(60))
    y = np.zeros(60, int)
    y[0] = 5
    fit = MoEClassifier(1, random_state=0).fit(X, y)
    assert fit.predict_proba(X).shape == (60, 2) and np.isfinite(fit.predict_proba(X)).all()
    with pytest.raises(ValueError, match="classes of the fit"):
        fit.log_density(X, np.full(60, 9))


def test_criteria_prefer_two_experts_for_a_tent_and_one_for_a_line():
    X, y = tent()
    rng = np.random.default_rng(1)
    line = X[:, 0] + 0.1 * rng.standard_normal(len(X))
    for target, best in ((y, 2), (line, 1)):
        fits = {k: MoERegressor(k, random_state=0).fit(X, target) for k in (1, 2, 3)}
        values = {k: bic(fit, X, target) for k, fit in fits.items()}
        assert min(values, key=values.get) == best
        assert all(icl(f, X, target) >= values[k] for k, f in fits.items())


def test_predictions_are_moments_of_the_density():
    X, y = tent()
    fit = MoERegressor(2, random_state=0).fit(X, y)
    grid = np.linspace(-1, 2, 4001)
    at = np.array([[0.1]])
    p = np.exp(fit.log_density(np.tile(at, (grid.size, 1)), grid))
    mean = np.trapezoid(p * grid, grid)
    assert abs(np.trapezoid(p, grid) - 1) < 1e-6
    assert np.isclose(fit.predict(at)[0], mean, atol=1e-6)
    variance = np.trapezoid(p * (grid - mean) ** 2, grid)
    assert np.isclose(fit.predict_variance(at)[0], variance, rtol=1e-4)


def test_warnings_stay_with_scikit_learn():
    """Our own fits are silent."""
    X, y = tent()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MoERegressor(3, random_state=0).fit(X, y)
