"""Two relatives of attention: sigmoid weights that do not compete, and active attention."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from hmoe_lib.activations import Activation
from hmoe_lib.arguments import number
from hmoe_lib.attention import checks
from hmoe_lib.attention.positions import gated_attention
from hmoe_lib.mixing import MixingMeasure

Array = np.ndarray

__all__ = ["active_attention", "as_mixture", "sigmoid_attention"]


def sigmoid_attention(X, W_Q, W_K, W_V, W_O, bias=0.0, scale=None, mask=None) -> Array:
    r"""Multi-head attention with a sigmoid on every score instead of a softmax over them.

    Parameters
    ----------
    X : array_like, shape (N, d)
        Tokens, one a row.
    W_Q, W_K : array_like, shape (H, d, d_k)
        Query and key projections.
    W_V : array_like, shape (H, d, d_v)
        Value projections.
    W_O : array_like, shape (H, d_v, d_out)
        Output projections.
    bias : float, default 0
        Added to every score; -log N makes the weights of a row sum to about one at the start.
    scale : float, optional
        Factor on the scores, 1/sqrt(d_k) by default.
    mask : array_like of bool, shape (N, N), optional
        True where row i may attend to token j.

    Returns
    -------
    ndarray, shape (N, d_out)
        One row a token.

    Raises
    ------
    ValueError
        For a wrong shape, NaN or infinity, or a row of the mask with no allowed token.

    Notes
    -----
    .. math:: \sum_h \sigma(X W_{Q,h} W_{K,h}^\top X^\top / \sqrt{d_k} + b)\, X W_{V,h} W_{O,h}

    A token's weight does not depend on the other tokens, and no weight has to go anywhere.

    References
    ----------
    Sigmoid self-attention, arXiv 2502.00281.

    Examples
    --------
    >>> one = [[[1.0]]]
    >>> sigmoid_attention([[1.0], [3.0]], one, [[[0.0]]], one, one)
    array([[2.],
           [2.]])
    >>> sigmoid_attention([[1.0]], one, [[[0.0]]], one, one)
    array([[0.5]])
    """
    W = checks.weights(W_Q, W_K, W_V, W_O)
    X = checks.tokens_matrix(X, W.features)
    mask = checks.allowed_tokens(mask, len(X))
    scale, bias = checks.scale_factor(scale, W.W_Q.shape[2]), number("bias", bias)
    with np.errstate(over="ignore", invalid="ignore"):  # checks.within_range says it in words
        scores = scale * ((X @ W.W_Q) @ (X @ W.W_K).swapaxes(-1, -2)) + bias
        weights = expit(checks.within_range("scores", scores))
        if mask is not None:
            weights = np.where(mask, weights, 0.0)
        return checks.within_range("output", (weights @ (X @ W.W_V) @ W.W_O).sum(axis=0))


def active_attention(
    X, W_Q, W_K, W_V, W_O, activation: str | Activation = "gelu", bias=None, scale=None, mask=None
) -> Array:
    r"""Multi-head attention with an activation on the values: Setting I, a gate at G2.

    Parameters
    ----------
    X : array_like, shape (N, d)
        Tokens, one a row.
    W_Q, W_K : array_like, shape (H, d, d_k)
        Query and key projections.
    W_V : array_like, shape (H, d, d_v)
        Value projections.
    W_O : array_like, shape (H, d_v, d_out)
        Output projections.
    activation : str or Activation, default "gelu"
        phi.
    bias : float, optional
        b in phi(z + b).
    scale : float, optional
        Factor on the scores, 1/sqrt(d_k) by default.
    mask : array_like of bool, shape (N, N), optional
        True where row i may attend to token j.

    Returns
    -------
    ndarray, shape (N, d_out)
        One row a token.

    Raises
    ------
    ValueError
        As for :func:`gated_attention`.

    Notes
    -----
    .. math:: \sum_h \mathrm{softmax}(Q_h K_h^\top / \sqrt{d_k})\, \varphi(X W_{V,h})\, W_{O,h}

    References
    ----------
    Active attention, arXiv 2410.11222; Section 4 of the paper, Setting I.

    Examples
    --------
    >>> one = [[[1.0]]]
    >>> active_attention([[1.0], [-3.0]], one, [[[0.0]]], one, one, activation="relu")
    array([[0.5],
           [0.5]])
    """
    return gated_attention(
        X, W_Q, W_K, W_V, W_O, "G2", activation=activation, bias=bias, scale=scale, mask=mask
    )


def as_mixture(
    W_Q, W_K, W_V, W_O, row: int, column: int, tokens: int, bias=0.0, scale=None
) -> MixingMeasure:
    r"""Return one entry of attention as a flat mixture of linear experts over stacked tokens.

    Parameters
    ----------
    W_Q, W_K : array_like, shape (H, d, d_k)
        Query and key projections.
    W_V : array_like, shape (H, d, d_v)
        Value projections.
    W_O : array_like, shape (H, d_v, d_out)
        Output projections.
    row, column : int
        The entry, counted from 0.
    tokens : int
        N.
    bias : float, default 0
        Of the scores.
    scale : float, optional
        Factor on the scores, 1/sqrt(d_k) by default.

    Returns
    -------
    MixingMeasure
        H N atoms for the gate "sigmoid_monomial" and the expert "linear". With one head, the same
        atoms under the gate "monomial" are softmax attention.

    Raises
    ------
    ValueError
        For a wrong shape, an entry outside the matrix, NaN or infinity.

    Notes
    -----
    :math:`A_{h,j}` is the symmetric part of :math:`J_i^\top P_h J_j`, and the channels of a head
    add up to one linear expert, :math:`\eta_{h,j} = J_j^\top W_{V,h} W_{O,h} e_c`. Sigmoid weights
    do not compete, so the heads are one mixture; softmax weights compete within a head.

    Examples
    --------
    >>> one = [[[1.0]]]
    >>> G = as_mixture(one, one, one, [[[-2.0]]], row=0, column=0, tokens=2)
    >>> G.router, G.expert
    (array([[1. , 0. , 0. ],
           [0. , 0.5, 0. ]]), array([[-2.,  0.],
           [ 0., -2.]]))
    """
    W = checks.weights(W_Q, W_K, W_V, W_O)
    N, d = checks.positive("tokens", tokens), W.features
    row, column = checks.index("row", row, N), checks.index("column", column, W.outputs)
    P = checks.scale_factor(scale, W.W_Q.shape[2]) * (W.W_Q @ W.W_K.swapaxes(-1, -2))
    A, eta = np.zeros((W.heads, N, N * d, N * d)), np.zeros((W.heads, N, N * d))
    for j in range(N):
        at_row, at_j = slice(row * d, (row + 1) * d), slice(j * d, (j + 1) * d)
        A[:, j, at_row, at_j] = P
        eta[:, j, at_j] = W.W_V @ W.W_O[:, :, column, None] @ np.ones(1)
    A = 0.5 * (A + A.swapaxes(-1, -2))
    p, q = np.triu_indices(N * d)
    return MixingMeasure(
        A[..., p, q].reshape(W.heads * N, -1),
        np.full(W.heads * N, number("bias", bias)),
        eta.reshape(W.heads * N, -1),
    )
