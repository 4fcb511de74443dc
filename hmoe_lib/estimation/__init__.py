"""Estimators: least squares, the paper's gradient descent, and maximum likelihood."""

from hmoe_lib.estimation.bounds import Box
from hmoe_lib.estimation.density_starts import data_start, fit_mixture, split_start
from hmoe_lib.estimation.em import fit_em
from hmoe_lib.estimation.gradient_descent import fit_gradient_descent
from hmoe_lib.estimation.least_squares import fit_least_squares
from hmoe_lib.estimation.likelihood import fit_likelihood, likelihood_box
from hmoe_lib.estimation.likelihood_result import LIKELIHOOD_STATUSES, LikelihoodFit
from hmoe_lib.estimation.mixing_starts import perturbed
from hmoe_lib.estimation.profiles import limit_on_a_grid, split_profile
from hmoe_lib.estimation.result import STATUSES, FitResult
from hmoe_lib.estimation.starts import Start, near_truth_start, random_start
from hmoe_lib.estimation.top_k import fit_top_k

__all__ = [
    "LIKELIHOOD_STATUSES",
    "STATUSES",
    "Box",
    "FitResult",
    "LikelihoodFit",
    "Start",
    "data_start",
    "fit_em",
    "fit_gradient_descent",
    "fit_least_squares",
    "fit_likelihood",
    "fit_mixture",
    "fit_top_k",
    "likelihood_box",
    "limit_on_a_grid",
    "near_truth_start",
    "perturbed",
    "random_start",
    "split_profile",
    "split_start",
]
