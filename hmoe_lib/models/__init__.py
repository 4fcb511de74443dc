"""Regression models: plain attention, a gate at each of the five places, flat mixtures."""

from hmoe_lib.models.base import HierarchicalModel, NormalEquations, RegressionModel
from hmoe_lib.models.flat import FlatModel
from hmoe_lib.models.linear_experts import KeyGated, LayerGated, QueryGated
from hmoe_lib.models.mha import Mha
from hmoe_lib.models.output_gated import OutputGated
from hmoe_lib.models.smoothed_top import SmoothedTop
from hmoe_lib.models.value_gated import ValueGated

__all__ = [
    "FlatModel",
    "HierarchicalModel",
    "KeyGated",
    "LayerGated",
    "Mha",
    "NormalEquations",
    "OutputGated",
    "QueryGated",
    "RegressionModel",
    "SmoothedTop",
    "ValueGated",
]
