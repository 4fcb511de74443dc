"""Damped steps inside a box: what least squares and maximum likelihood have in common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from hmoe_lib.estimation.bounds import Box

Array = np.ndarray

__all__ = ["LARGEST_DAMPING", "Damping", "bounded_step"]

FIRST_DAMPING = 1e-3
SMALLEST_DAMPING = 1e-10  # a step is as good as undamped
LARGEST_DAMPING = 1e12  # steps are then below rounding


@dataclass
class Damping:
    """The damping by Nielsen's rule, and what was offered before steps were refused."""

    value: float = FIRST_DAMPING
    growth: float = 2.0
    refused: bool = False
    offer: float = 0.0

    def accept(self, ratio: float) -> None:
        """Shrink after a step that gained ratio times what it promised."""
        self.value *= max(1.0 / 3.0, 1.0 - (2.0 * ratio - 1.0) ** 3)
        self.growth, self.refused = 2.0, False

    def refuse(self, promised: float) -> None:
        """Grow after a step that gained nothing."""
        self.offer = self.offer if self.refused else promised
        self.value *= self.growth
        self.growth *= 2.0
        self.refused = True

    def rest(self, negligible: float) -> str | None:
        """Say how a step that promises less than is negligible ends the descent, if it does."""
        if self.refused:
            # Steps refused until short promise nothing: what counts is the offer before them.
            return "stalled" if self.offer > 100 * negligible else "converged"
        if self.value <= SMALLEST_DAMPING:
            return "converged"
        self.value *= 0.1  # a step kept short by damping proves nothing: try a longer one
        return None


def bounded_step(theta: Array, gradient: Array, matrix: Array, box: Box) -> Array:
    """Minimise the damped quadratic in the box, by active sets.

    Each move goes to the minimum over the free parameters or to the first bound on the way, so
    the quadratic never rises; parameters that only passed a bound are set free again. Putting all
    that would leave on their bounds at once can end higher than no step at all.
    """
    step = np.zeros_like(theta)
    free = ~box.outward(theta, -gradient)
    for _ in range(4 * theta.size):
        move = np.zeros_like(theta)
        if free.any():
            slope = gradient[free] + matrix[free] @ step
            move[free] = -cho_solve(cho_factor(matrix[np.ix_(free, free)]), slope)
        edge = np.where(move > 0, box.upper, box.lower)
        with np.errstate(over="ignore"):  # a tiny move reaches no bound
            share = np.divide(
                edge - theta - step, move, out=np.full_like(move, np.inf), where=move != 0
            )
        first = int(np.argmin(share))
        if share[first] < 1.0:
            step += max(share[first], 0.0) * move
            step[first] = edge[first] - theta[first]
            free[first] = False
            continue
        step += move
        slope = gradient + matrix @ step
        inward = ~free & ~box.outward(box.clip(theta + step), -slope)
        with np.errstate(over="ignore"):
            gain = np.where(inward, slope**2 / np.diag(matrix), 0.0)
        if gain.max() <= 1e-12 * abs(gradient @ step):
            break
        free[np.argmax(gain)] = True
    return step
