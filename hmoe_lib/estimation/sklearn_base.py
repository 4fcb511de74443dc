"""The few pieces of scikit-learn that the estimators need, or plain ones where it is missing."""

from __future__ import annotations

import inspect

import numpy as np

from hmoe_lib.arguments import real_array

Array = np.ndarray

__all__ = [
    "HAVE_SKLEARN",
    "BaseEstimator",
    "ClassifierMixin",
    "RegressorMixin",
    "check_classification_targets",
    "check_is_fitted",
    "validate_data",
]

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data

    HAVE_SKLEARN = True
except ImportError:
    HAVE_SKLEARN = False

    class BaseEstimator:
        """Parameters by name, as scikit-learn has them."""

        def get_params(self, deep: bool = True) -> dict:
            """Return the arguments of the constructor."""
            return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

        def set_params(self, **params):
            """Change arguments of the constructor; return self."""
            for name, value in params.items():
                if name not in self.get_params():
                    raise ValueError(f"{name}: not a parameter of {type(self).__name__}")
                setattr(self, name, value)
            return self

    class RegressorMixin:
        """The score of a regressor."""

        def score(self, X, y) -> float:
            """Return the coefficient of determination."""
            y = np.asarray(y, dtype=float)
            return float(1.0 - np.mean((y - self.predict(X)) ** 2) / y.var())

    class ClassifierMixin:
        """The score of a classifier."""

        def score(self, X, y) -> float:
            """Return the share of right classes."""
            return float(np.mean(self.predict(X) == np.asarray(y)))

    def check_is_fitted(estimator) -> None:
        """Refuse an estimator without a fit."""
        if not hasattr(estimator, "measure_"):
            raise ValueError(f"{type(estimator).__name__}: expected a fit before this call")

    def check_classification_targets(y) -> None:
        """Nothing to check: any sortable values are classes."""

    def validate_data(estimator, X, y=None, reset: bool = True, dtype=float, y_numeric=False):
        """Return checked arrays, (n, d) and (n,)."""
        X = real_array("X", X, "numbers of shape (n, d)")
        if X.ndim != 2 or 0 in X.shape or not np.isfinite(X).all():
            raise ValueError(f"X: expected finite numbers of shape (n, d), got shape {X.shape}")
        if reset:
            estimator.n_features_in_ = X.shape[1]
        elif X.shape[1] != estimator.n_features_in_:
            raise ValueError(f"X: expected {estimator.n_features_in_} columns, got {X.shape[1]}")
        if y is None:
            return X
        y = real_array("y", y, "numbers of shape (n,)") if y_numeric else np.asarray(y)
        if y.shape != (len(X),) or (y_numeric and not np.isfinite(y).all()):
            raise ValueError(f"y: expected finite values of shape ({len(X)},), got {y.shape}")
        return X, y
