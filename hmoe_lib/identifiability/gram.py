r"""How well a sample can tell the functions apart: the Gram matrix under the law of X.

:math:`\Gamma_{ij} = \int f_i f_j\, d\mu`, mu uniform on the cube. Its smallest eigenvalue depends
on how the functions are scaled, so the scaling is part of the result; as a heuristic, a
coefficient is known to within :math:`\sigma / \sqrt{n \lambda_{\min}}`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from hmoe_lib.identifiability import conditions
from hmoe_lib.identifiability.admission import admit
from hmoe_lib.identifiability.families import Family, insert
from hmoe_lib.identifiability.parsing import parse_activation, real
from hmoe_lib.identifiability.relations import Problem
from hmoe_lib.identifiability.tape import Arrays, Tape
from hmoe_lib.identifiability.truths import generic_truth, read_truth
from hmoe_lib.identifiability.verdict import place_of

Array = np.ndarray

__all__ = ["Gram", "ModelGram", "cube_rule", "gram", "gram_of"]

SCALINGS = ("unit", "raw")
BATCHES = 10


@dataclass(frozen=True)
class Gram:
    """Gram matrix of functions and what it says.

    Attributes
    ----------
    matrix : ndarray, shape (m, m)
    labels : tuple of str
    scaling : {"unit", "raw"}
        Functions scaled to norm 1, or as they are.
    smallest, largest : float
        Extreme eigenvalues; the smallest is 0 when it cannot be told from rounding.
    error : float
        Of the smallest eigenvalue: change on a finer quadrature, or standard error by batches.
    """

    matrix: Array
    labels: tuple[str, ...]
    scaling: str
    smallest: float
    largest: float
    error: float

    @property
    def condition(self) -> float:
        """Largest over smallest eigenvalue; infinity for dependent functions."""
        return self.largest / self.smallest if self.smallest > 0 else np.inf

    def sample_size(self, noise_sd: float = 0.1, accuracy: float = 1.0) -> float:
        """Return n with noise_sd / sqrt(n smallest) = accuracy: a heuristic, not a bound."""
        if not (noise_sd > 0 and accuracy > 0):
            raise ValueError("noise_sd, accuracy: expected positive numbers")
        if self.smallest <= 0:
            return np.inf
        return noise_sd**2 / (self.smallest * accuracy**2)


def cube_rule(d: int, nodes: int) -> tuple[Array, Array]:
    """Return Gauss-Legendre points (nodes^d, d) on the cube and weights that sum to 1.

    Examples
    --------
    >>> X, w = cube_rule(2, 4)
    >>> round(float(w @ (X[:, 0] ** 2 * X[:, 1] ** 4)), 12) == round(1 / 15, 12)
    True
    """
    if nodes < 2 or nodes**d > 2_000_000:
        raise ValueError(f"nodes: expected at least 2 and nodes^{d} <= 2000000, got {nodes}")
    t, w = np.polynomial.legendre.leggauss(nodes)
    X = np.array(list(itertools.product(t, repeat=d)))
    weights = np.array([np.prod(c) for c in itertools.product(w / 2, repeat=d)])
    return X, weights


def gram(
    phi,
    dim: int = 2,
    condition: str = "model",
    setting: str = "I",
    atoms=None,
    nodes: int = 24,
    scaling: str = "unit",
    samples: int | None = None,
    rng: np.random.Generator | None = None,
) -> Gram:
    """Return the Gram matrix of the distinct functions of a condition.

    Parameters
    ----------
    phi, dim, condition, setting, atoms
        As for :func:`verdict`.
    nodes : int, default 24
        Quadrature nodes an axis.
    scaling : {"unit", "raw"}
        Scale the functions to norm 1, or leave them.
    samples, rng : int and Generator, optional
        Monte Carlo instead of quadrature, for large d.

    Examples
    --------
    >>> g = gram("tanh", dim=1, condition="sharp")
    >>> g.matrix.shape, g.smallest > 0, g.condition > 1
    ((8, 8), True, True)
    """
    family, reach = place_of(dim, condition, setting, atoms)
    problem = Problem(family, admit(parse_activation(phi), reach))
    _, kept = problem.coincidences()
    return gram_of(problem, kept, nodes, scaling, samples, rng)


def gram_of(problem: Problem, places, nodes=24, scaling="unit", samples=None, rng=None) -> Gram:
    """Return the Gram matrix of the functions of a problem at these places."""
    labels = tuple(problem.family.labels[i] for i in places)

    def values(X: Array) -> Array:
        columns = problem.tape.run(list(X.T), Arrays())
        return np.stack([np.broadcast_to(columns[i], len(X)) for i in places], axis=1)

    d = len(problem.family.inputs)
    if samples is None:
        return _by_quadrature(values, labels, d, nodes, scaling)
    return _by_sampling(values, labels, d, samples, scaling, rng)


def _by_quadrature(values, labels, d: int, nodes: int, scaling: str) -> Gram:
    (low, *_), (finer, high, _, F) = (
        _spectrum(values, *cube_rule(d, m), scaling) for m in (nodes, nodes + 8)
    )
    return Gram(F.T @ F, labels, scaling, finer, high, abs(finer - low))


def _by_sampling(values, labels, d: int, samples: int, scaling: str, rng) -> Gram:
    if not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng: expected a numpy Generator, got {type(rng).__name__}")
    if samples < 10 * len(labels):
        raise ValueError(f"samples: expected at least {10 * len(labels)}, got {samples}")
    X, w = rng.uniform(-1.0, 1.0, size=(samples, d)), np.full(samples, 1 / samples)
    low, high, direction, F = _spectrum(values, X, w, scaling)
    # To first order an eigenvalue moves with the quadratic form of its own vector.
    squares = samples * (F @ direction) ** 2
    parts = [part.mean() for part in np.array_split(squares, BATCHES)]
    error = float(np.std(parts, ddof=1) / np.sqrt(BATCHES))
    return Gram(F.T @ F, labels, scaling, low, high, error)


def _spectrum(values, X: Array, w: Array, scaling: str) -> tuple[float, float, Array, Array]:
    """Extreme eigenvalues, the vector of the smallest, and F with Gram matrix F^T F.

    From singular values of F: the matrix itself would lose half of the digits.
    """
    if scaling not in SCALINGS:
        raise ValueError(f"scaling: expected one of {list(SCALINGS)}, got {scaling!r}")
    F = np.sqrt(w)[:, None] * values(X)
    if scaling == "unit":
        norms = np.linalg.norm(F, axis=0)
        F = F / np.where(norms > 0, norms, 1.0)
    _, s, Vt = np.linalg.svd(F, full_matrices=False)
    rounding = 4 * max(F.shape) * np.finfo(float).eps * s[0]
    smallest = s[-1] ** 2 if len(s) == F.shape[1] and s[-1] > rounding else 0.0
    return float(smallest), float(s[0] ** 2), Vt[-1], F


class ModelGram:
    """The Gram matrix of the model condition at many truths of one shape: compiled once.

    Parameters
    ----------
    phi : str, Activation or sympy.Expr
        Activation.
    shape : tuple of int
        (H, N, K, d).
    setting : {"I", "II"}
    nodes : int, default 24
        Quadrature nodes an axis.

    Examples
    --------
    >>> from hmoe_lib.identifiability.truths import generic_truth
    >>> at = ModelGram("tanh", (1, 2, 1, 1), nodes=16)
    >>> at(generic_truth(1, 1, 2, 1)).smallest > 0
    True
    """

    def __init__(self, phi, shape, setting: str = "I", nodes: int = 24) -> None:
        H, N, K, d = self.shape = tuple(shape)
        self.nodes = nodes
        truth = generic_truth(d, H, N, K)
        family: Family = conditions.model(truth, setting)
        self.places = Problem(family, parse_activation(phi)).coincidences()[1]
        g = conditions.layout(self.shape, setting).g
        self.labels = tuple(family.labels[i] for i in self.places)
        functions = [_open_derivative(g, family.listed[i].by) for i in self.places]
        self.names = list(conditions.named(truth))
        plain = admit(parse_activation(phi))
        self.tape = Tape(insert(functions, plain), [*family.inputs, *self.names])

    def __call__(self, truth, scaling: str = "unit") -> Gram:
        """Return the Gram matrix at a truth: a measure, a dict or a Truth."""
        d = self.shape[3]
        truth = read_truth(truth, d)
        if truth.shape != self.shape:
            raise ValueError(f"truth: expected sizes {self.shape}, got {truth.shape}")
        at = conditions.named(truth)
        numbers = [float(at[s]) for s in self.names]

        def values(X: Array) -> Array:
            columns = self.tape.run([*X.T, *numbers], Arrays())
            return np.stack([np.broadcast_to(c, len(X)) for c in columns], axis=1)

        return _by_quadrature(values, self.labels, d, self.nodes, scaling)


def _open_derivative(g, by):
    for name in by:
        g = g.diff(real(name))
    return g
