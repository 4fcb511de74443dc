"""Where training starts: random matrices, the same for all variants as far as they are shared."""

from __future__ import annotations

import numpy as np

from hmoe_lib.experiments.runner import generator
from hmoe_lib.practice.config import Config

Array = np.ndarray

__all__ = ["start"]


def start(config: Config) -> dict[str, Array]:
    r"""Return the weights before the first step.

    Parameters
    ----------
    config : Config
        Its seed decides; a matrix of the same name starts the same in every variant.

    Returns
    -------
    dict of ndarray, float32
        Of the shapes of :meth:`Config.shapes`.

    Notes
    -----
    Entries are normal with variance one over the number of rows, those of :math:`W_O` and
    :math:`W_{out}`, which write into the stream, over :math:`2L` times that number (its growth
    over :math:`L` layers is then bounded). Scales start at 1. The feed-forward matrices are cut
    from those with 4 d neurons.

    Examples
    --------
    >>> none, gated = start(Config()), start(Config("G1"))
    >>> bool(np.array_equal(none["W_V"], gated["W_V"])), none["W_in"].shape, gated["W_in"].shape
    (True, (5, 96, 384), (5, 96, 336))
    """
    shapes, weights = config.shapes(), {}
    for name, shape in shapes.items():
        if name.endswith("_scale"):
            weights[name] = np.ones(shape, dtype=np.float32)
            continue
        drawn = Config(**{**config.to_dict(), "variant": "none"}).shapes().get(name, shape)
        rng = generator("practice start", config.seed, name)
        entries = rng.standard_normal(drawn)[tuple(map(slice, shape))]
        weights[name] = (_deviation(config, name, shape) * entries).astype(np.float32)
    return weights


def _deviation(config: Config, name: str, shape: tuple[int, ...]) -> float:
    if name in ("tokens", "positions"):
        return config.features**-0.5
    if name == "W_O":  # the rows of all heads add up
        return (2 * config.layers * config.features) ** -0.5
    rows = shape[-2]
    return (2 * config.layers * rows) ** -0.5 if name == "W_out" else rows**-0.5
