"""Where a maximum likelihood fit begins: near the truth, from k-means, at random; many starts."""

from __future__ import annotations

import numpy as np
from scipy.cluster.vq import ClusterError, kmeans2
from scipy.linalg import lstsq

from hmoe_lib.arguments import number
from hmoe_lib.densities import ContaminatedMoE, MixtureDensity
from hmoe_lib.estimation.em import fit_em
from hmoe_lib.estimation.likelihood import fit_likelihood, likelihood_box
from hmoe_lib.estimation.likelihood_result import LikelihoodFit
from hmoe_lib.mixing import MixingMeasure

Array = np.ndarray

__all__ = ["data_start", "fit_mixture", "split_start"]

SPURIOUS = ("variance floor", "vanishing component", "diverged")
WARM_UP = 10  # steps of EM before Newton's, from a start that is not near a maximum
LARGEST_ROUTER = 10.0


def split_start(
    model: MixtureDensity,
    G_star: MixingMeasure,
    atom: int | None,
    copies: int = 2,
    distance: float = 0.0,
    nodes: float = 0.0,
    *,
    rng: np.random.Generator,
) -> MixingMeasure:
    r"""Return a start at the truth, one atom in several copies, and everything perturbed.

    Parameters
    ----------
    model : MixtureDensity
        Its pins are applied.
    G_star : MixingMeasure
        The truth.
    atom : int or None
        Which atom is copied; None for none.
    copies : int, default 2
        How many of it there are then, sharing its weight equally.
    distance : float, default 0
        Every free entry moves by a uniform number in plus and minus this.
    nodes : float, default 0
        For affine normal experts: t, by which the copies go along the direction that the
        likelihood sees least. Their intercepts move by t sqrt(nu) times the nodes of Gauss and
        Hermite, with their weights, and their variance becomes nu (1 - t^2); 0 <= t < 1.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    MixingMeasure
        Its note says that it began near the truth, and how far from it.

    Raises
    ------
    ValueError
        For a negative distance, t outside [0, 1), or fewer than one copy.

    Examples
    --------
    >>> from hmoe_lib.densities import GaussianMoE
    >>> G = MixingMeasure([[1.0], [0.0]], [0.0, 0.0], [[2.0, 0.0, 0.0], [-2.0, 0.0, 0.0]])
    >>> start = split_start(GaussianMoE(), G, 0, nodes=0.5, rng=np.random.default_rng(0))
    >>> start.expert[:2, 1].tolist(), start.note[:20]
    ([-0.5, 0.5], 'started at the truth')
    """
    distance = number("distance", distance, least=0.0)
    t = number("nodes", nodes, least=0.0)
    if t >= 1.0:
        raise ValueError(f"nodes: expected a number in [0, 1), got {t:g}")
    G = model.pinned(G_star)
    if atom is not None and copies > 1:
        z, shares = np.polynomial.hermite_e.hermegauss(copies)
        shares = shares / shares.sum() if t > 0 else np.full(copies, 1.0 / copies)
        G = model.pinned(G.split_atom(atom, shares, "exp"))
        if t > 0:
            eta = G.expert.copy()
            at = slice(atom, atom + copies)
            eta[at, -2] += t * np.exp(0.5 * eta[at, -1]) * z
            eta[at, -1] += np.log1p(-(t**2))
            G = MixingMeasure(G.router, G.bias, eta, G.shared, G.pinned)
    theta = G.to_vector()
    note = f"started at the truth, perturbed by {distance:.3g}"
    if t > 0:
        note += f", its copies at Gauss-Hermite nodes with t = {t:.3g}"
    return G.from_vector(theta + distance * rng.uniform(-1.0, 1.0, theta.size), note=note)


def data_start(
    model: MixtureDensity, X, y, atoms: int, kind: str = "kmeans", *, rng: np.random.Generator
) -> MixingMeasure:
    """Return a start made of the data alone.

    Parameters
    ----------
    model : MixtureDensity
        A gated density: Gaussian with affine means, or multinomial.
    X : array_like, shape (n, d)
        Inputs.
    y : array_like, shape (n,)
        Responses.
    atoms : int
        k, at most n.
    kind : {"kmeans", "random"}
        Groups of samples by k-means on inputs and responses, or drawn at random.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    MixingMeasure
        Experts fitted to the groups; routers by linear discriminants of the groups' inputs.

    Raises
    ------
    ValueError
        For an unknown kind, or more atoms than samples.

    Examples
    --------
    >>> from hmoe_lib.densities import GaussianMoE
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (60, 1))
    >>> data_start(GaussianMoE(), X, np.abs(X[:, 0]), 2, rng=rng).note
    'started from k-means'
    """
    if isinstance(model, ContaminatedMoE):
        raise ValueError("model: expected a gated density; a prompt has no groups to start from")
    if kind not in ("kmeans", "random"):
        raise ValueError(f"kind: expected 'kmeans' or 'random', got {kind!r}")
    k = int(number("atoms", atoms, least=1))
    d = np.shape(X)[1] if np.ndim(X) == 2 else 0
    shared = np.ones(model.gate.score.shared)
    p = model.gate.score.router_size(d)
    G = MixingMeasure(np.zeros((k, p)), np.zeros(k), np.zeros((k, model.law.size(d))), shared)
    X, y = model.check(G, X, y)
    if k > len(X):
        raise ValueError(f"atoms: expected at most n = {len(X)}, got {k}")
    group = _groups(model, X, y, k, kind, rng)
    router, bias = _discriminants(X, group, k, p)
    eta = np.stack([_expert(model, X, y, group == i, rng) for i in range(k)])
    note = "started from k-means" if kind == "kmeans" else "started at random"
    router, bias = router - router[-1], bias - bias[-1]
    return model.pinned(MixingMeasure(router, bias, eta, shared, note=note))


def fit_mixture(
    model: MixtureDensity,
    X,
    y,
    atoms: int,
    starts: int = 10,
    method: str = "newton",
    *,
    rng: np.random.Generator,
    **options,
) -> LikelihoodFit:
    """Fit from several starts and return the best: k-means first, random groups in turn.

    Parameters
    ----------
    model : MixtureDensity
        A gated density of the library.
    X : array_like, shape (n, d)
        Inputs.
    y : array_like, shape (n,)
        Responses.
    atoms : int
        k.
    starts : int, default 10
        How many starts; every second is random.
    method : {"newton", "em"}
        :func:`fit_likelihood` after ten steps of EM, or :func:`fit_em` alone.
    rng : numpy.random.Generator
        Source of randomness.
    options : keyword arguments
        Passed to the method.

    Returns
    -------
    LikelihoodFit
        Of the largest likelihood among the fits that kept all their atoms and all variances off
        their floor; if there is none, of all. The message says how many starts there were.

    Raises
    ------
    ValueError
        For an unknown method, fewer than one start, or data that cannot be fitted.

    Examples
    --------
    >>> from hmoe_lib.densities import GaussianMoE
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 1))
    >>> y = np.abs(X[:, 0]) + 0.1 * rng.standard_normal(400)
    >>> fit_mixture(GaussianMoE(), X, y, 2, starts=2, rng=rng).converged
    True
    """
    if method not in ("newton", "em"):
        raise ValueError(f"method: expected 'newton' or 'em', got {method!r}")
    starts = int(number("starts", starts, least=1))
    few_samples, fits = options.get("few_samples", False), []
    for number_of_start in range(starts):
        kind = "random" if number_of_start % 2 else "kmeans"
        start = data_start(model, X, y, atoms, kind, rng=rng)
        own = dict(options)
        own.setdefault("bounds", likelihood_box(model, start, y))
        start = start.from_vector(own["bounds"].clip(start.to_vector()), note=start.note)
        if method == "em":
            fits.append(fit_em(model, X, y, start, **own))
            continue
        warm = fit_em(model, X, y, start, own["bounds"], WARM_UP, few_samples=few_samples)
        fits.append(fit_likelihood(model, X, y, warm.measure, **own))
    regular = [fit for fit in fits if fit.status not in SPURIOUS]
    best = max(regular or fits, key=lambda fit: fit.log_likelihood)
    message = f"{best.message[:-2]}; best of {starts} starts, {len(regular)} regular)."
    return LikelihoodFit(**{**vars(best), "message": message})


def _groups(model, X: Array, y: Array, k: int, kind: str, rng: np.random.Generator) -> Array:
    if kind == "random" or k == 1:
        return rng.permutation(np.arange(len(X)) % k)
    responses = y[:, None] if model.classes is None else np.eye(model.classes)[y]
    points = np.column_stack([X, responses]).astype(float)
    points -= points.mean(axis=0)
    points /= np.maximum(points.std(axis=0), np.finfo(float).tiny)
    centres = points[rng.choice(len(points), k, replace=False)]
    try:
        return kmeans2(points, centres, minit="matrix", missing="raise")[1]
    except ClusterError:  # a group without points, as repeated rows make them
        return rng.permutation(np.arange(len(X)) % k)


def _discriminants(X: Array, group: Array, k: int, p: int) -> tuple[Array, Array]:
    """Linear scores of Gaussian groups with one covariance, capped: a start, not an estimate."""
    router, bias = np.zeros((k, p)), np.log((np.bincount(group, minlength=k) + 1.0) / len(X))
    if p != X.shape[1]:
        return router, bias
    centre, spread = X.mean(axis=0), np.maximum(X.std(axis=0), np.finfo(float).tiny)
    for i in range(k):
        inside = X[group == i]
        if len(inside):
            mean = (inside.mean(axis=0) - centre) / spread
            router[i] = np.clip(mean, -LARGEST_ROUTER, LARGEST_ROUTER) / spread
            bias[i] -= 0.5 * mean @ mean + router[i] @ centre
    return router, bias


def _expert(model, X: Array, y: Array, inside: Array, rng: np.random.Generator) -> Array:
    if model.classes is not None:
        counts = np.bincount(y[inside], minlength=model.classes) + 1.0
        level = np.log(counts / counts[-1])[:-1]
        slopes = rng.standard_normal((model.classes - 1, X.shape[1])) / np.maximum(
            X.std(axis=0), np.finfo(float).tiny
        )
        return np.column_stack([slopes, level - slopes @ X.mean(axis=0)]).ravel()
    few = inside.sum() <= X.shape[1] + 1
    inside = np.ones(len(X), bool) if few else inside
    features = np.column_stack([X, np.ones(len(X))]) if model.law.mean.bias else X
    coefficients = lstsq(features[inside], y[inside])[0]
    residual = (y - features @ coefficients)[inside]
    variance = max(residual.var(), 1e-3 * y.var(), np.finfo(float).tiny)
    return np.append(coefficients, np.log(variance))
