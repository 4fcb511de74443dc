"""What is trained: ten variants of one small transformer, all with equally many parameters."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass
from typing import NamedTuple

from hmoe_lib.arguments import number

__all__ = ["VARIANTS", "VOCABULARY", "Config", "Variant", "get_variant"]

VOCABULARY = 256
"""Tokens are bytes."""


class Variant(NamedTuple):
    """Where a layer has its gate, and which.

    Parameters
    ----------
    shows : str
        In words.
    place : str or None
        "G1" to "G5", or None.
    form : str
        "none", "elementwise" or "headwise" for the multiplicative gate, "activation" for the
        theory's, "sigmoid" for sigmoid attention.
    """

    shows: str
    place: str | None
    form: str


VARIANTS: dict[str, Variant] = {
    "none": Variant("no gate", None, "none"),
    "G1": Variant("multiplicative, elementwise, on the SDPA output", "G1", "elementwise"),
    "G2": Variant("multiplicative, elementwise, on the values", "G2", "elementwise"),
    "G3": Variant("multiplicative, elementwise, on the keys", "G3", "elementwise"),
    "G4": Variant("multiplicative, elementwise, on the queries", "G4", "elementwise"),
    "G5": Variant("multiplicative, elementwise, on the output", "G5", "elementwise"),
    "G1-headwise": Variant("multiplicative, one factor a head, at G1", "G1", "headwise"),
    "setting-I": Variant("activation SiLU on the values, no W_theta", "G2", "activation"),
    "setting-II": Variant("activation SiLU on the SDPA output, no W_theta", "G1", "activation"),
    "sigmoid": Variant("sigmoid attention: no softmax, no gate", None, "sigmoid"),
}
"""The variants of the study, in its order."""


def get_variant(name: str) -> Variant:
    """Return a variant by its name.

    Parameters
    ----------
    name : str
        A key of VARIANTS.

    Raises
    ------
    ValueError
        For another name; the message lists the known ones.

    Examples
    --------
    >>> get_variant("G3").place
    'G3'
    """
    if name not in VARIANTS:
        raise ValueError(f"variant: {name!r} is not known; known: {', '.join(VARIANTS)}")
    return VARIANTS[name]


@dataclass(frozen=True)
class Config:
    """A model and how it is trained; everything that decides the numbers, but text and versions.

    Parameters
    ----------
    variant : str, default "none"
        A key of VARIANTS.
    seed : int, default 0
        Of the start and of the batches. Variants with one seed share both: the matrices that they
        have in common start equal, and they read the same windows in the same order.
    layers, heads : int
        Blocks, and heads H of each.
    features : int
        d, a multiple of H; keys and values have d/H columns a head.
    context : int
        N, the bytes of a window.
    steps, batch : int
        Steps of AdamW, and windows a step.
    rate : float
        Largest learning rate: reached after `warmup` steps, then down to a tenth along a cosine.
    warmup : int
        Steps of linear increase.
    decay : float
        Weight decay of AdamW, on matrices.
    validate_every, windows : int
        Steps between two validation losses, and windows of each.

    Raises
    ------
    ValueError
        For a value out of range.

    Examples
    --------
    >>> Config().parameters == Config(variant="G1").parameters == Config("sigmoid").parameters
    True
    """

    variant: str = "none"
    seed: int = 0
    layers: int = 5
    features: int = 96
    heads: int = 4
    context: int = 128
    steps: int = 700
    batch: int = 8
    rate: float = 4e-3
    warmup: int = 70
    decay: float = 0.1
    validate_every: int = 70
    windows: int = 64

    def __post_init__(self) -> None:
        get_variant(self.variant)
        least = {"seed": 0, "context": 2, "warmup": 0}
        for field in dataclasses.fields(self)[1:]:
            value = getattr(self, field.name)
            if field.type == "float":
                number(field.name, value, least=0.0)
            elif not isinstance(value, int) or isinstance(value, bool):
                raise ValueError(f"{field.name}: expected an integer, got {value!r}")
            elif value < least.get(field.name, 1):
                low = least.get(field.name, 1)
                raise ValueError(f"{field.name}: expected an integer >= {low}, got {value!r}")
        if self.features % (2 * self.heads):
            raise ValueError(
                f"features: expected a multiple of 2 * heads = {2 * self.heads}, "
                f"got {self.features}"
            )

    @property
    def channels(self) -> int:
        """d_k = d_v = d / H."""
        return self.features // self.heads

    @property
    def gate_shape(self) -> tuple[int, ...] | None:
        """The shape of W_theta in every layer, None where there is none."""
        _, place, form = get_variant(self.variant)
        if form == "elementwise" and place == "G5":
            return self.features, self.features
        widths = {"elementwise": self.channels, "headwise": 1}
        return (self.heads, self.features, widths[form]) if form in widths else None

    @property
    def hidden(self) -> int:
        """Neurons of each feed-forward part: 4 d without W_theta, fewer with it.

        A neuron costs 2 d numbers, so an elementwise gate costs d/2 neurons and a headwise one
        H/2, and all variants have exactly the same number of parameters.
        """
        columns = {"elementwise": self.features, "headwise": self.heads}
        return 4 * self.features - columns.get(get_variant(self.variant).form, 0) // 2

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every array of weights; the leading axis of most is the layer."""
        L, d, H, w, m = self.layers, self.features, self.heads, self.channels, self.hidden
        shapes = {
            "tokens": (VOCABULARY, d),
            "positions": (self.context, d),
            "attention_scale": (L, d),
            "W_Q": (L, H, d, w),
            "W_K": (L, H, d, w),
            "W_V": (L, H, d, w),
            "W_O": (L, H, w, d),
            "mlp_scale": (L, d),
            "W_in": (L, d, m),
            "W_out": (L, m, d),
            "final_scale": (d,),
        }
        if self.gate_shape is not None:
            shapes["W_theta"] = (L, *self.gate_shape)
        return shapes

    @property
    def parameters(self) -> int:
        """How many numbers are trained."""
        return sum(math.prod(shape) for shape in self.shapes().values())

    @property
    def stem(self) -> str:
        """Name of the run's files."""
        return f"practice-{self.variant}-{self.seed}-{self.hash()[:12]}"

    def to_dict(self) -> dict:
        """Return the fields."""
        return dataclasses.asdict(self)

    def hash(self) -> str:
        """Return sha256 of the fields."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()
