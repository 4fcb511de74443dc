r"""The one likelihood behind all four systems: a sum of LSE u - LSE s, with two derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

Array = np.ndarray

__all__ = [
    "Expansion",
    "Terms",
    "expansion",
    "log_density",
    "lower_bound",
    "responsibilities",
    "surrogate",
]


class Terms(NamedTuple):
    r"""What one block of samples says about each of k atoms.

    Attributes
    ----------
    u : ndarray, shape (k, B)
        Score of the gate plus log density of the expert.
    s : ndarray, shape (k, B)
        Score of the gate alone; minus infinity where an atom is not selected.
    jacobian : ndarray, shape (k, q, B)
        Derivatives of u in the coordinates of each atom, those of the gate first.
    index : ndarray of int, shape (k, q)
        Where these coordinates sit in the parameter vector; p for one that is pinned.
    gate_size : int
        How many of the q coordinates belong to the gate.
    curvature : callable
        ``curvature(r, pi)`` returns, for each atom, the (q, q) sum over samples of r times the
        second derivatives of u minus pi times those of s.
    """

    u: Array
    s: Array
    jacobian: Array
    index: Array
    gate_size: int
    curvature: Callable[[Array, Array], Array]


class Expansion(NamedTuple):
    """A log-likelihood at a point, its gradient, and two curvatures of minus the log-likelihood.

    ``hessian`` is minus the exact second derivative, ``scores`` the sum of the outer products of
    the samples' gradients; both are (p, p).
    """

    value: float
    gradient: Array
    hessian: Array
    scores: Array


def _normalised(scores: Array) -> tuple[Array, Array]:
    """Return LSE over the first axis and the softmax; minus infinity counts as absent."""
    top = scores.max(axis=0)
    weights = np.exp(scores - top)
    total = weights.sum(axis=0)
    weights /= total
    return top + np.log(total), weights


def log_density(u: Array, s: Array) -> Array:
    """Return LSE u - LSE s, the log density of each sample, (B,)."""
    return _normalised(u)[0] - _normalised(s)[0]


def responsibilities(u: Array, s: Array) -> tuple[Array, Array]:
    """Return the posterior weights softmax(u) and the gate's weights softmax(s), each (k, B)."""
    return _normalised(u)[1], _normalised(s)[1]


def expansion(blocks: Iterable[Terms], size: int) -> Expansion:
    r"""Return the log-likelihood of all blocks with its gradient and two curvatures.

    Parameters
    ----------
    blocks : iterable of Terms
        The samples, block by block.
    size : int
        p, the number of free parameters.

    Returns
    -------
    Expansion
        Sums over all samples.

    Notes
    -----
    With :math:`r = \mathrm{softmax}(u)` and :math:`\pi = \mathrm{softmax}(s)`,

    .. math::
        \nabla \ell &= \sum_i r_i \nabla u_i - \sum_i \pi_i \nabla s_i = U - S , \\
        \nabla^2 \ell &= \sum_i r_i (\nabla^2 u_i + \nabla u_i \nabla u_i^\top) - U U^\top
        - \sum_i \pi_i (\nabla^2 s_i + \nabla s_i \nabla s_i^\top) + S S^\top .
    """
    value, gradient = 0.0, np.zeros(size + 1)
    hessian, outer = np.zeros((size + 1, size + 1)), np.zeros((size + 1, size + 1))
    for terms in blocks:
        log_u, r = _normalised(terms.u)
        log_s, pi = _normalised(terms.s)
        value += float(np.sum(log_u - log_s))
        U, S = np.zeros((size + 1, r.shape[1])), np.zeros((size + 1, r.shape[1]))
        second = terms.curvature(r, pi)
        gate = slice(0, terms.gate_size)
        # Entry p collects what belongs to pinned coordinates; it is dropped at the end.
        for i, (J, at) in enumerate(zip(terms.jacobian, terms.index, strict=True)):
            weighted = r[i] * J
            of_gate = pi[i] * J[gate]
            U[at] += weighted
            S[at[gate]] += of_gate
            local = second[i] + weighted @ J.T
            local[gate, gate] -= of_gate @ J[gate].T
            hessian[np.ix_(at, at)] -= local
        hessian += U @ U.T - S @ S.T
        U -= S
        gradient += U.sum(axis=1)
        outer += U @ U.T
    free = slice(0, size)
    return Expansion(value, gradient[free], hessian[free, free], outer[free, free])


def lower_bound(u: Array, s: Array, r: Array) -> float:
    """Return the value of EM's lower bound on one block, r held fixed."""
    # Atoms that are not selected have r = 0 and u = -inf; they count as nothing.
    weighted = np.multiply(r, u, out=np.zeros_like(r), where=r > 0)
    return float(weighted.sum() - _normalised(s)[0].sum())


def surrogate(blocks: Iterable[Terms], weights: Iterable[Array], size: int) -> Expansion:
    r"""Return EM's lower bound :math:`Q = \sum r_i u_i - \mathrm{LSE}\, s`, r held fixed.

    Parameters
    ----------
    blocks : iterable of Terms
        The samples, block by block.
    weights : iterable of ndarray, shape (k, B)
        The responsibilities r of each block.
    size : int
        p, the number of free parameters.

    Returns
    -------
    Expansion
        Value, gradient and minus the second derivative of Q; ``scores`` is that again.
    """
    value, gradient, hessian = 0.0, np.zeros(size + 1), np.zeros((size + 1, size + 1))
    for terms, r in zip(blocks, weights, strict=True):
        pi = _normalised(terms.s)[1]
        value += lower_bound(terms.u, terms.s, r)
        S = np.zeros((size + 1, r.shape[1]))
        second = terms.curvature(r, pi)
        gate = slice(0, terms.gate_size)
        for i, (J, at) in enumerate(zip(terms.jacobian, terms.index, strict=True)):
            of_gate = pi[i] * J[gate]
            S[at[gate]] += of_gate
            gradient[at] += J @ r[i]
            second[i, gate, gate] -= of_gate @ J[gate].T
            hessian[np.ix_(at, at)] -= second[i]
        hessian -= S @ S.T
        gradient -= S.sum(axis=1)
    free = slice(0, size)
    hessian = hessian[free, free]
    return Expansion(value, gradient[free], hessian, hessian)
