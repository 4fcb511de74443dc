"""The forward pass in numpy, in the letters of the book: without JAX, and step by step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hmoe_lib.activations import activation
from hmoe_lib.attention import (
    attention_weights,
    causal_mask,
    gated_attention,
    multi_head_attention,
    sigmoid_attention,
)
from hmoe_lib.practice.config import VOCABULARY, Config, get_variant

Array = np.ndarray

__all__ = ["Layer", "attention_part", "forward", "layer_weights", "loss", "normalised"]

_SILU = activation("silu")
_SIGMOID = activation("sigmoid")
TINY = 1e-6  # added to the mean square before its root


class Layer(NamedTuple):
    """What happened in one block.

    Parameters
    ----------
    X : ndarray, shape (N, d)
        Tokens as attention sees them, normalised.
    Y : ndarray, shape (N, d)
        What attention adds to the stream.
    stream : ndarray, shape (N, d)
        The stream after the block.
    """

    X: Array
    Y: Array
    stream: Array


def normalised(x, scale) -> Array:
    r"""Return rows divided by their root mean square, times a scale.

    Parameters
    ----------
    x : ndarray, shape (N, d)
        The stream.
    scale : ndarray, shape (d,)
        Learned.

    Examples
    --------
    >>> normalised(np.array([[3.0, 4.0]]), np.ones(2)).round(4)
    array([[0.8485, 1.1314]])
    """
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + TINY) * scale


def layer_weights(weights: dict, layer: int) -> dict[str, Array]:
    """Return W_Q, W_K, W_V, W_O of a layer, and W_theta where there is one, in float64.

    Parameters
    ----------
    weights : dict of ndarray
        As in :meth:`Config.shapes`.
    layer : int
        Counted from 0.
    """
    names = [name for name in ("W_Q", "W_K", "W_V", "W_O", "W_theta") if name in weights]
    return {name: np.asarray(weights[name][layer], dtype=float) for name in names}


def attention_part(config: Config, W: dict, X) -> Array:
    """Return what attention makes of X, by the functions of :mod:`hmoe_lib.attention`.

    Parameters
    ----------
    config : Config
        Its variant says which function.
    W : dict of ndarray
        See :func:`layer_weights`.
    X : ndarray, shape (N, d)
        Normalised tokens.

    Returns
    -------
    ndarray, shape (N, d)
    """
    _, place, form = get_variant(config.variant)
    four = W["W_Q"], W["W_K"], W["W_V"], W["W_O"]
    mask = causal_mask(len(X))
    if form == "none":
        return multi_head_attention(X, *four, mask=mask)
    if form == "sigmoid":
        return sigmoid_attention(X, *four, bias=-np.log(config.context), mask=mask)
    if form == "activation":
        return gated_attention(X, *four, place, activation="silu", mask=mask)
    return gated_attention(X, *four, place, multiplicative=W["W_theta"], mask=mask)


def forward(config: Config, weights: dict, tokens) -> tuple[Array, list[Layer]]:
    r"""Run the model on one window.

    Parameters
    ----------
    config : Config
        Of the model.
    weights : dict of ndarray
        Of the shapes of :meth:`Config.shapes`.
    tokens : array_like of int, shape (N,)
        Bytes; N is at most ``config.context``.

    Returns
    -------
    logits : ndarray, shape (N, 256)
        Row i scores the byte after token i.
    layers : list of Layer
        One a block.

    Raises
    ------
    ValueError
        If the tokens are no bytes, or too many.

    Notes
    -----
    With :math:`\mathrm n` for :func:`normalised`, a block is

    .. math::

        x \leftarrow x + \mathrm{attention}(\mathrm n(x)), \qquad
        x \leftarrow x + \mathrm{SiLU}(\mathrm n(x)\, W_{in})\, W_{out},

    and the logits are :math:`\mathrm n(x)` times the transposed embedding of the tokens.

    Examples
    --------
    >>> from hmoe_lib.practice.starts import start
    >>> config = Config(layers=1, features=8, heads=2, context=4)
    >>> forward(config, start(config), [104, 105])[0].shape
    (2, 256)
    """
    tokens = np.asarray(tokens)
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu" or not 1 <= len(tokens) <= config.context:
        raise ValueError(
            f"tokens: expected 1 to {config.context} integers, got {tokens.dtype} "
            f"of shape {tokens.shape}"
        )
    if tokens.min() < 0 or tokens.max() >= VOCABULARY:
        raise ValueError(f"tokens: expected bytes, 0 to 255, got {tokens.min()} to {tokens.max()}")
    w = {name: np.asarray(value, dtype=float) for name, value in weights.items()}
    x, layers = w["tokens"][tokens] + w["positions"][: len(tokens)], []
    for layer in range(config.layers):
        X = normalised(x, w["attention_scale"][layer])
        Y = attention_part(config, layer_weights(w, layer), X)
        x = x + Y
        neurons = _SILU(normalised(x, w["mlp_scale"][layer]) @ w["W_in"][layer])
        x = x + neurons @ w["W_out"][layer]
        layers.append(Layer(X, Y, x))
    return normalised(x, w["final_scale"]) @ w["tokens"].T, layers


def loss(config: Config, weights: dict, window) -> float:
    """Return the mean cross-entropy of the next byte, in nats.

    Parameters
    ----------
    config, weights : Config, dict of ndarray
        As for :func:`forward`.
    window : array_like of int, shape (N + 1,)
        The model reads all bytes but the last, and predicts all but the first.
    """
    window = np.asarray(window)
    logits, _ = forward(config, weights, window[:-1])
    top = logits.max(axis=1)
    logs = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
    return float(np.mean(logs - logits[np.arange(len(logits)), window[1:]]))


def weights_and_gate(config: Config, W: dict, X) -> tuple[Array, Array | None]:
    """Return the weights of attention (H, N, N), and the factors of a multiplicative gate."""
    _, place, form = get_variant(config.variant)
    mask, scale = causal_mask(len(X)), 1.0 / np.sqrt(config.channels)
    factor = _SIGMOID(X @ W["W_theta"]) if "W_theta" in W else None
    if place not in ("G3", "G4") and form != "sigmoid":
        return attention_weights(X, W["W_Q"], W["W_K"], mask=mask), factor
    Q, K = X @ W["W_Q"], X @ W["W_K"]
    if place == "G3":
        K = K * factor
    elif place == "G4":
        Q = Q * factor
    scores = scale * (Q @ K.swapaxes(-1, -2))
    if form == "sigmoid":
        return np.where(mask, _SIGMOID(scores - np.log(config.context)), 0.0), None
    scores = np.where(mask, scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True), factor
