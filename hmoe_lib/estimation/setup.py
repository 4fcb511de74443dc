"""Checks that every fit makes before its first step."""

from __future__ import annotations

from numbers import Real

import numpy as np

from hmoe_lib.arguments import number
from hmoe_lib.blocks import Samples
from hmoe_lib.estimation.bounds import Box
from hmoe_lib.measures import HierarchicalMeasure
from hmoe_lib.mixing import MixingMeasure
from hmoe_lib.models.base import HierarchicalModel, RegressionModel

__all__ = ["prepare"]


def prepare(
    model, X, y, start, bounds: Box, max_steps: int, tolerance: float
) -> tuple[Samples, np.ndarray]:
    """Return checked samples and the start's parameter vector."""
    if not isinstance(model, RegressionModel):
        raise ValueError(f"model: expected a model such as Mha(), got {model!r}")
    wanted = HierarchicalMeasure if isinstance(model, HierarchicalModel) else MixingMeasure
    if not isinstance(start, wanted):
        raise ValueError(f"start: expected a {wanted.__name__}, got {type(start).__name__}")
    if not isinstance(bounds, Box):
        raise ValueError(f"bounds: expected a Box or None, got {type(bounds).__name__}")
    if not (isinstance(max_steps, Real) and max_steps >= 1 and max_steps % 1 == 0):
        raise ValueError(f"largest number of steps: expected an integer >= 1, got {max_steps!r}")
    number("tolerance", tolerance, above=0.0)
    samples = Samples.pairs(X, y)
    if isinstance(start, HierarchicalMeasure) and samples.dim != start.dim:
        raise ValueError(f"X: expected shape (n, {start.dim}), got ({len(samples)}, {samples.dim})")
    model.matching(start, samples)
    if len(samples) < start.shape.size:
        raise ValueError(
            f"X: expected at least {start.shape.size} samples, one a parameter, got {len(samples)}"
        )
    return samples, bounds.check_start(start)
