r"""How well a truth can be told from its neighbours, and the search for one that can.

A rate in n shows only where n samples resolve the parameters. Two numbers say whether they do:
the largest standard error of an exact fit, and the smallest split of a channel that is noticed.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtri

from hmoe_lib.arguments import number
from hmoe_lib.blocks import quadratic_features
from hmoe_lib.experiments.checks import integer
from hmoe_lib.measures import HierarchicalMeasure
from hmoe_lib.models import Mha, OutputGated, ValueGated
from hmoe_lib.models.formulas import gates

Array = np.ndarray

__all__ = ["Conditioning", "conditioning", "search_truth"]

NOTICED = 3.84  # n F^2 / sd^2 of a split that a 5 % test notices half of the time: 1.96 squared
DIRECTIONS = 200  # tried before the two weakest of each channel are refined


class Conditioning(NamedTuple):
    """What n samples see of a truth.

    standard_error: of the worst identifiable combination of parameters in a fit with K = K*;
    resolution: the smallest delta of a split a +- delta v, v of length 1, into equal halves that is
    noticed for every channel and every v. It is infinite for linear experts.
    """

    standard_error: float
    resolution: float

    @property
    def score(self) -> float:
        """What the search minimises: resolution, where it is finite, plus half the error."""
        return (self.resolution if self.resolution < np.inf else 0.0) + 0.5 * self.standard_error


def conditioning(
    model, G: HierarchicalMeasure, X, n: float = 10_000, noise_sd: float = 0.1
) -> Conditioning:
    r"""Return what n samples see of a truth.

    Parameters
    ----------
    model : HierarchicalModel
        The model, with its activation.
    G : HierarchicalMeasure
        The truth.
    X : array_like, shape (points, d)
        Points whose empirical law stands for mu, more than there are parameters.
    n : float, default 10000
        Sample size.
    noise_sd : float, default 0.1
        Standard deviation of the noise.

    Returns
    -------
    Conditioning

    Raises
    ------
    ValueError
        For no model of the library, too few points, or n or noise_sd out of range.

    Notes
    -----
    With J the Jacobian and P the projection at right angles to its columns in L2(mu),

    .. math::
        \mathrm{se} = \frac{\sigma}{\sqrt n\, s_{\min}(J)}, \qquad
        \delta_n = \Bigl(\frac{3.84\, \sigma^2}{n \min_{h,k,v} c_{h,k}(v)^2}\Bigr)^{1/4}, \qquad
        c_{h,k}(v) = \tfrac12 \bigl\lVert P\, \partial^2_v g\bigr\rVert,

    the second derivative in the vector :math:`(a_{h,i,k})_i` along v. The minimum over v is
    searched for, so the true resolution is at least what is returned. With linear experts only
    H (N-1) (d(d+1)/2 + d) + d combinations are identifiable: s_min is the smallest singular value
    of as many.

    Examples
    --------
    >>> from hmoe_lib.experiments import TRUTH_VALUE, grid
    >>> seen = conditioning(ValueGated("sigmoid", bias=1.0), TRUTH_VALUE, grid(32, 2))
    >>> seen.resolution < 0.5 and seen.standard_error < 0.5
    True
    """
    if not isinstance(model, ValueGated | OutputGated | Mha):
        raise ValueError(f"model: expected a model such as Mha(), got {model!r}")
    n, noise_sd = number("n", n, above=0.0), number("noise_sd", noise_sd, above=0.0)
    J = model.jacobian(G, X)
    if len(J) <= J.shape[1]:
        raise ValueError(f"X: expected more than {J.shape[1]} points, got {len(J)}")
    J = J / np.sqrt(len(J))
    Q, R = np.linalg.qr(J)
    singular = np.linalg.svd(R, compute_uv=False)
    if isinstance(model, Mha):
        H, N, _, d = G.shape
        seen = singular[H * (N - 1) * (G.shape.pairs + d) + d - 1]
        return Conditioning(_over(noise_sd / np.sqrt(n), seen), np.inf)
    bends, pairs = _bends(model, G, np.asarray(X, dtype=float))
    bends -= (bends @ Q) @ Q.T
    weakest = min(_weakest(bend @ bend.T, pairs, G.experts * G.dim) for bend in bends)
    square = _over(NOTICED * noise_sd**2 / n, weakest)
    return Conditioning(_over(noise_sd / np.sqrt(n), singular[-1]), square**0.25)


def _over(numerator: float, denominator: float) -> float:
    return float(numerator / denominator) if denominator > 0.0 else np.inf


def search_truth(
    model,
    heads: int,
    dim: int,
    *,
    rng: np.random.Generator,
    experts: int = 2,
    channels: int = 2,
    weight: float = 8.0,
    largest_M: float = 20.0,
    largest_a: float = 12.0,
    draws: int = 200,
    steps: int = 600,
    points: int = 1000,
) -> HierarchicalMeasure:
    r"""Search for a truth that few samples resolve; no data are drawn and no fit is made.

    Parameters
    ----------
    model : HierarchicalModel
        The model.
    heads, dim, experts, channels : int
        H, d, N and K* of the truth.
    rng : numpy.random.Generator
        Draws points, candidates and moves.
    weight : float, default 8
        All channel weights.
    largest_M, largest_a : float
        Bounds on the entries.
    draws, steps : int
        Truths drawn at random, and moves that then refine the best of them.
    points : int, default 1000
        Uniform points of [-1, 1]^d on which truths are compared.

    Returns
    -------
    HierarchicalMeasure
        Rounded to one decimal.

    Notes
    -----
    Minimises ``conditioning(...).score`` at n = 10000 and noise sd 0.1. Candidates are uniform in
    the box, then M and a are scaled by factors log-uniform in [0.1, 1]: large entries saturate,
    the more so the larger d. A move adds Gaussian steps to all entries and is kept if it is
    better; steps grow after a success and shrink after a failure.

    Examples
    --------
    >>> model, rng = ValueGated("sigmoid", bias=1.0), np.random.default_rng(0)
    >>> G = search_truth(model, 1, 1, rng=rng, draws=5, steps=10, points=200)
    >>> G.shape.heads, G.dim, float(G.omega.max())
    (1, 1, 8.0)
    """
    for name, value in (("draws", draws), ("steps", steps), ("points", points)):
        integer(name, value, least=1)
    X = rng.uniform(-1.0, 1.0, (points, dim))
    omega = np.full((heads, channels), float(weight))
    shape = (heads, experts, channels, dim)

    def measure(M: Array, a: Array) -> HierarchicalMeasure:
        M = np.triu(np.clip(M, -largest_M, largest_M))
        M[:, -1] = 0.0
        M += np.triu(M, 1).swapaxes(-1, -2)
        return HierarchicalMeasure(omega, M.round(1), np.clip(a, -largest_a, largest_a).round(1))

    def candidate() -> HierarchicalMeasure:
        M, a = (rng.uniform(-1, 1, s) for s in ((heads, experts, dim, dim), shape))
        scale_M, scale_a = 10.0 ** -rng.uniform(0.0, 1.0, 2)
        return measure(largest_M * scale_M * M, largest_a * scale_a * a)

    def score(G: HierarchicalMeasure) -> float:
        return conditioning(model, G, X).score

    def moved(G: HierarchicalMeasure, length: float) -> HierarchicalMeasure:
        M, a = (length * rng.standard_normal(block.shape) for block in (G.M, G.a))
        return measure(G.M + largest_M * M, G.a + largest_a * a)

    return _improved(min((candidate() for _ in range(draws)), key=score), score, moved, steps)


def _improved(best, score, moved, steps: int):
    """Keep a move whenever it scores lower; lengthen moves after a success, else shorten them."""
    lowest, length = score(best), 0.1
    for _ in range(steps):
        there = moved(best, length)
        here = score(there)
        if here < lowest:
            best, lowest, length = there, here, min(1.5 * length, 0.3)
        else:
            length = max(0.93 * length, 0.004)
    return best


def _bends(model, G: HierarchicalMeasure, X: Array) -> tuple[Array, tuple[Array, Array]]:
    """Half the second derivatives of each channel in its expert vectors, over sqrt(points).

    Shape (H K, pairs, points), and the pairs of coordinates (i, p) that each belongs to.
    """
    M, a, omega = G.shape.split(G.to_vector())
    H, N, K, d = G.shape
    x = X.T
    s = gates(M, quadratic_features(x))
    first, second = np.triu_indices(N * d)
    if isinstance(model, ValueGated):  # experts add up: no pair joins two of them
        same = first // d == second // d
        first, second = first[same], second[same]
        curved = omega[:, None, :, None] * s[:, :, None] * model.phi.second_derivative(a @ x)
        rows = curved[:, first // d].transpose(0, 2, 1, 3)  # (H, K, pairs, points)
        bends = rows * (x[first % d] * x[second % d])
    else:
        inner = np.einsum("hnb,hnkb->hkb", s, a @ x)
        curved = omega[..., None] * model.phi.second_derivative(inner)
        moved = (s[:, :, None] * x).reshape(H, N * d, -1)
        bends = curved[:, :, None] * (moved[:, first] * moved[:, second])[:, None]
    return 0.5 / np.sqrt(len(X)) * bends.reshape(H * K, first.size, -1), (first, second)


@cache
def _directions(size: int) -> Array:
    """Unit vectors that cover the sphere, without chance: a truth has one resolution."""
    ratio = 2.0
    for _ in range(60):  # the root of ratio^(size + 1) = 1 + ratio: the golden ratio at size 1
        ratio = (1.0 + ratio) ** (1.0 / (size + 1))
    cube = np.arange(1, DIRECTIONS + 1)[:, None] * ratio ** -np.arange(1.0, size + 1) % 1.0
    v = ndtri(cube)
    return v / np.linalg.norm(v, axis=1, keepdims=True)


def _weakest(gram: Array, pairs: tuple[Array, Array], size: int) -> float:
    """Smallest v -> m(v)^T gram m(v) over unit vectors v, m the products of pairs of entries."""
    first, second = pairs
    twice = np.where(first == second, 1.0, 2.0)

    def log_square(v: Array) -> tuple[float, Array]:
        m = twice * v[first] * v[second]
        pulled = gram @ m
        square, norm = max(m @ pulled, 1e-300), v @ v
        slope = np.zeros(size)
        np.add.at(slope, first, 2.0 * twice * pulled * v[second])
        np.add.at(slope, second, 2.0 * twice * pulled * v[first])
        return np.log(square) - 2.0 * np.log(norm), slope / square - 4.0 * v / norm

    tried = _directions(size)
    m = twice * tried[:, first] * tried[:, second]
    squares = np.einsum("vp,vp->v", m @ gram, m)
    starts = tried[np.argsort(squares)[:2]]
    found = [minimize(log_square, v, jac=True, method="L-BFGS-B").fun for v in starts]
    return float(np.exp(min(found)))
