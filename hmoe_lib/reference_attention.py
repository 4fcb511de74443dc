"""Attention once more as plain loops over scalars: slow, obvious, for tests and exercises only."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["attention_entry", "gated_attention_entry", "hmoe_entry", "sigmoid_attention_entry"]


def _score(X, W_Q, W_K, h, i, j, scale, gate):
    """Return scale * sum_m gate(query)_m gate(key)_m."""
    total = 0.0
    for m in range(W_Q.shape[2]):
        query = sum(X[i, p] * W_Q[h, p, m] for p in range(X.shape[1]))
        key = sum(X[j, p] * W_K[h, p, m] for p in range(X.shape[1]))
        total += gate("G4", query, h, i, m) * gate("G3", key, h, j, m)
    return scale * total


def _softmax(scores):
    top = max(scores)
    e = [math.exp(s - top) for s in scores]
    return [value / sum(e) for value in e]


def _entry(X, W_Q, W_K, W_V, W_O, i, c, scale, allowed, gate):
    """Return entry (i, c) of attention; ``gate(place, number, head, token, column)``."""
    total = 0.0
    for h in range(W_Q.shape[0]):
        weights = _softmax([_score(X, W_Q, W_K, h, i, j, scale, gate) for j in allowed])
        for k in range(W_V.shape[2]):
            mixed = 0.0
            for weight, j in zip(weights, allowed, strict=True):
                value = sum(W_V[h, p, k] * X[j, p] for p in range(X.shape[1]))
                mixed += weight * gate("G2", value, h, j, k)
            total += gate("G1", mixed, h, i, k) * W_O[h, k, c]
    return gate("G5", total, None, i, c)


def _defaults(X, W_Q, i, scale, mask):
    scale = 1.0 / math.sqrt(W_Q.shape[2]) if scale is None else scale
    return scale, [j for j in range(len(X)) if mask is None or mask[i][j]]


def attention_entry(X, W_Q, W_K, W_V, W_O, i, c, scale=None, mask=None) -> float:
    """Return entry (i, c) of multi-head attention, counted from 0."""
    scale, allowed = _defaults(X, W_Q, i, scale, mask)
    return _entry(X, W_Q, W_K, W_V, W_O, i, c, scale, allowed, lambda place, number, *at: number)


def gated_attention_entry(
    X, W_Q, W_K, W_V, W_O, i, c, position, phi, W_theta=None, scale=None, mask=None
) -> float:
    """Return entry (i, c) of gated attention; ``phi`` acts on a float, bias included."""
    scale, allowed = _defaults(X, W_Q, i, scale, mask)

    def gate(place, number, h, token, column):
        if place != position:
            return number
        if W_theta is None:
            return phi(number)
        own = W_theta if h is None else W_theta[h]
        column = 0 if own.shape[1] == 1 else column
        return number * phi(sum(X[token, p] * own[p, column] for p in range(X.shape[1])))

    return _entry(X, W_Q, W_K, W_V, W_O, i, c, scale, allowed, gate)


def sigmoid_attention_entry(X, W_Q, W_K, W_V, W_O, i, c, bias=0.0, scale=None, mask=None) -> float:
    """Return entry (i, c) of sigmoid attention, counted from 0."""
    scale, allowed = _defaults(X, W_Q, i, scale, mask)
    total = 0.0
    for h in range(W_Q.shape[0]):
        for j in allowed:
            score = _score(X, W_Q, W_K, h, i, j, scale, lambda place, number, *at: number) + bias
            weight = 1.0 / (1.0 + math.exp(-score))
            for k in range(W_V.shape[2]):
                value = sum(W_V[h, p, k] * X[j, p] for p in range(X.shape[1]))
                total += weight * value * W_O[h, k, c]
    return total


def hmoe_entry(G, x, phi_expert=float, phi_channel=float) -> float:
    """Return sum_h sum_k omega_hk phi_channel(sum_j s_hj(x) phi_expert(a_hjk^T x))."""
    total = 0.0
    for h in range(G.heads):
        gate = _softmax([float(np.dot(x, np.dot(G.M[h, j], x))) for j in range(G.experts)])
        for k in range(G.channels):
            inner = [phi_expert(float(np.dot(G.a[h, j, k], x))) for j in range(G.experts)]
            mixed = sum(s * value for s, value in zip(gate, inner, strict=True))
            total += G.omega[h, k] * phi_channel(mixed)
    return float(total)
