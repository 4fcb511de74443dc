"""Where a fit of a flat mixture begins: near a declared measure."""

from __future__ import annotations

import numpy as np

from hmoe_lib.arguments import number
from hmoe_lib.estimation.bounds import Box
from hmoe_lib.mixing import MixingMeasure

__all__ = ["perturbed"]


def perturbed(
    G: MixingMeasure,
    distance: float,
    *,
    rng: np.random.Generator,
    bounds: Box | None = None,
) -> MixingMeasure:
    r"""Return a start near a mixing measure: every free entry moved by distance times N(0, 1).

    For an over-specified fit, split an atom of the truth first, with
    ``MixingMeasure.split_atom``; which one is part of the start and has to be declared.

    Parameters
    ----------
    G : MixingMeasure
        Where to start from; its pinned entries stay.
    distance : float
        Standard deviation of the perturbation, at least 0.
    rng : numpy.random.Generator
        Source of randomness.
    bounds : Box, optional
        Parameter space; the start is clipped to it.

    Returns
    -------
    MixingMeasure
        With a note that says what was done.

    Raises
    ------
    ValueError
        If the distance is negative or not finite, or the bounds are for another measure.

    Examples
    --------
    >>> truth = MixingMeasure([[1.0], [0.0]], [0.0, 0.0], [[1.0, 0.0], [-1.0, 0.0]])
    >>> perturbed(truth, 0.0, rng=np.random.default_rng(0)) == truth
    True
    """
    if not isinstance(G, MixingMeasure):
        raise ValueError(f"G: expected a MixingMeasure, got {type(G).__name__}")
    if not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng: expected a numpy Generator, got {type(rng).__name__}")
    distance = number("distance", distance, least=0.0)
    if bounds is not None and not (isinstance(bounds, Box) and bounds.lower.size == G.shape.size):
        raise ValueError(f"bounds: expected a Box of {G.shape.size} entries or None")
    theta = G.to_vector() + distance * rng.standard_normal(G.shape.size)
    theta = theta if bounds is None else bounds.clip(theta)
    return G.from_vector(theta, f"started at a declared measure, perturbed by {distance:.3g}")
