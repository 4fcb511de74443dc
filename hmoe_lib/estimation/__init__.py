"""Estimators: least squares by Levenberg-Marquardt, and the paper's gradient descent."""

from hmoe_lib.estimation.bounds import Box
from hmoe_lib.estimation.gradient_descent import fit_gradient_descent
from hmoe_lib.estimation.least_squares import fit_least_squares
from hmoe_lib.estimation.mixing_starts import perturbed
from hmoe_lib.estimation.profiles import limit_on_a_grid, split_profile
from hmoe_lib.estimation.result import STATUSES, FitResult
from hmoe_lib.estimation.starts import Start, near_truth_start, random_start

__all__ = [
    "STATUSES",
    "Box",
    "FitResult",
    "Start",
    "fit_gradient_descent",
    "fit_least_squares",
    "limit_on_a_grid",
    "near_truth_start",
    "perturbed",
    "random_start",
    "split_profile",
]
