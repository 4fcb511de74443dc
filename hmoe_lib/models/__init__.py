"""Regression models: plain attention, and a gate at each of the five places."""

from hmoe_lib.models.base import HierarchicalModel, NormalEquations
from hmoe_lib.models.linear_experts import KeyGated, LayerGated, QueryGated
from hmoe_lib.models.mha import Mha
from hmoe_lib.models.output_gated import OutputGated
from hmoe_lib.models.value_gated import ValueGated

__all__ = [
    "HierarchicalModel",
    "KeyGated",
    "LayerGated",
    "Mha",
    "NormalEquations",
    "OutputGated",
    "QueryGated",
    "ValueGated",
]
