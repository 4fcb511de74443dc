"""The rewrite: one entry of the attention matrix as a hierarchical mixture of experts."""

from __future__ import annotations

import numpy as np

from hmoe_lib.attention import checks
from hmoe_lib.measures import HierarchicalMeasure

Array = np.ndarray

__all__ = ["as_hmoe", "selector", "stacked"]


def stacked(X) -> Array:
    """Return the tokens one under the other, x = (x_1; ...; x_N).

    Parameters
    ----------
    X : array_like, shape (N, d)
        Tokens, one a row.

    Returns
    -------
    ndarray, shape (N d,)
        A new array.

    Raises
    ------
    ValueError
        If X is not a matrix of finite numbers.

    Examples
    --------
    >>> stacked([[1.0, 2.0], [3.0, 4.0]])
    array([1., 2., 3., 4.])
    """
    return checks.array("X", X, "N d").reshape(-1).copy()


def selector(i: int, tokens: int, dim: int) -> Array:
    """Return J_i, the 0-1 matrix that picks token i out of the stacked tokens: J_i x = x_i.

    Parameters
    ----------
    i : int
        Token, counted from 0.
    tokens, dim : int
        N and d.

    Returns
    -------
    ndarray, shape (d, N d)
        The identity in block i, zero elsewhere.

    Raises
    ------
    ValueError
        If i is not between 0 and N - 1.

    References
    ----------
    Section 2 of the paper, the rewrite of X P_h X^T.

    Examples
    --------
    >>> selector(1, tokens=2, dim=2) @ [1.0, 2.0, 3.0, 4.0]
    array([3., 4.])
    """
    N, d = checks.positive("tokens", tokens), checks.positive("dim", dim)
    i = checks.index("i", i, N)
    J = np.zeros((d, N * d))
    J[:, i * d : (i + 1) * d] = np.eye(d)
    return J


def as_hmoe(
    W_Q, W_K, W_V, W_O, row: int, column: int, tokens: int, scale=None, mask=None
) -> HierarchicalMeasure:
    r"""Return one entry of the attention matrix as a measure over the stacked tokens.

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
    scale : float, optional
        Factor on the scores, 1/sqrt(d_k) by default.
    mask : array_like of bool, shape (N, N), optional
        True where row i may attend to token j. Only allowed tokens become experts: row i then
        has as many experts as it has allowed tokens, in their order, and the input is still all
        N tokens stacked. A forbidden token has softmax weight exactly 0, which no finite M gives.

    Returns
    -------
    HierarchicalMeasure
        H heads, one expert an allowed token, d_v channels, dimension N d. It is signed: the
        entries of a real W_O have either sign, which assumption (A.2) of the theory excludes.

    Raises
    ------
    ValueError
        For a wrong shape, an entry outside the matrix, NaN or infinity.

    Notes
    -----
    With :math:`P_h = W_{Q,h} W_{K,h}^\top / \sqrt{d_k}`, row i and column c,

    .. math::

        M_{h,j} = J_i^\top P_h J_j, \qquad a_{h,j,k} = J_j^\top W_{V,h} e_k, \qquad
        \omega_{h,k} = (W_{O,h})_{k,c}.

    M is then made symmetric (a quadratic form sees nothing else) and the last expert's matrix is
    subtracted from its head (a softmax does not see it), which brings it to assumption (A.3).
    For x = stacked(X), ``Mha().predict(G, x[None])`` is the entry of plain attention,
    ``ValueGated(phi)`` that of a gate at G2, ``OutputGated(phi)`` that of a gate at G1.

    References
    ----------
    Section 2 of the paper, attention as a three-level hierarchical mixture of experts.

    Examples
    --------
    >>> one = [[[1.0]]]
    >>> G = as_hmoe(one, one, one, [[[-2.0]]], row=0, column=0, tokens=2)
    >>> G.heads, G.experts, G.channels, G.dim
    (1, 2, 1, 2)
    >>> G.M[0, 0]
    array([[ 1. , -0.5],
           [-0.5,  0. ]])
    """
    W = checks.weights(W_Q, W_K, W_V, W_O)
    N, d = checks.positive("tokens", tokens), W.features
    row, column = checks.index("row", row, N), checks.index("column", column, W.outputs)
    mask = checks.allowed_tokens(mask, N)
    experts = range(N) if mask is None else np.flatnonzero(mask[row])
    P = checks.scale_factor(scale, W.W_Q.shape[2]) * (W.W_Q @ W.W_K.swapaxes(-1, -2))
    M = np.zeros((W.heads, len(experts), N * d, N * d))
    a = np.zeros((W.heads, len(experts), W.channels, N * d))
    at_row = _block(row, d)
    for expert, j in enumerate(experts):
        # J_i^T P J_j puts P in block (i, j), and J_j^T W_V e_k puts column k of W_V in block j.
        M[:, expert, at_row, _block(j, d)] = P
        a[:, expert, :, _block(j, d)] = W.W_V.swapaxes(-1, -2)
    return HierarchicalMeasure.normalized(W.W_O[:, :, column], M, a, signed=True)


def _block(i: int, d: int) -> slice:
    return slice(i * d, (i + 1) * d)
