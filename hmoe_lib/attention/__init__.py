"""Multi-head and gated attention on token matrices, and the rewrite into a mixture of experts."""

from hmoe_lib.attention.companions import active_attention, as_mixture, sigmoid_attention
from hmoe_lib.attention.heads import attention_weights, causal_mask, multi_head_attention
from hmoe_lib.attention.positions import POSITIONS, gated_attention
from hmoe_lib.attention.rewrite import as_hmoe, selector, stacked

__all__ = [
    "POSITIONS",
    "active_attention",
    "as_hmoe",
    "as_mixture",
    "attention_weights",
    "causal_mask",
    "gated_attention",
    "multi_head_attention",
    "selector",
    "sigmoid_attention",
    "stacked",
]
