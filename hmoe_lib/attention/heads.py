"""Scaled dot products, heads and masks: one pipeline, with a hook where a gate can sit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hmoe_lib.attention import checks
from hmoe_lib.attention.checks import Weights

Array = np.ndarray
Gate = Callable[[str, Array], Array]

__all__ = ["attend", "attention_weights", "causal_mask", "multi_head_attention"]


def causal_mask(N: int) -> Array:
    """Return the mask of a text read from left to right: row i may attend to tokens 0..i.

    Parameters
    ----------
    N : int
        Number of tokens.

    Returns
    -------
    ndarray of bool, shape (N, N)
        True where row i may attend to token j.

    Raises
    ------
    ValueError
        If N is not an integer of at least 1.

    Examples
    --------
    >>> causal_mask(3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    N = checks.positive("N", N)
    return np.tril(np.ones((N, N), dtype=bool))


def attention_weights(X, W_Q, W_K, scale=None, mask=None) -> Array:
    r"""Return the softmax weights of every head: who listens to whom.

    Parameters
    ----------
    X : array_like, shape (N, d)
        Tokens, one a row.
    W_Q, W_K : array_like, shape (H, d, d_k)
        Query and key projections.
    scale : float, optional
        Factor on the scores. By default 1/sqrt(d_k), as in practice; the paper writes 1/sqrt(d_v).
    mask : array_like of bool, shape (N, N), optional
        True where row i may attend to token j; see :func:`causal_mask`.

    Returns
    -------
    ndarray, shape (H, N, N)
        Rows sum to 1; entries that the mask forbids are exactly 0.

    Raises
    ------
    ValueError
        For a wrong shape, NaN or infinity, or a row of the mask with no allowed token.

    Notes
    -----
    Row i of head h is :math:`\mathrm{softmax}_j(x_i^\top W_{Q,h} W_{K,h}^\top x_j / \sqrt{d_k})`.

    References
    ----------
    Section 2 of the paper, the definition of attention.

    Examples
    --------
    >>> attention_weights([[1.0], [0.0]], [[[1.0]]], [[[0.0]]])
    array([[[0.5, 0.5],
            [0.5, 0.5]]])
    """
    W_Q, W_K = checks.queries_and_keys(W_Q, W_K)
    X = checks.tokens_matrix(X, W_Q.shape[1])
    mask = checks.allowed_tokens(mask, len(X))
    scale = checks.scale_factor(scale, W_Q.shape[2])
    with np.errstate(over="ignore", invalid="ignore"):  # checks.within_range says it in words
        return _softmax(_scores(X @ W_Q, X @ W_K, scale), mask)


def multi_head_attention(X, W_Q, W_K, W_V, W_O, scale=None, mask=None) -> Array:
    r"""Multi-head self-attention on one sequence of tokens.

    Parameters
    ----------
    X : array_like, shape (N, d)
        Tokens, one a row.
    W_Q, W_K : array_like, shape (H, d, d_k)
        Query and key projections, one pair a head.
    W_V : array_like, shape (H, d, d_v)
        Value projections.
    W_O : array_like, shape (H, d_v, d_out)
        Output projections: the H blocks of rows of the usual (H d_v, d_out) matrix.
    scale : float, optional
        Factor on the scores. By default 1/sqrt(d_k), as in practice; the paper writes
        1/sqrt(d_v). The two agree when keys and values have the same width.
    mask : array_like of bool, shape (N, N), optional
        True where row i may attend to token j; see :func:`causal_mask`.

    Returns
    -------
    ndarray, shape (N, d_out)
        One row a token.

    Raises
    ------
    ValueError
        For a wrong shape, NaN or infinity, scores beyond float64, or a row of the mask with no
        allowed token.

    Notes
    -----
    .. math::

        \sum_h \mathrm{softmax}(X W_{Q,h} W_{K,h}^\top X^\top / \sqrt{d_k})\, X W_{V,h} W_{O,h}

    References
    ----------
    Section 2 of the paper, multi-head attention.

    Examples
    --------
    With zero keys every token gets the mean of the values:

    >>> one = [[[1.0]]]
    >>> multi_head_attention([[1.0], [3.0]], one, [[[0.0]]], one, one)
    array([[2.],
           [2.]])
    """
    W = checks.weights(W_Q, W_K, W_V, W_O)
    return attend(X, W, lambda place, Y: Y, scale, mask)


def attend(X, W: Weights, gate: Gate, scale, mask) -> Array:
    """Run attention and hand every place where a gate can sit to ``gate(place, array)``."""
    X = checks.tokens_matrix(X, W.features)
    mask = checks.allowed_tokens(mask, len(X))
    scale = checks.scale_factor(scale, W.W_Q.shape[2])
    with np.errstate(over="ignore", invalid="ignore"):  # checks.within_range says it in words
        Q, K, V = gate("G4", X @ W.W_Q), gate("G3", X @ W.W_K), gate("G2", X @ W.W_V)
        Y = gate("G1", _softmax(_scores(Q, K, scale), mask) @ V)
        return checks.within_range("output", gate("G5", (Y @ W.W_O).sum(axis=0)))


def _scores(Q: Array, K: Array, scale: float) -> Array:
    return checks.within_range("scores", scale * (Q @ K.swapaxes(-1, -2)))


def _softmax(scores: Array, mask: Array | None) -> Array:
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
