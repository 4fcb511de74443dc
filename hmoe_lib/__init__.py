"""Attention as a hierarchical mixture of experts: models, losses, estimators, experiments."""

from hmoe_lib import attention
from hmoe_lib.activations import ACTIVATIONS, Activation, activation
from hmoe_lib.measures import HierarchicalMeasure
from hmoe_lib.models import Mha, OutputGated, ValueGated

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "HierarchicalMeasure",
    "Mha",
    "OutputGated",
    "ValueGated",
    "activation",
    "attention",
]
