"""Checks for students: your function against plain loops, and the smallest input where they differ.

A check calls your function on many small random inputs, from the smallest shapes upwards. It says
nothing bad about style or speed, and it passes exactly when all results agree.
"""

from hmoe_lib.exercises.comparison import DifferenceError, compare
from hmoe_lib.exercises.heads import (
    check_attention,
    check_expert_vector,
    check_score_matrix,
    check_softmax,
)
from hmoe_lib.exercises.losses import check_cells, check_slope, check_voronoi_loss

__all__ = [
    "DifferenceError",
    "check_attention",
    "check_cells",
    "check_expert_vector",
    "check_score_matrix",
    "check_slope",
    "check_softmax",
    "check_voronoi_loss",
    "compare",
]
