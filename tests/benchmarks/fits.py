"""A bounded fit against scipy's trust region method: same start, box and analytic Jacobian."""

import contextlib

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


class ReachedError(Exception):
    """The loss aimed at is reached."""


class Ours(hl.ValueGated):
    """``fit_least_squares``, which can be told to stop at a loss of the whole sample."""

    def __init__(self, X, y, start, bounds, target: float, **options) -> None:
        super().__init__(MODEL.phi)
        self.problem = (X, y, start, bounds)
        self.target, self.options = target, options
        self.loss, self.steps = np.inf, 0

    def run(self) -> None:
        """Minimise."""
        self.steps = 0
        with contextlib.suppress(ReachedError):
            hl.fit_least_squares(self, *self.problem, **self.options)

    def loss_and_gradient_at(self, theta, shape, samples):
        """Look at the loss, and stop at the target."""
        return self.seen(super().loss_and_gradient_at(theta, shape, samples), samples)

    def normal_equations_at(self, theta, shape, samples, curvature=False):
        """Look at the loss, and stop at the target."""
        return self.seen(super().normal_equations_at(theta, shape, samples, curvature), samples)

    def seen(self, look, samples):
        if len(samples) == len(self.problem[1]):
            self.loss, self.steps = look[0], self.steps + 1
            if self.loss <= self.target and samples.dtype is np.float64:
                raise ReachedError
        return look


def one(n: int, seed: int) -> list[list[str]]:
    """Fit the same data by each, to the same loss and to its own end; the rows of the table."""
    X, y, start = data(n, seed)
    bounds = hl.Box.around(start)
    best = hl.fit_least_squares(MODEL, X, y, start, bounds=bounds).loss
    target = best * (1.0 + SAME * 2.0 / n)
    rows = []
    for end, aim, ftol in (("to that loss", target, EPS), ("own rule", -np.inf, 1e-8)):
        rivals = {
            "scipy": Scipy(X, y, start, bounds, target=aim, ftol=ftol),
            "hmoe_lib": Ours(X, y, start, bounds, aim),
            "shares=True": Ours(X, y, start, bounds, aim, shares=True),
            "shares=True, single=True": Ours(X, y, start, bounds, aim, shares=True, single=True),
        }
        took = {name: min(seconds(rival.run) for _ in range(3)) for name, rival in rivals.items()}
        for name, rival in rivals.items():
            missed = ", NOT REACHED" if end == "to that loss" and rival.loss > target else ""
            steps = rival.steps // 3 if name == "scipy" else rival.steps
            higher = f"{(rival.loss / best - 1.0) * n / 2.0:+.3f}"
            times = [f"{took[name]:.3f}", f"{took['scipy'] / took[name]:.1f}"]
            rows.append([f"{seed}: {name}, {end}{missed}", *times, str(steps), higher])
    return rows


def report(n: int = 20_000, seeds=(0, 1, 2, 3, 4)) -> str:
    """Return the table, eight rows a seed."""
    head = ["seed", "s", "times as fast as scipy", "steps", "log-likelihood below ours"]
    return table(head, [row for seed in seeds for row in one(n, seed)])
