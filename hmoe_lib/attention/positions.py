"""The five places where a gate can sit, and the two forms of gate."""

from __future__ import annotations

import difflib

import numpy as np

from hmoe_lib.activations import Activation, activation
from hmoe_lib.attention import checks
from hmoe_lib.attention.checks import Weights
from hmoe_lib.attention.heads import attend

Array = np.ndarray

POSITIONS: dict[str, str] = {
    "G1": "SDPA output",
    "G2": "value",
    "G3": "key",
    "G4": "query",
    "G5": "output",
}
"""What each position gates: the name used here, and the array that passes through the gate."""

__all__ = ["POSITIONS", "gated_attention"]

_PHI = activation  # gated_attention has an argument of the same name


def gated_attention(
    X,
    W_Q,
    W_K,
    W_V,
    W_O,
    position: str = "G1",
    activation: str | Activation = "sigmoid",
    bias: float | None = None,
    multiplicative=None,
    scale=None,
    mask=None,
) -> Array:
    r"""Multi-head self-attention with a gate at one of five positions.

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
    position : {"G1", "G2", "G3", "G4", "G5"}, default "G1"
        What passes through the gate: G1 the SDPA output of every head, G2 the values, G3 the
        keys, G4 the queries, G5 the output, after W_O and after the sum over heads.
    activation : str or Activation, default "sigmoid"
        phi. By itself it is the theory's gate, Y -> phi(Y + b). With ``multiplicative`` it acts
        on the gate's own score instead.
    bias : float, optional
        b in phi(z + b); by default 0 for a name, unchanged for an Activation.
    multiplicative : array_like, optional
        W_theta of the gate deployed in practice, Y -> Y * phi(X W_theta + b). Its shape follows
        what is gated: (H, d, m) at G1 to G4, with m = d_v at G1, G2 and m = d_k at G3, G4;
        (d, d_out) at G5, where no head is left. One column instead of m, (H, d, 1) or (d, 1),
        is the headwise gate: one number a token and head multiplies the whole row.
    scale : float, optional
        Factor on the scores. By default 1/sqrt(d_k), as in practice; the paper writes 1/sqrt(d_v).
    mask : array_like of bool, shape (N, N), optional
        True where row i may attend to token j.

    Returns
    -------
    ndarray, shape (N, d_out)
        One row a token.

    Raises
    ------
    ValueError
        For an unknown position or activation (the closest is suggested), a wrong shape, NaN or
        infinity, or a row of the mask with no allowed token.

    Notes
    -----
    With :math:`S_h` the softmax weights of head h, the theory's gate at G1 and G2 gives

    .. math::

        \sum_h \varphi(S_h X W_{V,h})\, W_{O,h} \quad\text{and}\quad
        \sum_h S_h\, \varphi(X W_{V,h})\, W_{O,h}.

    The identity as activation gives plain multi-head attention at every position.

    References
    ----------
    Section 2 of the paper, gated attention; Section 4, Settings I (G2) and II (G1).

    Examples
    --------
    >>> one = [[[1.0]]]
    >>> gated_attention([[1.0], [3.0]], one, [[[0.0]]], one, one, position="G2", activation="exp")
    array([[11.40190938],
           [11.40190938]])
    >>> gated_attention([[1.0], [3.0]], one, [[[0.0]]], one, one, multiplicative=[[[0.0]]])
    array([[1.],
           [1.]])
    """
    place = _position(position)
    W = checks.weights(W_Q, W_K, W_V, W_O)
    X = checks.tokens_matrix(X, W.features)
    phi = _PHI(activation, bias)
    if multiplicative is None:
        gate = phi
    else:
        W_theta = _gate_weights(multiplicative, place, W)
        with np.errstate(over="ignore", invalid="ignore"):  # the output is checked
            factor = phi(X @ W_theta)

        def gate(Y: Array) -> Array:
            return Y * factor

    return attend(X, W, lambda here, Y: gate(Y) if here == place else Y, scale, mask)


def _position(position: str) -> str:
    """Return the key of POSITIONS, or say which one is nearest."""
    if not isinstance(position, str):
        raise ValueError(f"position: expected one of {', '.join(POSITIONS)}, got {position!r}")
    key = position.strip().upper()
    if key in POSITIONS:
        return key
    names = {**{g: g for g in POSITIONS}, **{name.upper(): g for g, name in POSITIONS.items()}}
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    hint = f"; did you mean {names[near[0]]!r}?" if near else ";"
    known = ", ".join(f"{g} ({name})" for g, name in POSITIONS.items())
    raise ValueError(f"position: {position!r} is not known{hint} known: {known}")


def _gate_weights(W_theta, place: str, W: Weights) -> Array:
    """Return W_theta, elementwise or headwise for the array that is gated at this place."""
    if place == "G5":
        letters, lead, m = "d d_out", (W.features,), W.outputs
    else:
        wide = place in ("G1", "G2")
        letters = "H d d_v" if wide else "H d d_k"
        lead, m = (W.heads, W.features), W.channels if wide else W.W_Q.shape[2]
    W_theta = checks.array("multiplicative", W_theta, letters)
    elementwise, headwise = (*lead, m), (*lead, 1)
    if W_theta.shape not in (elementwise, headwise):
        raise ValueError(
            f"multiplicative: expected shape {elementwise} (elementwise) or {headwise} "
            f"(headwise) at {place}, got {W_theta.shape}"
        )
    return W_theta
