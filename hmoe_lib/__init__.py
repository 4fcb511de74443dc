"""Attention as a hierarchical mixture of experts: models, losses, estimators, experiments.

Symbol in the book -> object: (omega, M, a) -> HierarchicalMeasure, phi -> Activation,
f_G -> Mha().predict, g_G -> ValueGated(phi).predict (Setting I) or OutputGated(phi).predict
(Setting II), V_{h,k} -> voronoi_cells, L_{1,r} -> voronoi_loss_r, L_2 -> voronoi_loss,
G_n -> fit_least_squares. Densities of flat mixtures: GaussianMoE, MultinomialMoE, ContaminatedMoE,
fitted by fit_likelihood.
"""

import importlib

from hmoe_lib.activations import ACTIVATIONS, Activation, activation
from hmoe_lib.densities import ContaminatedMoE, GaussianMoE, MultinomialMoE
from hmoe_lib.estimation import (
    Box,
    FitResult,
    LikelihoodFit,
    fit_em,
    fit_gradient_descent,
    fit_least_squares,
    fit_likelihood,
    fit_mixture,
    near_truth_start,
    split_start,
)
from hmoe_lib.measures import HierarchicalMeasure
from hmoe_lib.models import Mha, OutputGated, ValueGated
from hmoe_lib.voronoi import voronoi_cells, voronoi_loss, voronoi_loss_r

__version__ = "1.0.0"

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "Box",
    "ContaminatedMoE",
    "FitResult",
    "GaussianMoE",
    "HierarchicalMeasure",
    "LikelihoodFit",
    "Mha",
    "MultinomialMoE",
    "OutputGated",
    "ValueGated",
    "activation",
    "attention",
    "experiments",
    "fit_em",
    "fit_gradient_descent",
    "fit_least_squares",
    "fit_likelihood",
    "fit_mixture",
    "identifiability",
    "near_truth_start",
    "plots",
    "practice",
    "split_start",
    "voronoi_cells",
    "voronoi_loss",
    "voronoi_loss_r",
]

# Loaded when first used: sympy, matplotlib and joblib are slow to import.
_ON_DEMAND = {
    "attention", "experiments", "identifiability", "pages", "plots", "practice", "reference"
}  # fmt: skip


def __getattr__(name: str):
    if name in _ON_DEMAND:
        return importlib.import_module(f"hmoe_lib.{name}")
    raise AttributeError(f"module 'hmoe_lib' has no attribute {name!r}")
