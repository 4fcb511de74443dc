"""What a maximum likelihood fit returns: the estimate, and how it was reached."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hmoe_lib.mixing import MixingMeasure

Array = np.ndarray

__all__ = ["LIKELIHOOD_STATUSES", "LikelihoodFit"]

LIKELIHOOD_STATUSES = {
    "converged": "no step promises a gain that matters",
    "few samples": "at a maximum, with fewer samples than parameters: the parameters are not "
    "determined",
    "variance floor": "at a maximum, with a variance on its smallest allowed value",
    "vanishing component": "at a maximum, with an atom that explains fewer samples than it has "
    "parameters",
    "separable": "at a maximum, with a gate or a class slope on its bound: the data separate",
    "hit bounds": "at a maximum, with other parameters on their bounds",
    "stalled": "no step raised the likelihood although the gradient is not small",
    "out of steps": "the largest number of steps was reached before convergence",
    "diverged": "the likelihood at the start, or a derivative of it, is not finite",
}
_NO_MAXIMUM = ("stalled", "out of steps", "diverged")


@dataclass(frozen=True, eq=False)
class LikelihoodFit:
    """Estimate, log-likelihood, status and history of a maximum likelihood fit.

    Attributes
    ----------
    measure : MixingMeasure
        The estimate, finite and inside the bounds.
    log_likelihood : float
        Sum of the log densities of the samples at the estimate.
    status : str
        One of ``LIKELIHOOD_STATUSES``; of several that apply the first in that order.
    message : str
        A sentence on how the fit ended, with its start.
    iterations : int
        Accepted steps.
    history : ndarray
        Log-likelihood at the start and after each accepted step; never falls.
    gradient : ndarray
        Gradient of the log-likelihood at the estimate, in the order of ``measure.to_vector()``.
    at_bound : ndarray of bool
        Parameters on their bounds.
    """

    measure: MixingMeasure
    log_likelihood: float
    status: str
    message: str
    iterations: int
    history: Array = field(repr=False)
    gradient: Array = field(repr=False)
    at_bound: Array = field(repr=False)

    @property
    def converged(self) -> bool:
        """Whether the fit reached a maximum inside the box or on its bounds."""
        return self.status not in _NO_MAXIMUM


def make_likelihood_fit(
    model, start: MixingMeasure, box, theta: Array, status: str, history, gradient: Array, data
) -> LikelihoodFit:
    """Assemble a fit; a maximum at which the theory does not hold is named."""
    at_bound = (theta <= box.lower) | (theta >= box.upper)
    measure = start.from_vector(theta, note=start.note)
    if status == "converged":
        status = _named(model, measure, box, theta, at_bound, data)
    count = f"; {int(at_bound.sum())} of {theta.size} on a bound" if at_bound.any() else ""
    message = (
        f"{status}: {LIKELIHOOD_STATUSES[status]} ({len(history) - 1} steps, log-likelihood "
        f"{history[-1]:.6g}{count}; {start.note or 'started from the given measure'})."
    )
    return LikelihoodFit(
        measure=measure,
        log_likelihood=float(history[-1]),
        status=status,
        message=message,
        iterations=len(history) - 1,
        history=np.array(history, dtype=float),
        gradient=gradient,
        at_bound=at_bound,
    )


def _named(model, G: MixingMeasure, box, theta: Array, at_bound: Array, data) -> str:
    if len(data[1]) < theta.size:
        return "few samples"
    slices = G.shape.slices
    positions = np.full(len(G.shape.values), -1)
    positions[G.shape.free] = np.arange(len(theta))
    _, _, of_expert, _ = G.shape.blocks(positions)
    if model.classes is None:  # the last coordinate of an expert is the log of its variance
        log_nu = of_expert[:, -1][of_expert[:, -1] >= 0]
        if (theta[log_nu] <= box.lower[log_nu]).any():
            return "variance floor"
    r, _ = model.responsibilities(G, *data)
    if (r.sum(axis=0) < G.expert.shape[1]).any():
        return "vanishing component"
    gate = at_bound[slices["router"]].any() or at_bound[slices["bias"]].any()
    if gate or (model.classes is not None and at_bound[slices["expert"]].any()):
        return "separable"
    return "hit bounds" if at_bound.any() else "converged"
