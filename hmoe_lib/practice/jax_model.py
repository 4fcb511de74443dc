"""The same model in JAX, for whole batches: what training differentiates."""

from __future__ import annotations

import math

from hmoe_lib.practice.config import Config, get_variant
from hmoe_lib.practice.extra import need
from hmoe_lib.practice.numpy_model import TINY

__all__ = ["SHARED", "batch_logits", "batch_loss"]

SHARED = ("tokens", "positions", "final_scale")
"""The weights without an axis for layers."""


def batch_logits(config: Config, weights: dict, tokens):
    """Return the logits of a batch, as :func:`~hmoe_lib.practice.forward` for each window.

    Parameters
    ----------
    config : Config
        Of the model.
    weights : dict of jax arrays
        Of the shapes of :meth:`Config.shapes`; their type is the type of the result.
    tokens : integer array, shape (B, N)
        Bytes.

    Returns
    -------
    jax array, shape (B, N, 256)

    Raises
    ------
    ModuleNotFoundError
        Without JAX; the message has the command that installs it.
    """
    (jax,) = need("jax")
    x = weights["tokens"][tokens] + weights["positions"][: tokens.shape[1]]
    for layer in range(config.layers):
        w = {name: value[layer] for name, value in weights.items() if name not in SHARED}
        x = x + _attention(config, w, _normalised(x, w["attention_scale"]))
        x = x + jax.nn.silu(_normalised(x, w["mlp_scale"]) @ w["W_in"]) @ w["W_out"]
    return _normalised(x, weights["final_scale"]) @ weights["tokens"].T


def batch_loss(config: Config, weights: dict, windows):
    """Return the mean cross-entropy of the next byte over a batch, in nats.

    Parameters
    ----------
    config, weights : Config, dict of jax arrays
        As for :func:`batch_logits`.
    windows : integer array, shape (B, N + 1)
        The model reads all bytes of a window but the last.
    """
    jax, jnp = need("jax", "jax.numpy")
    logs = jax.nn.log_softmax(batch_logits(config, weights, windows[:, :-1]), axis=-1)
    return -jnp.mean(jnp.take_along_axis(logs, windows[:, 1:, None], axis=-1))


def _normalised(x, scale):
    (jnp,) = need("jax.numpy")
    return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + TINY) * scale


def _attention(config: Config, w: dict, X):
    """One layer on a batch (B, N, d): every place of a gate in the order of the computation."""
    jax, jnp = need("jax", "jax.numpy")
    _, place, form = get_variant(config.variant)

    def heads(W):  # (B, N, d), (H, d, c) -> (B, H, N, c): one product of matrices for all heads
        H, d, c = W.shape
        flat = X @ W.swapaxes(0, 1).reshape(d, H * c)
        return flat.reshape(*X.shape[:2], H, c).swapaxes(1, 2)

    def gate(here, Y):
        if here != place:
            return Y
        if form == "activation":
            return jax.nn.silu(Y)
        score = X @ w["W_theta"] if place == "G5" else heads(w["W_theta"])
        return Y * jax.nn.sigmoid(score)

    Q, K, V = gate("G4", heads(w["W_Q"])), gate("G3", heads(w["W_K"])), gate("G2", heads(w["W_V"]))
    scores = Q @ K.swapaxes(-1, -2) / math.sqrt(config.channels)
    mask = jnp.tril(jnp.ones(scores.shape[-2:], dtype=bool))
    if form == "sigmoid":
        S = jnp.where(mask, jax.nn.sigmoid(scores - math.log(config.context)), 0.0)
    else:
        S = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)
    Y = gate("G1", S @ V).swapaxes(1, 2).reshape(X.shape)
    return gate("G5", Y @ w["W_O"].reshape(config.features, config.features))
