"""Boxes: the compact parameter space of assumption (A.1), made explicit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hmoe_lib.arguments import number, real_array
from hmoe_lib.measures import HierarchicalMeasure
from hmoe_lib.mixing import MixingMeasure

Array = np.ndarray

__all__ = ["Box"]


@dataclass(frozen=True, eq=False)
class Box:
    """Lower and upper bounds on a parameter vector.

    Parameters
    ----------
    lower, upper : array_like, shape (p,)
        Bounds in the order of ``G.to_vector()``; infinite entries are allowed.

    Raises
    ------
    ValueError
        If the shapes differ, a bound is NaN, or a lower bound is not below its upper bound.

    Examples
    --------
    >>> Box([0.0, -1.0], [2.0, 1.0]).clip(np.array([3.0, 0.5]))
    array([2. , 0.5])
    """

    lower: Array
    upper: Array

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            bound = np.array(real_array(name, getattr(self, name), "a vector of numbers"))
            if bound.ndim != 1 or bound.size == 0 or np.isnan(bound).any():
                raise ValueError(f"{name}: expected a vector without NaN, got shape {bound.shape}")
            bound.flags.writeable = False
            object.__setattr__(self, name, bound)
        if self.lower.shape != self.upper.shape:
            raise ValueError(f"upper: expected shape {self.lower.shape}, got {self.upper.shape}")
        if np.any(self.lower >= self.upper):
            j = int(np.argmax(self.lower >= self.upper))
            raise ValueError(
                f"upper: expected more than lower at entry {j}, got {self.upper[j]:g} "
                f"for lower {self.lower[j]:g}"
            )

    @classmethod
    def around(
        cls,
        G: HierarchicalMeasure | MixingMeasure,
        factor: float = 2.0,
        channels: int | None = None,
    ) -> Box:
        """Return a box of a multiple of the measure's largest entry in each block.

        M and a lie in [-factor * largest, factor * largest], omega in [0, factor * largest]; a
        block that is all zero counts as having largest entry 1. The box is for measures with
        G's number of channels, or with the number given.

        Of a mixing measure, router and expert lie in a multiple of the largest entry or of 1,
        biases reach 1 further, and a temperature tau stays in [tau / (10 factor), 10 factor tau].

        Raises
        ------
        ValueError
            If factor is not finite or below 1, or channels not an integer of at least 1.
        """
        _check_measure(G)
        factor = number("factor", factor, least=1.0)
        if isinstance(G, MixingMeasure):
            return cls(*_mixing_bounds(G, factor))
        whole = isinstance(channels, int | np.integer) and not isinstance(channels, bool)
        if channels is not None and not (whole and channels >= 1):
            raise ValueError(f"channels: expected an integer >= 1 or None, got {channels!r}")
        shape = G.shape if channels is None else G.shape._replace(channels=channels)
        vector = G.to_vector()
        upper = np.empty(shape.size)
        for name, block in G.shape.slices.items():
            largest = float(np.abs(vector[block]).max(initial=0.0)) or 1.0
            upper[shape.slices[name]] = factor * largest
        lower = -upper
        if not G.signed:
            lower[shape.slices["omega"]] = 0.0
        return cls(lower, upper)

    @classmethod
    def nonnegative_weights(
        cls, G: HierarchicalMeasure | MixingMeasure, channels: int | None = None
    ) -> Box:
        """Return the box without bounds except omega >= 0: parameter space not compact."""
        around = cls.around(G, channels=channels)
        if isinstance(G, MixingMeasure):
            return cls(*_mixing_bounds(G, np.inf))
        lower = np.where(around.lower < 0.0, -np.inf, 0.0)
        return cls(lower, np.full(lower.size, np.inf))

    def clip(self, theta: Array) -> Array:
        """Return the nearest point of the box."""
        return np.clip(theta, self.lower, self.upper)

    def outward(self, theta: Array, direction: Array) -> Array:
        """Return which parameters sit on a bound that the direction would cross."""
        return ((theta <= self.lower) & (direction < 0)) | ((theta >= self.upper) & (direction > 0))

    def check_start(self, G: HierarchicalMeasure | MixingMeasure) -> Array:
        """Return the start's vector, or say which entry lies outside."""
        theta = G.to_vector()
        if self.lower.shape != theta.shape:
            raise ValueError(f"bounds: expected {theta.size} entries, got {self.lower.size}")
        outside = (theta < self.lower) | (theta > self.upper)
        if outside.any():
            j = int(np.argmax(outside))
            block = next(name for name, s in G.shape.slices.items() if s.start <= j < s.stop)
            raise ValueError(
                f"start: {block} entry {j} is {theta[j]:g}, expected within bounds "
                f"[{self.lower[j]:g}, {self.upper[j]:g}]"
            )
        return theta.copy()


def _check_measure(G) -> None:
    # Fits make their default box from the start before anything else looks at it.
    if not isinstance(G, HierarchicalMeasure | MixingMeasure):
        raise ValueError(f"start: expected a HierarchicalMeasure, got {type(G).__name__}")


def _mixing_bounds(G: MixingMeasure, factor: float) -> tuple[Array, Array]:
    theta, at = G.to_vector(), G.shape.slices
    upper = np.empty(theta.size)
    for name in ("router", "bias", "expert"):
        largest = max(1.0, np.abs(theta[at[name]]).max(initial=0.0))
        upper[at[name]] = factor * largest + (name == "bias")
    lower = -upper
    tau = theta[at["shared"]]  # a temperature: positive
    lower[at["shared"]], upper[at["shared"]] = tau / (10 * factor), 10 * factor * tau
    return lower, upper
