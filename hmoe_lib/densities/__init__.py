"""Mixtures of experts fitted by maximum likelihood: densities with exact derivatives."""

from hmoe_lib.densities.contaminated import ContaminatedMoE
from hmoe_lib.densities.distances import Distance, density_distance, monte_carlo_hellinger
from hmoe_lib.densities.moe import GaussianMoE, MixtureDensity, MultinomialMoE
from hmoe_lib.densities.terms import Expansion

__all__ = [
    "ContaminatedMoE",
    "Distance",
    "Expansion",
    "GaussianMoE",
    "MixtureDensity",
    "MultinomialMoE",
    "density_distance",
    "monte_carlo_hellinger",
]
