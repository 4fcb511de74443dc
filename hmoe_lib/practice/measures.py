"""What is measured in a trained model, layer by layer, on windows of the validation part."""

from __future__ import annotations

import numpy as np

from hmoe_lib.practice.config import Config
from hmoe_lib.practice.numpy_model import forward, layer_weights, weights_and_gate

Array = np.ndarray

__all__ = [
    "FIELDS",
    "NEARLY_CLOSED",
    "effective_rank",
    "entropy",
    "first_share",
    "measure",
    "uniform_share",
]

NEARLY_CLOSED = 0.1
"""A factor of a gate below this counts as nearly closed."""

FIELDS = {
    "first_share": "share of attention on the first token of the window",
    "entropy": "entropy of a row of attention, in nats",
    "gate_mean": "mean factor of the multiplicative gate, NaN without one",
    "gate_closed": "share of its factors below 0.1",
    "effective_rank": "effective rank of what attention adds, over all tokens",
    "largest_stream": "largest absolute entry of the stream after the block",
    "typical_stream": "root mean square of the stream after the block",
}
"""The names of what :func:`measure` returns, one number a layer each."""


def _late_rows(S: Array) -> Array:
    """Rows of the second half of the window, each summing to 1; early rows have few to choose."""
    late = S[..., S.shape[-1] // 2 :, :]
    return late / late.sum(axis=-1, keepdims=True)


def first_share(S) -> float:
    r"""Return how much of its attention the second half of a window gives to the first token.

    Parameters
    ----------
    S : ndarray, shape (H, N, N)
        Weights of attention, causal. Rows of sigmoid attention are divided by their sums.

    Returns
    -------
    float
        Mean over heads and over rows N/2 to N - 1, between 0 and 1.

    Examples
    --------
    >>> round(first_share(np.tril(np.ones((1, 4, 4)))), 6)  # evenly: (1/3 + 1/4) / 2
    0.291667
    """
    return float(_late_rows(np.asarray(S))[..., 0].mean())


def uniform_share(N: int) -> float:
    """Return the first token's share if every row spread its attention evenly.

    Parameters
    ----------
    N : int
        Tokens of the window.

    Examples
    --------
    >>> round(uniform_share(4), 6)
    0.291667
    """
    return float(np.mean(1.0 / np.arange(N // 2 + 1, N + 1)))


def entropy(S) -> float:
    r"""Return the mean entropy of the rows in the second half of a window, in nats.

    Parameters
    ----------
    S : ndarray, shape (H, N, N)
        Weights of attention.

    Returns
    -------
    float
        Between 0, all on one token, and about log N, evenly spread.

    Examples
    --------
    >>> entropy(np.eye(4)[None])
    0.0
    """
    p = _late_rows(np.asarray(S))
    return float(-np.sum(p * np.log(np.where(p > 0, p, 1.0)), axis=-1).mean()) + 0.0


def effective_rank(Y) -> float:
    r"""Return the exponential of the entropy of the singular values, as shares of their sum.

    Parameters
    ----------
    Y : ndarray, shape (n, d)
        One vector a row.

    Returns
    -------
    float
        Between 1 and min(n, d); d if all singular values are equal.

    References
    ----------
    Roy and Vetterli, The effective rank, EUSIPCO 2007.

    Examples
    --------
    >>> round(effective_rank(np.eye(5)), 6), round(effective_rank(np.ones((5, 5))), 6)
    (5.0, 1.0)
    """
    values = np.linalg.svd(np.asarray(Y, dtype=float), compute_uv=False)
    p = values / values.sum()
    return float(np.exp(-np.sum(p * np.log(np.where(p > 0, p, 1.0)))))


def measure(config: Config, weights: dict, windows) -> dict[str, Array]:
    """Return every field of FIELDS, one number a layer.

    Parameters
    ----------
    config, weights : Config, dict of ndarray
        A trained model.
    windows : array_like of int, shape (n, N + 1)
        Of the validation part.

    Returns
    -------
    dict of ndarray, shape (layers,)
        Means over windows, but for the largest entry, which is the largest of all.

    Notes
    -----
    The forward pass is :func:`forward`, in float64: it knows nothing of
    JAX, so a figure does not depend on how the model was trained.
    """
    L, windows = config.layers, np.asarray(windows)
    found = {name: np.full((len(windows), L), np.nan) for name in FIELDS}
    added: list[list[Array]] = [[] for _ in range(L)]
    for n, window in enumerate(windows):
        _, layers = forward(config, weights, window[:-1])
        for i, layer in enumerate(layers):
            S, factor = weights_and_gate(config, layer_weights(weights, i), layer.X)
            found["first_share"][n, i] = first_share(S)
            found["entropy"][n, i] = entropy(S)
            if factor is not None:
                found["gate_mean"][n, i] = factor.mean()
                found["gate_closed"][n, i] = np.mean(factor < NEARLY_CLOSED)
            found["largest_stream"][n, i] = np.abs(layer.stream).max()
            found["typical_stream"][n, i] = np.sqrt(np.mean(layer.stream**2))
            added[i].append(layer.Y)
    means = {name: values.mean(axis=0) for name, values in found.items()}
    means["largest_stream"] = found["largest_stream"].max(axis=0)
    means["effective_rank"] = np.array([effective_rank(np.concatenate(Y)) for Y in added])
    return means
