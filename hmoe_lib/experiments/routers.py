"""Routers on real data: held-out error, routing, and what another seed changes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import t as student

from hmoe_lib.arguments import real_array
from hmoe_lib.estimation import Box, fit_least_squares
from hmoe_lib.experiments import store
from hmoe_lib.experiments.checks import integer, one_of
from hmoe_lib.experiments.runner import generator
from hmoe_lib.experiments.versions import versions
from hmoe_lib.gates import Sigmoid, gate
from hmoe_lib.mixing import MixingMeasure
from hmoe_lib.models import FlatModel

Array = np.ndarray

__all__ = [
    "ROUTERS",
    "ROUTER_STUDIES",
    "RouterStudy",
    "agreement",
    "load_routers",
    "paired_interval",
    "routing_entropy",
    "save_routers",
]

ROUTERS = {
    "linear": ("linear", {}),
    "cosine": ("cosine", {"temperature": 0.3}),
    "perturbed": ("perturbed_cosine", {"temperature": 0.3, "tau": 1.0}),
    "sigmoid": ("sigmoid", {}),
}
"""The gates compared, with their options; the first is the one that others are compared with."""

LARGEST = 10.0  # bound on every entry, for standardised data


@dataclass(frozen=True)
class RouterStudy:
    """Mixtures of affine experts with four gates, on blocks left out in turn.

    Parameters
    ----------
    name : str
        Origin of the random numbers and stem of the files.
    experts : int, default 3
        k.
    folds : int, default 5
        Blocks of consecutive samples; each is left out once a repeat.
    repeats : int, default 4
        Each begins its first block at another sample.
    seeds : int, default 5
        Starts of each fit.

    Raises
    ------
    ValueError
        If a count is no integer of at least 1 (experts, repeats) or 2 (folds, seeds).

    Notes
    -----
    Data are standardised with the training part. A start has the experts of one regression line,
    each entry moved by N(0, 1/4), and router vectors N(0, I); biases are 0, or such that sigmoid
    weights are 1/k. Of the fits of one training part the one with the smallest training loss
    predicts; all of them say how stable the routing is.
    """

    name: str
    experts: int = 3
    folds: int = 5
    repeats: int = 4
    seeds: int = 5

    def __post_init__(self) -> None:
        for name, least in (("experts", 1), ("folds", 2), ("repeats", 1), ("seeds", 2)):
            integer(name, getattr(self, name), least=least)

    def parts(self, n: int) -> list[tuple[Array, Array]]:
        """Return (training, test) indices of each fold of each repeat, cyclic blocks of n."""
        found = []
        for repeat in range(self.repeats):
            first = repeat * n // (self.repeats * self.folds)
            for block in np.array_split(np.roll(np.arange(n), -first), self.folds):
                found.append((np.setdiff1d(np.arange(n), block), block))
        return found

    def run(self, X, y) -> dict[str, Array]:
        """Return every field of :meth:`replicate`, shape (routers, repeats * folds)."""
        rows = [
            [self.replicate(X, y, name, at) for at in range(self.repeats * self.folds)]
            for name in ROUTERS
        ]
        return {key: np.array([[cell[key] for cell in row] for row in rows]) for key in rows[0][0]}

    def replicate(self, X, y, router: str, at: int) -> dict[str, float]:
        """Fit one router to one training part from all seeds, and look at its test part.

        Parameters
        ----------
        X, y : array_like, shape (n, d), (n,)
            All samples, in their order.
        router : str
            A name in ``ROUTERS``.
        at : int
            Which part of :meth:`parts`.

        Returns
        -------
        dict of float
            ``error`` of the fit with the smallest training loss, ``error_one_start`` averaged over
            seeds, ``line`` of one affine expert: mean squares over the test part, relative to the
            variance of y in training; ``train``, the same in training. ``spread``: standard
            deviation of predictions over seeds. ``agreement`` of the routing, over pairs of seeds;
            ``entropy`` of the shares of a sample, ``used``, the exponential of the entropy of the
            mean shares. ``norm_kept``: correlation of a router's log norm at the start and at the
            fit. ``at_bound``: share of seeds with a parameter on its bound.
        """
        model, starts, fits, Z, u = self.fits(X, y, router, at)
        train, test = self.parts(len(u))[at]
        best = int(np.argmin([fit.loss for fit in fits]))
        f = np.array([model.predict(fit.measure, Z[test]) for fit in fits])
        shares = [_shares(model.weights(fit.measure, Z[test])) for fit in fits]
        line, square = _line(Z[train], u[train]), (f - u[test]) ** 2
        pairs = itertools.combinations(shares, 2)
        return {
            "error": float(square[best].mean()),
            "error_one_start": float(square.mean()),
            "line": float(np.mean((Z[test] @ line[:-1] + line[-1] - u[test]) ** 2)),
            "train": float(fits[best].loss),
            "spread": float(np.sqrt(f.var(axis=0).mean())),
            "agreement": float(np.mean([agreement(a, b) for a, b in pairs])),
            "entropy": float(routing_entropy(shares[best]).mean()),
            "used": float(np.exp(routing_entropy(shares[best].mean(axis=0)[None])[0])),
            "norm_kept": _norm_kept(starts, [fit.measure for fit in fits]),
            "at_bound": float(np.mean([fit.at_bound.any() for fit in fits])),
        }

    def fits(self, X, y, router: str, at: int) -> tuple:
        """Return (model, starts, fits, Z, u) of one part: measures, results, standardised data."""
        X, y = _data(X, y)
        one_of("router", router, ROUTERS)
        train, _ = self.parts(len(y))[at]
        Z, u = _standardised(X, y, train)
        model = FlatModel(gate(ROUTERS[router][0], **ROUTERS[router][1]), "affine")
        starts = [self._start(model, Z[train], u[train], at, seed) for seed in range(self.seeds)]
        return model, starts, [_fit(model, Z[train], u[train], s) for s in starts], Z, u

    def _start(self, model, Z: Array, u: Array, at: int, seed: int) -> MixingMeasure:
        # All routers of a fold share their random numbers: their differences are paired.
        rng, k = generator(self.name, at, seed), self.experts
        expert = _line(Z, u) + 0.5 * rng.standard_normal((k, Z.shape[1] + 1))
        router, bias = rng.standard_normal((k, Z.shape[1])), np.zeros(k)
        if isinstance(model.gate, Sigmoid):
            bias -= np.log(max(k - 1, 1))
        else:
            pins = model.gate.pins(router)
            router[pins[0]] = 0.0
        G = MixingMeasure(router, bias, np.clip(expert, -LARGEST, LARGEST))
        return G.pinned_for(model.gate.pins(router))


ROUTER_STUDIES = {name: RouterStudy(f"routers-{name}", repeats=10) for name in ("sunspots", "nino")}


def save_routers(name: str, X, y, folder: str | Path) -> None:
    """Run a study of ROUTER_STUDIES on its data and store it as routers-NAME."""
    study = _known(name)
    about = {"format": "hmoe routers 1", "settings": vars(study), "versions": versions()}
    store.save_arrays(study.name, about, study.run(X, y), folder)


def load_routers(name: str, folder: str | Path) -> dict[str, Array]:
    """Return the fields of a stored study, each of shape (routers, blocks).

    Raises
    ------
    StaleResultError
        If the stored study has other settings.
    DamagedResultError, FileNotFoundError
        If a file is damaged or missing.
    """
    study = _known(name)
    about, fields = store.load_arrays(study.name, folder)
    if about["settings"] != vars(study):
        raise store.StaleResultError(f"{name}: stored with other settings; run it again")
    return fields


def routing_entropy(shares) -> Array:
    r"""Return the entropy of each row of shares, in nats: 0 for one expert, log k for all.

    Parameters
    ----------
    shares : array_like, shape (n, k)
        Nonnegative, rows of sum 1.

    Returns
    -------
    ndarray, shape (n,)
        :math:`-\sum_i s_i \log s_i`.

    Examples
    --------
    >>> np.exp(routing_entropy([[0.5, 0.5], [1.0, 0.0]]))
    array([2., 1.])
    """
    s = real_array("shares", shares, "rows of shares")
    return -np.sum(s * np.log(np.where(s > 0, s, 1.0)), axis=1)


def agreement(one, other) -> float:
    """Return the share of samples that two routings give to the same expert, up to relabelling.

    Parameters
    ----------
    one, other : array_like, shape (n, k)
        Weights; each sample goes to its largest.

    Returns
    -------
    float
        Between 1/k and 1, at the best of all one-to-one relabellings.

    Examples
    --------
    >>> agreement([[1, 0], [0, 1], [0, 1]], [[0, 1], [1, 0], [0, 1]])  # doctest: +ELLIPSIS
    0.666...
    """
    one, other = (real_array("weights", w, "rows of weights") for w in (one, other))
    if one.shape != other.shape or one.ndim != 2:
        raise ValueError(f"other: expected shape {one.shape}, got {other.shape}")
    k = one.shape[1]
    both = np.zeros((k, k))
    np.add.at(both, (one.argmax(axis=1), other.argmax(axis=1)), 1.0)
    return float(both[linear_sum_assignment(-both)].sum() / len(one))


def paired_interval(differences, folds: int, level: float = 0.95) -> tuple[float, float, float]:
    r"""Return the mean of paired differences with an interval that knows that folds overlap.

    Parameters
    ----------
    differences : array_like, shape (J,)
        One number a left-out block.
    folds : int
        Blocks a repeat.
    level : float, default 0.95
        Coverage the interval aims at.

    Returns
    -------
    tuple of float
        Mean, lower and upper end.

    Notes
    -----
    Training parts overlap, so the J differences are not independent. The variance of their mean
    is taken as :math:`(1/J + 1/(F - 1))\, s^2`, the ratio of test to training samples in place of
    the unknown correlation, with t on J - 1 degrees of freedom.

    References
    ----------
    Nadeau and Bengio, Inference for the generalization error, Machine Learning 52 (2003).

    Examples
    --------
    >>> mean, low, high = paired_interval([0.1, 0.3, 0.2, 0.2], folds=2)
    >>> round(mean, 3), low < 0 < high
    (0.2, True)
    """
    d = real_array("differences", differences, "a vector of differences")
    integer("folds", folds, least=2)
    if d.ndim != 1 or d.size < 2:
        raise ValueError(f"differences: expected at least two numbers, got shape {d.shape}")
    half = student.ppf(0.5 + level / 2, d.size - 1) * np.sqrt(
        (1 / d.size + 1 / (folds - 1)) * d.var(ddof=1)
    )
    return float(d.mean()), float(d.mean() - half), float(d.mean() + half)


def _known(name: str) -> RouterStudy:
    one_of("study", name, ROUTER_STUDIES)
    return ROUTER_STUDIES[name]


def _data(X, y) -> tuple[Array, Array]:
    X, y = real_array("X", X, "a matrix"), real_array("y", y, "a vector")
    if X.ndim != 2 or y.shape != (len(X),) or not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise ValueError(f"X: expected finite (n, d) and y (n,), got {X.shape} and {y.shape}")
    return X, y


def _fit(model: FlatModel, Z: Array, u: Array, start: MixingMeasure):
    theta = start.to_vector()
    box = Box(np.full(theta.size, -LARGEST), np.full(theta.size, LARGEST))
    return fit_least_squares(model, Z, u, start, box, coarse=False)


def _standardised(X: Array, y: Array, train: Array) -> tuple[Array, Array]:
    """All samples, centred and scaled by those of the training part."""
    scale = X[train].std(axis=0)
    Z = (X - X[train].mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    return Z, (y - y[train].mean()) / y[train].std()


def _norm_kept(starts: list, fits: list) -> float:
    before, after = (
        np.array([np.linalg.norm(G.router, axis=1) for G in m]) for m in (starts, fits)
    )
    moves = before > 0
    return float(np.corrcoef(np.log(before[moves]), np.log(after[moves]))[0, 1])


def _line(Z: Array, u: Array) -> Array:
    """Slopes and intercept of one regression line."""
    return np.linalg.lstsq(np.column_stack([Z, np.ones(len(Z))]), u, rcond=None)[0]


def _shares(weights: Array) -> Array:
    """Weights as shares: a sigmoid gate's need not sum to one."""
    return weights / weights.sum(axis=1, keepdims=True)
