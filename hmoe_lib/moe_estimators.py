"""Mixtures of experts with scikit-learn's interface, with or without scikit-learn installed.

The classes standardise inputs and responses, fit from several starts, and translate the estimate
back: a reader gets ``fit``, ``predict``, ``predict_proba``, ``score`` and ``get_params``.

Few samples are fitted too. With fewer than there are parameters the estimate is a maximum inside
the box, which keeps variances off 0, and ``result_.status`` says ``few samples``: a density to
predict with, and no parameters to interpret.
"""

from __future__ import annotations

import numpy as np

from hmoe_lib.densities import GaussianMoE, MultinomialMoE
from hmoe_lib.estimation import fit_mixture
from hmoe_lib.estimation.sklearn_base import (
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
    check_classification_targets,
    check_is_fitted,
    validate_data,
)

Array = np.ndarray

__all__ = ["MoEClassifier", "MoERegressor", "bic", "icl"]


def bic(estimator, X, y) -> float:
    r"""Return :math:`-2\ell + p \log n` of a fitted estimator: smaller is better.

    Parameters
    ----------
    estimator : MoERegressor or MoEClassifier
        Fitted.
    X, y : array_like
        The samples it was fitted to.

    Returns
    -------
    float
        :math:`\ell` is the log-likelihood in the units of y, p the number of free parameters.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> y = np.abs(X[:, 0]) + 0.05 * np.random.default_rng(0).standard_normal(200)
    >>> fits = [MoERegressor(k, random_state=0).fit(X, y) for k in (1, 2)]
    >>> bic(fits[1], X, y) < bic(fits[0], X, y)
    True
    """
    log_p = estimator.log_density(X, y)
    return float(-2.0 * log_p.sum() + estimator.measure_.shape.size * np.log(len(log_p)))


def icl(estimator, X, y) -> float:
    r"""Return the integrated classification criterion: BIC plus twice the entropy of r.

    Parameters
    ----------
    estimator : MoERegressor or MoEClassifier
        Fitted.
    X, y : array_like
        The samples it was fitted to.

    Returns
    -------
    float
        :math:`\mathrm{BIC} - 2 \sum_n \sum_i r_{ni} \log r_{ni}` with the responsibilities r:
        smaller is better, and never smaller than BIC.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> y = np.abs(X[:, 0]) + 0.05 * np.random.default_rng(0).standard_normal(200)
    >>> fit = MoERegressor(2, random_state=0).fit(X, y)
    >>> icl(fit, X, y) >= bic(fit, X, y)
    True
    """
    r = estimator.responsibilities(X, y)
    entropy = -np.sum(r * np.log(np.maximum(r, np.finfo(float).tiny)))
    return bic(estimator, X, y) + 2.0 * float(entropy)


def _generator(state) -> np.random.Generator:
    """The stream of a random_state as scikit-learn means it: a number, a state, or None."""
    if isinstance(state, np.random.Generator):
        return state
    if isinstance(state, np.random.RandomState):
        return np.random.Generator(np.random.PCG64(state.randint(2**31 - 1)))
    return np.random.Generator(np.random.PCG64(state))


class _MoE(BaseEstimator):
    """What regressor and classifier share."""

    def __init__(self, n_experts=2, gate="linear", n_starts=5, method="newton", random_state=None):
        self.n_experts = n_experts
        self.gate = gate
        self.n_starts = n_starts
        self.method = method
        self.random_state = random_state

    def responsibilities(self, X, y) -> Array:
        """Return which expert explains each sample, (n, k)."""
        X, y = self._scaled(X, y)
        return self.model_.responsibilities(self.measure_, X, y)[0]

    def _fit_scaled(self, X: Array, y: Array):
        self.centre_, self.scale_ = X.mean(axis=0), X.std(axis=0)
        # A constant column says nothing; with scale 1 it stays a column of zeros.
        self.scale_ = np.where(self.scale_ > 1e-12 * np.abs(self.centre_), self.scale_, 1.0)
        rng = _generator(self.random_state)
        self.result_ = fit_mixture(
            self.model_,
            (X - self.centre_) / self.scale_,
            y,
            self.n_experts,
            starts=self.n_starts,
            method=self.method,
            rng=rng,
            few_samples=True,
        )
        self.measure_, self.n_iter_ = self.result_.measure, max(self.result_.iterations, 1)
        return self

    def _inputs(self, X) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return (X - self.centre_) / self.scale_


class MoERegressor(RegressorMixin, _MoE):
    """Softmax-gated mixture of normal linear experts for a conditional density.

    Parameters
    ----------
    n_experts : int, default 2
        k.
    gate : str or Gate, default "linear"
        A softmax gate of the library.
    n_starts : int, default 5
        Starts, the first from k-means, every second at random.
    method : {"newton", "em"}, default "newton"
        The estimator.
    random_state : int, RandomState, Generator or None
        Origin of the starts.

    Attributes
    ----------
    measure_ : MixingMeasure
        The estimate, for standardised inputs and responses.
    result_ : LikelihoodFit
        With status and message.
    n_iter_ : int
        Steps of the best start.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> y = np.abs(X[:, 0]) + 0.05 * np.random.default_rng(0).standard_normal(200)
    >>> model = MoERegressor(2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9, model.predict_variance(X).shape
    (True, (200,))
    """

    def fit(self, X, y):
        """Fit to inputs (n, d) and responses (n,); return self."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        if len(y) < 2 or not np.ptp(y) > 0:
            raise ValueError(f"y: expected responses that are not all equal, n_samples = {len(y)}")
        self.model_ = GaussianMoE(self.gate)
        self.y_centre_, self.y_scale_ = float(y.mean()), float(y.std())
        return self._fit_scaled(X, (y - self.y_centre_) / self.y_scale_)

    def predict(self, X) -> Array:
        """Return E[y | x], (n,)."""
        X = self._inputs(X)
        return self.y_centre_ + self.y_scale_ * self.model_.mean(self.measure_, X)

    def predict_variance(self, X) -> Array:
        """Return Var[y | x], (n,)."""
        X = self._inputs(X)
        _, pi = self.model_.responsibilities(self.measure_, X, np.zeros(len(X)))
        eta = self.measure_.expert
        means = self.model_.law.mean.value(eta[:, :-1], X.T).T
        first = np.sum(pi * means, axis=1)
        second = np.sum(pi * (means**2 + np.exp(eta[:, -1])), axis=1)
        return self.y_scale_**2 * (second - first**2)

    def log_density(self, X, y) -> Array:
        """Return log p(y | x) in the units of y, (n,)."""
        X, y = self._scaled(X, y)
        return self.model_.log_density(self.measure_, X, y) - np.log(self.y_scale_)

    def _scaled(self, X, y) -> tuple[Array, Array]:
        X = self._inputs(X)
        return X, (np.asarray(y, dtype=float) - self.y_centre_) / self.y_scale_


class MoEClassifier(ClassifierMixin, _MoE):
    """Softmax-gated mixture of multinomial logistic experts.

    Parameters
    ----------
    n_experts, gate, n_starts, method, random_state
        As for :class:`MoERegressor`.

    Attributes
    ----------
    classes_ : ndarray
        The classes, of any sortable type.
    measure_, result_, n_iter_
        As for :class:`MoERegressor`.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    >>> model = MoEClassifier(2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.8, model.predict_proba(X).shape
    (True, (200, 2))
    """

    def fit(self, X, y):
        """Fit to inputs (n, d) and classes (n,) of any type; return self."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y: expected at least two classes, got one class {self.classes_!r}")
        self.model_ = MultinomialMoE(len(self.classes_), self.gate)
        return self._fit_scaled(X, numbers)

    def predict_proba(self, X) -> Array:
        """Return p(class | x), (n, S), in the order of ``classes_``."""
        X = self._inputs(X)
        return self.model_.probabilities(self.measure_, X)

    def predict(self, X) -> Array:
        """Return the most probable class, (n,)."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def log_density(self, X, y) -> Array:
        """Return log p(y | x), (n,)."""
        X, y = self._scaled(X, y)
        return self.model_.log_density(self.measure_, X, y)

    def _scaled(self, X, y) -> tuple[Array, Array]:
        X, y = self._inputs(X), np.asarray(y)
        numbers = np.searchsorted(self.classes_, y)
        if not np.all(self.classes_[np.minimum(numbers, len(self.classes_) - 1)] == y):
            raise ValueError("y: expected the classes of the fit, got others")
        return X, numbers
