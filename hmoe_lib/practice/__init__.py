"""A small transformer with a gate at any of the five places: trained in JAX, read in numpy.

Training needs the extra (requirements-practice.txt); everything else here does not.
"""

from hmoe_lib.practice.config import VARIANTS, Config, Variant, get_variant
from hmoe_lib.practice.extra import available
from hmoe_lib.practice.measures import (
    FIELDS,
    effective_rank,
    entropy,
    first_share,
    measure,
    uniform_share,
)
from hmoe_lib.practice.numpy_model import attention_part, forward, layer_weights, loss, normalised
from hmoe_lib.practice.result import (
    Interval,
    PracticeResult,
    load_practice,
    load_weights,
    t_interval,
)
from hmoe_lib.practice.starts import start
from hmoe_lib.practice.store import read_text
from hmoe_lib.practice.study import collect, run_practice
from hmoe_lib.practice.text import Text, python_reference, text_of
from hmoe_lib.practice.training import NotFiniteError, Trained, train, validation_windows

__all__ = [
    "FIELDS",
    "VARIANTS",
    "Config",
    "Interval",
    "NotFiniteError",
    "PracticeResult",
    "Text",
    "Trained",
    "Variant",
    "attention_part",
    "available",
    "collect",
    "effective_rank",
    "entropy",
    "first_share",
    "forward",
    "get_variant",
    "layer_weights",
    "load_practice",
    "load_weights",
    "loss",
    "measure",
    "normalised",
    "python_reference",
    "read_text",
    "run_practice",
    "start",
    "t_interval",
    "text_of",
    "train",
    "uniform_share",
    "validation_windows",
]
