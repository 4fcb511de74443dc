"""Checks of attention and of its rewrite as a mixture of experts."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hmoe_lib import reference_attention
from hmoe_lib.exercises.comparison import ROUNDS, Array, Case, compare

__all__ = ["check_attention", "check_expert_vector", "check_score_matrix", "check_softmax"]


def _softmax_rows(scores: Array) -> Array:
    rows = scores.reshape(-1, scores.shape[-1])
    return np.array([reference_attention._softmax(list(row)) for row in rows]).reshape(scores.shape)


def check_softmax(softmax: Callable, rng: np.random.Generator, large: bool = False) -> str:
    """Check a softmax over the last axis of an array.

    Parameters
    ----------
    softmax : callable
        ``softmax(scores)``, the shape of the scores stays.
    rng : numpy.random.Generator
        Draws the scores.
    large : bool, default False
        Use scores of about a thousand, for which exp overflows.

    Returns
    -------
    str
        A sentence, if all is well.

    Raises
    ------
    DifferenceError
        With the smallest scores found for which the result is wrong.

    Examples
    --------
    >>> def softmax(scores):
    ...     e = np.exp(scores)
    ...     return e / e.sum(axis=-1, keepdims=True)
    >>> print(check_softmax(softmax, np.random.default_rng(0)))
    Well done: 24 inputs, and your results agree with the loops on all of them.
    """
    shapes = [(1,), (2,), (2, 2), (3, 2)]
    size, shift = (5.0, 1000.0) if large else (2.0, 0.0)
    cases = (
        {"scores": shift + size * rng.standard_normal(shape)}
        for shape in shapes
        for _ in range(ROUNDS)
    )
    mistakes = {
        "the sum runs over the wrong axis. Each row (the last axis) has to sum to 1.": (
            lambda scores: np.exp(scores) / np.exp(scores).sum(axis=0)
        ),
        "the sum runs over all entries. Each row (the last axis) has to sum to 1.": (
            lambda scores: np.exp(scores) / np.exp(scores).sum()
        ),
    }
    with np.errstate(all="ignore"):
        return compare(softmax, _softmax_rows, cases, mistakes)


def _heads(rng: np.random.Generator, N: int, d: int, H: int, d_k: int, d_v: int) -> Case:
    return {
        "X": rng.standard_normal((N, d)),
        "W_Q": rng.standard_normal((H, d, d_k)),
        "W_K": rng.standard_normal((H, d, d_k)),
        "W_V": rng.standard_normal((H, d, d_v)),
        "W_O": rng.standard_normal((H, d_v, 2)),
    }


def _attention(X, W_Q, W_K, W_V, W_O, scale=None) -> Array:
    entry = reference_attention.attention_entry
    shape = (len(X), W_O.shape[2])
    out = [entry(X, W_Q, W_K, W_V, W_O, i, c, scale=scale) for i, c in np.ndindex(shape)]
    return np.reshape(out, shape)


def check_attention(attention: Callable, rng: np.random.Generator) -> str:
    """Check multi-head attention.

    Parameters
    ----------
    attention : callable
        ``attention(X, W_Q, W_K, W_V, W_O)`` with shapes (N, d), (H, d, d_k), (H, d, d_k),
        (H, d, d_v) and (H, d_v, d_out); scores are divided by sqrt(d_k); it returns (N, d_out).
    rng : numpy.random.Generator
        Draws tokens and weights.

    Returns
    -------
    str
        A sentence, if all is well.

    Raises
    ------
    DifferenceError
        With the smallest input found for which the result is wrong.

    Examples
    --------
    >>> from hmoe_lib.attention import multi_head_attention
    >>> print(check_attention(multi_head_attention, np.random.default_rng(0)))
    Well done: 30 inputs, and your results agree with the loops on all of them.
    """
    sizes = [(1, 1, 1, 1, 1), (2, 1, 1, 2, 1), (2, 2, 1, 3, 1), (3, 2, 2, 2, 1), (3, 2, 2, 3, 2)]
    cases = (_heads(rng, *size) for size in sizes for _ in range(ROUNDS))
    mistakes = {
        "the factor 1/sqrt(d_k) on the scores is missing.": (
            lambda X, W_Q, W_K, W_V, W_O: _attention(X, W_Q, W_K, W_V, W_O, scale=1.0)
        ),
        "queries and keys have changed places; look at the transposes.": (
            lambda X, W_Q, W_K, W_V, W_O: _attention(X, W_K, W_Q, W_V, W_O)
        ),
    }
    return compare(attention, _attention, cases, mistakes)


def _score_matrix(W_Q, W_K, i, j, N) -> Array:
    d, d_k = W_Q.shape
    P = W_Q @ W_K.T / math.sqrt(d_k)
    M = np.zeros((N * d, N * d))
    for p in range(d):
        for q in range(d):
            M[i * d + p, j * d + q] += P[p, q] / 2
            M[j * d + q, i * d + p] += P[p, q] / 2
    return M


def check_score_matrix(score_matrix: Callable, rng: np.random.Generator) -> str:
    """Check the symmetric M of one head: x^T M x is the score of query i and key j.

    Parameters
    ----------
    score_matrix : callable
        ``score_matrix(W_Q, W_K, i, j, N)`` for the (d, d_k) projections of one head and tokens
        counted from 0; it returns the symmetric (N d, N d) matrix over the stacked tokens.
    rng : numpy.random.Generator
        Draws the projections.

    Returns
    -------
    str
        A sentence, if all is well.

    Raises
    ------
    DifferenceError
        With the smallest input found for which the result is wrong.

    Examples
    --------
    >>> check_score_matrix(lambda W_Q, W_K, i, j, N: np.zeros((N, N)), np.random.default_rng(0))
    Traceback (most recent call last):
        ...
    hmoe_lib.exercises.comparison.DifferenceError: <lambda>: the numbers differ.
    ...
    """
    cases = (
        {
            "W_Q": rng.standard_normal((d, d_k)),
            "W_K": rng.standard_normal((d, d_k)),
            "i": i,
            "j": j,
            "N": N,
        }
        for N, d, d_k in [(1, 1, 1), (2, 1, 2), (2, 2, 1), (2, 2, 3)]
        for i in range(N)
        for j in range(N)
        for _ in range(2)
    )
    mistakes = {
        "queries and keys have changed places: this is the matrix of W_K W_Q^T.": (
            lambda W_Q, W_K, i, j, N: _score_matrix(W_K, W_Q, i, j, N)
        ),
        "the factor 1/sqrt(d_k) is missing.": (
            lambda W_Q, W_K, i, j, N: _score_matrix(W_Q, W_K, i, j, N) * math.sqrt(W_Q.shape[1])
        ),
        "M is not symmetric yet; take (M + M^T) / 2.": _one_sided,
    }
    return compare(score_matrix, _score_matrix, cases, mistakes)


def _one_sided(W_Q, W_K, i, j, N) -> Array:
    M, d = np.zeros((N * len(W_Q), N * len(W_Q))), len(W_Q)
    M[i * d : (i + 1) * d, j * d : (j + 1) * d] = W_Q @ W_K.T / math.sqrt(W_Q.shape[1])
    return M


def check_expert_vector(expert_vector: Callable, rng: np.random.Generator) -> str:
    """Check the vector a of one expert: a^T x is column k of token j's value.

    Parameters
    ----------
    expert_vector : callable
        ``expert_vector(W_V, j, k, N)`` for the (d, d_v) value projection of one head; it returns
        the (N d,) vector over the stacked tokens.
    rng : numpy.random.Generator
        Draws the projections.

    Returns
    -------
    str
        A sentence, if all is well.

    Raises
    ------
    DifferenceError
        With the smallest input found for which the result is wrong.

    Examples
    --------
    >>> def expert_vector(W_V, j, k, N):
    ...     return np.kron(np.eye(N)[j], W_V[:, k])
    >>> print(check_expert_vector(expert_vector, np.random.default_rng(0)))
    Well done: 21 inputs, and your results agree with the loops on all of them.
    """

    def loops(W_V, j, k, N):
        a = np.zeros(N * len(W_V))
        for p in range(len(W_V)):
            a[j * len(W_V) + p] = W_V[p, k]
        return a

    cases = (
        {"W_V": rng.standard_normal((d, d_v)), "j": j, "k": k, "N": N}
        for N, d, d_v in [(1, 1, 1), (2, 1, 2), (2, 2, 2), (3, 2, 4)]
        for j in range(N)
        for k in range(d_v)
    )
    return compare(expert_vector, loops, cases)
