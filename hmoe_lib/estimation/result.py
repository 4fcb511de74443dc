"""What a fit returns: the estimate, and an honest account of how it was reached."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hmoe_lib.estimation.bounds import Box
from hmoe_lib.measures import HierarchicalMeasure
from hmoe_lib.mixing import MixingMeasure

Array = np.ndarray

__all__ = ["STATUSES", "FitResult"]

STATUSES = {
    "converged": "no step promises a decrease that matters",
    "hit bounds": "converged, with parameters on their bounds",
    "stalled": "no step decreased the loss although the gradient is not small",
    "out of steps": "the largest number of steps was reached before convergence",
    "diverged": "the loss at the start, or a derivative of it, is not finite",
}


@dataclass(frozen=True, eq=False)
class FitResult:
    """Estimate, loss, status and history of a fit.

    Attributes
    ----------
    measure : HierarchicalMeasure or MixingMeasure
        The estimate, finite and inside the bounds.
    loss : float
        Mean squared residual at the estimate.
    status : str
        One of ``STATUSES``.
    message : str
        A sentence on how the fit ended, with its start.
    iterations : int
        Accepted steps.
    history : ndarray
        Mean squared residual at the start and after each accepted step; never increases on one
        sample.
    gradient : ndarray
        Gradient of the loss at the estimate, in the order of ``measure.to_vector()``.
    at_bound : ndarray of bool
        Parameters on their bounds.
    """

    measure: HierarchicalMeasure | MixingMeasure
    loss: float
    status: str
    message: str
    iterations: int
    history: Array = field(repr=False)
    gradient: Array = field(repr=False)
    at_bound: Array = field(repr=False)

    @property
    def converged(self) -> bool:
        """Whether the fit reached a minimum inside or on its bounds."""
        return self.status in ("converged", "hit bounds")


def make_result(start, box: Box, theta: Array, status: str, history, gradient: Array) -> FitResult:
    """Assemble a result; convergence with parameters on bounds is named as such."""
    at_bound = (theta <= box.lower) | (theta >= box.upper)
    if status == "converged" and at_bound.any():
        status = "hit bounds"
    where = getattr(start, "note", "") or "started from the given measure"
    count = f"; {int(at_bound.sum())} of {theta.size} on a bound" if at_bound.any() else ""
    message = (
        f"{status}: {STATUSES[status]} ({len(history) - 1} steps, loss {history[-1]:.6g}{count}; "
        f"{where})."
    )
    return FitResult(
        measure=_measure_like(start, theta),
        loss=float(history[-1]),
        status=status,
        message=message,
        iterations=len(history) - 1,
        history=np.array(history, dtype=float),
        gradient=gradient,
        at_bound=at_bound,
    )


def _measure_like(start: HierarchicalMeasure | MixingMeasure, theta: Array):
    G = start.from_vector(theta)
    if isinstance(G, MixingMeasure):
        return G
    return HierarchicalMeasure(G.omega, G.M, G.a, G.signed)
