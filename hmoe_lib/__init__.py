"""Attention as a hierarchical mixture of experts: models, losses, estimators, experiments."""

from hmoe_lib.activations import ACTIVATIONS, Activation, activation
from hmoe_lib.measures import HierarchicalMeasure

__all__ = ["ACTIVATIONS", "Activation", "HierarchicalMeasure", "activation"]
