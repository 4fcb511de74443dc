"""Training: one window of bytes after another, resumable to the last bit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from hmoe_lib.experiments.runner import generator
from hmoe_lib.practice import store
from hmoe_lib.practice.config import Config
from hmoe_lib.practice.extra import need
from hmoe_lib.practice.jax_model import batch_loss
from hmoe_lib.practice.starts import start
from hmoe_lib.practice.text import Text

Array = np.ndarray

__all__ = ["NotFiniteError", "Trained", "batch", "check_text", "train", "validation_windows"]

CHECKPOINT_EVERY = 100
BETA2 = 0.95  # of AdamW; the usual 0.999 looks back further than a tenth of our steps
LARGEST_GRADIENT = 1.0  # norm to which gradients are clipped


class NotFiniteError(ArithmeticError):
    """The loss is NaN or infinite: which step, and which windows it read."""


class Trained(NamedTuple):
    """The end of a training.

    Parameters
    ----------
    config : Config
        What was trained.
    weights : dict of ndarray, float32
        Of the shapes of :meth:`Config.shapes`.
    losses : ndarray, shape (steps done,)
        Training loss of each step, before the step, in nats a byte.
    validation : ndarray, shape (steps done // validate_every,)
        Loss on the same `windows` windows of the validation part.
    validation_loss : float
        Loss at the end on the whole validation part, in disjoint windows.
    """

    config: Config
    weights: dict[str, Array]
    losses: Array
    validation: Array
    validation_loss: float


def check_text(config: Config, text: Text) -> None:
    """Refuse a text whose parts are shorter than a window."""
    shortest = min(len(text.train), len(text.validation))
    if shortest <= config.context:
        raise ValueError(
            f"context: expected less than the {shortest} bytes of a part of {text.name}, "
            f"got {config.context}"
        )


def batch(config: Config, text: Text, step: int) -> tuple[Array, Array]:
    """Return where the windows of a step begin, and the windows, (B, N + 1).

    Nothing is carried from step to step, so a training that goes on reads what it would have read.

    Parameters
    ----------
    config : Config
        Seed, batch and context.
    text : Text
        Its training part is read.
    step : int
        Counted from 0.

    Examples
    --------
    >>> from hmoe_lib.practice.text import python_reference
    >>> at, windows = batch(Config(batch=2, context=16), python_reference(), step=7)
    >>> at.shape, windows.shape
    ((2,), (2, 17))
    """
    rng = generator("practice batch", config.seed, step)
    at = rng.integers(0, len(text.train) - config.context, config.batch)
    return at, np.stack([text.train[i : i + config.context + 1] for i in at]).astype(np.int32)


def validation_windows(config: Config, text: Text, windows: int | None = None) -> Array:
    """Return windows of the validation part: all disjoint ones, or some, evenly spread.

    Parameters
    ----------
    config : Config
        Its context.
    text : Text
        Its validation part is read.
    windows : int, optional
        How many; all by default.

    Returns
    -------
    ndarray of int, shape (windows, N + 1)
    """
    last = len(text.validation) - config.context - 1
    at = np.arange(0, last + 1, config.context)
    if windows is not None:
        at = np.linspace(0, last, windows).astype(int)
    return np.stack([text.validation[i : i + config.context + 1] for i in at]).astype(np.int32)


def train(
    config: Config,
    text: Text,
    folder: str | Path | None = None,
    progress: bool = True,
    stop_after: int | None = None,
) -> Trained:
    """Train a model, or go on from its last checkpoint.

    Parameters
    ----------
    config : Config
        What to train, and how.
    text : Text
        What it reads.
    folder : str or Path, optional
        Of the checkpoints, one every 100 steps; None writes none.
    progress : bool, default True
        A bar on stderr.
    stop_after : int, optional
        Leave after so many steps; the rate and the batches are those of the whole training.

    Returns
    -------
    Trained

    Raises
    ------
    NotFiniteError
        If a loss is NaN or infinite; the last checkpoint stays.
    ValueError
        If the text is shorter than a window.
    ModuleNotFoundError
        Without JAX and optax; the message has the command that installs them.

    Notes
    -----
    AdamW on gradients clipped to norm 1; the rate rises linearly, then falls to a tenth along a
    cosine. Weights, moments and the losses so far are in a checkpoint, and batches depend on the
    step only: on one machine a resumed training gives the same losses bit for bit.
    """
    jax, _ = need("jax", "optax")
    check_text(config, text)
    one_step, fresh = _stepper(config)
    weights = start(config)
    state, losses, validation = fresh(weights), [], []
    found = store.last_checkpoint(config, text, folder) if folder is not None else None
    if found is not None:
        weights, state, losses, validation = _unpacked(config, found, state)
    evaluate = jax.jit(lambda w, windows: batch_loss(config, w, windows))
    watched = validation_windows(config, text, config.windows)
    for step in _steps(config, len(losses), progress):
        at, windows = batch(config, text, step)
        weights, state, loss = one_step(weights, state, windows)
        losses.append(float(loss))
        _check_finite(losses[-1], step, at)
        if (step + 1) % config.validate_every == 0:
            validation.append(float(evaluate(weights, watched)))
        if folder is not None and (step + 1) % CHECKPOINT_EVERY == 0:
            store.save_checkpoint(
                config, text, folder, step + 1, _packed(weights, state, losses, validation)
            )
        if stop_after == step + 1:
            break
    every = validation_windows(config, text)
    whole = np.mean([float(evaluate(weights, window[None])) for window in every])
    arrays = {name: np.asarray(value) for name, value in weights.items()}
    return Trained(config, arrays, np.array(losses), np.array(validation), float(whole))


def _stepper(config: Config):
    """Return the compiled step, and what makes a fresh state of the optimiser."""
    jax, optax = need("jax", "optax")
    rate = optax.warmup_cosine_decay_schedule(
        0.0, config.rate, config.warmup, max(config.steps, config.warmup + 1), config.rate / 10
    )

    def matrices(weights):  # scales are pulled towards nothing
        return {name: not name.endswith("_scale") for name in weights}

    optimiser = optax.chain(
        optax.clip_by_global_norm(LARGEST_GRADIENT),
        optax.adamw(rate, b2=BETA2, weight_decay=config.decay, mask=matrices),
    )

    @jax.jit
    def one_step(weights, state, windows):
        loss, slopes = jax.value_and_grad(lambda w: batch_loss(config, w, windows))(weights)
        updates, state = optimiser.update(slopes, state, weights)
        return optax.apply_updates(weights, updates), state, loss

    return one_step, optimiser.init


def _steps(config: Config, done: int, progress: bool) -> Iterator[int]:
    label = f"{config.variant}, seed {config.seed}"
    bar = tqdm(
        range(done, config.steps),
        desc=label,
        initial=done,
        total=config.steps,
        disable=not progress,
        mininterval=1.0 if os.isatty(2) else 20.0,  # a log needs no line a second
    )
    return iter(bar)


def _check_finite(loss: float, step: int, at: Array) -> None:
    if not np.isfinite(loss):
        raise NotFiniteError(
            f"the loss is {loss} at step {step + 1}, whose windows begin at bytes "
            f"{', '.join(map(str, at))} of the training part; a lower rate helps most often"
        )


def _packed(weights, state, losses, validation) -> dict[str, Array]:
    """Name everything that the next step depends on."""
    (jax,) = need("jax")
    arrays = {f"weights.{name}": np.asarray(value) for name, value in weights.items()}
    leaves = jax.tree_util.tree_leaves(state)
    arrays |= {f"state.{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
    return {**arrays, "losses": np.array(losses), "validation": np.array(validation)}


def _unpacked(config: Config, arrays: dict[str, Array], state):
    (jax,) = need("jax")
    weights = {name: arrays[f"weights.{name}"] for name in config.shapes()}
    structure = jax.tree_util.tree_structure(state)
    leaves = [arrays[f"state.{i}"] for i in range(structure.num_leaves)]
    state = jax.tree_util.tree_unflatten(structure, leaves)
    return weights, state, list(arrays["losses"]), list(arrays["validation"])
