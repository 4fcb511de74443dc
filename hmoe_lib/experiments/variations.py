"""One thing varied at a time: channels, noise, heads, dimension, the place of the gate."""

from __future__ import annotations

from hmoe_lib.experiments.config import Experiment, Optimiser, Panel, Start, log_sizes
from hmoe_lib.experiments.truths import TRUTH_OUTPUT, TRUTH_VALUE, declared_truth
from hmoe_lib.measures import HierarchicalMeasure

__all__ = ["PLACES", "START_EXPONENTS", "VARIATIONS"]

# Of a fit that is to show n^{-1/4}: the valley of two copies is followed to its bottom.
_NEWTON = Optimiser(options={"newton": True})
START_EXPONENTS = (0.0, 0.083, 0.25)
PLACES = {
    "none": "mha",
    "G1": "output",
    "G2": "value",
    "G3": "key",
    "G4": "query",
    "G5": "layer",
}
"""The setting of each place of a gate."""


def _panel(name: str, setting: str, truth: HierarchicalMeasure, channels: int = 3, **more) -> Panel:
    """A panel with the loss of its setting, the paper's start, and Newton steps if gated."""
    curved = setting in ("value", "output")
    fields = {"loss": "voronoi" if curved else "r1"}
    if curved:
        fields["optimiser"] = _NEWTON
    if setting == "mha":
        fields |= {"activation": None, "bias": 0.0}
    return Panel(name, setting, truth, channels, **(fields | more))


def _three(channels: int, suffix: str, **more) -> list[Panel]:
    """Plain attention and both settings, on the truths of Figure 1."""
    truths = {"mha": TRUTH_VALUE, "value": TRUTH_VALUE, "output": TRUTH_OUTPUT}
    return [
        _panel(f"{setting}-{suffix}", setting, truth, channels, **more)
        for setting, truth in truths.items()
    ]


def _start(exponent: float) -> Start:
    """Starts that are equally far from the truth at n = 10,000, and come nearer like n^-e."""
    return Start(round(0.4 * 10_000**exponent, 12), exponent)


def _channel_panels() -> list[Panel]:
    """K = K*, K* + 1, K* + 2, K* + 4; for K* + 1 also with noise of variance 0.1, sd 0.316."""
    panels = [panel for K in (2, 3, 4, 6) for panel in _three(K, f"K{K}")]
    return [*panels, *_three(3, "K3-var0.1", noise_sd=0.1**0.5)]


def _searched(heads: int, dim: int, channels: tuple[int, ...] = (2, 3)) -> list[Panel]:
    """Both settings on their searched truths, by default exact and with one channel too many."""
    return [
        _panel(f"{setting}-H{heads}-d{dim}-K{K}", setting, declared_truth(setting, heads, dim), K)
        for setting in ("value", "output")
        for K in channels
    ]


def _place_panels() -> list[Panel]:
    """Every place of a gate, from starts with three exponents."""
    panels = []
    for place, setting in PLACES.items():
        truth = {"mha": TRUTH_VALUE, "value": TRUTH_VALUE, "output": TRUTH_OUTPUT}.get(setting)
        truth = truth or declared_truth(setting, 2, 2)
        for exponent in START_EXPONENTS:
            name = f"{place}-e{exponent:g}"
            panels.append(_panel(name, setting, truth, start=_start(exponent)))
    return panels


# The window of the paper, and earlier ones where fits are many or large.
_PAPER, _HALF, _THIRD = log_sizes(1e4, 1e5, 5), log_sizes(5e3, 5e4, 5), log_sizes(3e3, 3e4, 5)

VARIATIONS = (
    Experiment(
        name="channels",
        panels=_channel_panels(),
        sizes=_PAPER,
        replicates=6,
        title="experts fitted once and several times: K = 2, 3, 4, 6, and noise of variance 0.1",
        core_seconds=370.0,
    ),
    Experiment(
        name="places",
        panels=_place_panels(),
        sizes=_HALF,
        replicates=5,
        title="a gate at each of the five places, K = 3, from starts with three exponents",
        core_seconds=130.0,
    ),
    Experiment(
        name="dimension4",
        panels=_searched(2, 4),
        sizes=_THIRD,
        replicates=4,
        grid=8,
        title="two heads in four dimensions, K = 2 and 3",
        core_seconds=50.0,
    ),
    Experiment(
        name="dimension8",
        panels=_searched(2, 8, channels=(2,)),
        sizes=_THIRD,
        replicates=4,
        grid=4,
        title="two heads in eight dimensions, K = 2",
        core_seconds=30.0,
    ),
    Experiment(
        name="heads",
        panels=[*_searched(1, 2), *_searched(4, 2)],
        sizes=_THIRD,
        replicates=4,
        title="one head and four heads in two dimensions, K = 2 and 3",
        core_seconds=120.0,
    ),
)
