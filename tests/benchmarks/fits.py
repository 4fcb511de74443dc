"""A bounded fit against scipy's trust region method: same start, box and analytic Jacobian."""

import numpy as np
from machine import seconds, table
from problem import MODEL, data
from scipy.optimize import least_squares

import hmoe_lib as hl

SAME = 0.1  # units of Gaussian log-likelihood: what counts as the same loss
EPS = np.finfo(float).eps


class Scipy:
    """``least_squares(method="trf")``, which can be told to stop at a loss."""

    def __init__(self, X, y, start, bounds, target: float = -np.inf, ftol: float = EPS) -> None:
        self.X, self.y, self.start, self.bounds = X, y, start, bounds
        self.target, self.ftol = target, ftol
        self.loss, self.steps = np.inf, 0

    def run(self) -> None:
        """Minimise."""
        least_squares(
            lambda theta: MODEL.predict(self.start.from_vector(theta), self.X) - self.y,
            self.start.to_vector(),
            jac=lambda theta: MODEL.jacobian(self.start.from_vector(theta), self.X),
            bounds=(self.bounds.lower, self.bounds.upper),
            method="trf",
            x_scale="jac",
            ftol=self.ftol,
            xtol=EPS,
            gtol=EPS,
            max_nfev=500,
            callback=self.look,
        )

    def look(self, intermediate_result) -> None:
        """Stop at the target."""
        self.loss = 2.0 * intermediate_result.cost / len(self.y)
        self.steps += 1
        if self.loss <= self.target:
            raise StopIteration


def one(n: int, seed: int) -> list[list[str]]:
    """Fit the same data three times, and return a row of the table for each."""
    X, y, start = data(n, seed)
    bounds = hl.Box.around(start)
    fits = []
    ours = min(
        seconds(lambda: fits.append(hl.fit_least_squares(MODEL, X, y, start, bounds=bounds)))
        for _ in range(3)
    )
    fit = fits[0]
    told = Scipy(X, y, start, bounds, target=fit.loss * (1.0 + SAME * 2.0 / n))
    alone = Scipy(X, y, start, bounds, ftol=1e-8)

    def row(name: str, took: float, steps: int, loss: float) -> list[str]:
        higher = (loss / fit.loss - 1.0) * n / 2.0
        times = [f"{took:.2f}", f"{took / ours:.1f}"]
        return [f"{seed}: {name}", *times, str(steps), f"{loss:.9f}", f"{higher:+.3f}"]

    rows = [row(f"hmoe_lib, {fit.status}", ours, fit.iterations, fit.loss)]
    shared = []
    took = min(
        seconds(
            lambda: shared.append(
                hl.fit_least_squares(MODEL, X, y, start, bounds=bounds, shares=True)
            )
        )
        for _ in range(3)
    )
    rows.append(row("hmoe_lib, shares=True", took, shared[0].iterations, shared[0].loss))
    for rival, name in ((told, "stopped at that loss"), (alone, "its own rule, ftol = 1e-8")):
        took = min(seconds(rival.run) for _ in range(2))
        missed = "" if rival.loss <= rival.target or rival is alone else ", NOT REACHED"
        rows.append(row(f"scipy, {name}{missed}", took, rival.steps // 2, rival.loss))
    return rows


def report(n: int = 20_000, seeds=(0, 1, 2)) -> str:
    """Return the table, three rows a seed."""
    head = ["seed", "s", "ratio to ours", "steps", "loss", "log-likelihood below ours"]
    return table(head, [row for seed in seeds for row in one(n, seed)])
