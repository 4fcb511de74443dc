"""The scikit-learn style classes: its own checks, awkward data, criteria with one sign."""

import warnings

import numpy as np
import pytest

from hmoe_lib.estimation.sklearn_base import HAVE_SKLEARN
from hmoe_lib.moe_estimators import MoEClassifier, MoERegressor, bic, icl

FEW = "more parameters than this check has samples: refused by name"
REFUSED = {
    "MoERegressor": ("check_n_features_in_after_fitting", "check_estimators_nan_inf",
                     "check_regressors_no_decision_function"),
    "MoEClassifier": ("check_n_features_in_after_fitting", "check_estimators_nan_inf",
                      "check_dtype_object"),
}  # fmt: skip


if HAVE_SKLEARN:
    from sklearn.utils.estimator_checks import parametrize_with_checks

    def refused(estimator):
        """With one expert every check passes; with two, some offer too few samples."""
        names = REFUSED[type(estimator).__name__] if estimator.n_experts > 1 else ()
        return dict.fromkeys(names, FEW)

    @pytest.mark.filterwarnings("default")
    @parametrize_with_checks(
        [kind(k, n_starts=1, random_state=0) for kind in (MoERegressor, MoEClassifier)
         for k in (1, 2)],
        expected_failed_checks=refused,
    )  # fmt: skip
    def test_scikit_learn_accepts_them(estimator, check):
        check(estimator)

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
        ({"n_experts": 100}, "at least"),
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
