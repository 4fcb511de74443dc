"""Regression models: plain attention, a gate after the values, a gate after the output."""

from hmoe_lib.models.base import HierarchicalModel, NormalEquations
from hmoe_lib.models.mha import Mha
from hmoe_lib.models.output_gated import OutputGated
from hmoe_lib.models.value_gated import ValueGated

__all__ = ["HierarchicalModel", "Mha", "NormalEquations", "OutputGated", "ValueGated"]
