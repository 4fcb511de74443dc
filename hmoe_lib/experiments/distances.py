"""How far a fit is from the truth: the fields of a row that say so."""

from __future__ import annotations

import numpy as np

from hmoe_lib.experiments.config import Panel
from hmoe_lib.measures import HierarchicalMeasure
from hmoe_lib.recovery import combinations_error, expert_errors
from hmoe_lib.voronoi import voronoi_loss, voronoi_loss_r

Array = np.ndarray

__all__ = ["distances", "losses"]

_EXPERT_ERRORS = ("gates", "weights", "single", "shared", "shared_squared")


def distances(panel: Panel, model, G: HierarchicalMeasure, X: Array) -> dict:
    """Return every distance of a fit from the panel's truth, functions compared on the points X."""
    truth = panel.truth
    by_name = losses(model, G, truth, X)
    error = model.predict(G, X) - model.predict(truth, X)
    experts = expert_errors(G, truth)
    return {
        "loss": by_name[panel.loss],
        **{f"loss_{name}": value for name, value in by_name.items()},
        **{f"error_{name}": getattr(experts, name) for name in _EXPERT_ERRORS},
        "cells_shared": experts.cells_shared,
        "error_combinations": combinations_error(G, truth),
        "function_error": float(np.sqrt(np.mean(error**2))),
    }


def losses(model, G: HierarchicalMeasure, truth: HierarchicalMeasure, X: Array) -> dict:
    return {
        "r1": float(voronoi_loss_r(model, G, truth, X, r=1)),
        "voronoi": float(voronoi_loss(model, G, truth, X)),
        "experts": float(expert_errors(G, truth).loss),
    }
