"""The experiments of the book, one frozen config a figure."""

from __future__ import annotations

from dataclasses import replace

from hmoe_lib.experiments.checks import one_of
from hmoe_lib.experiments.config import Experiment, Optimiser, Panel, Start, log_sizes
from hmoe_lib.experiments.flat_catalogue import FLAT_EXPERIMENTS
from hmoe_lib.experiments.truths import (
    FURTHER_TRUTHS,
    TRUTH_OUTPUT,
    TRUTH_VALUE,
    further_truth,
)
from hmoe_lib.experiments.variations import VARIATIONS

__all__ = ["EXPERIMENTS", "TRUTH_OUTPUT", "TRUTH_VALUE", "declared", "get"]


def _figure1_panels() -> list[Panel]:
    panels = []
    for channels in (3, 4):
        panels += [
            Panel(
                name=f"mha-K{channels}",
                setting="mha",
                truth=TRUTH_VALUE,
                channels=channels,
                loss="r1",
                activation=None,
                bias=0.0,
            ),
            Panel(f"value-K{channels}", "value", TRUTH_VALUE, channels, loss="voronoi"),
            Panel(f"output-K{channels}", "output", TRUTH_OUTPUT, channels, loss="voronoi"),
        ]
    return panels


def _protocol_panels() -> list[Panel]:
    """The paper's optimiser as written, and the estimator on the same data from the same start."""
    descent = Optimiser("gradient_descent", "open", {"step": 0.05, "max_epochs": 1000})
    panels = _figure1_panels()
    return [
        *(replace(panel, name=f"gd-{panel.name}", optimiser=descent) for panel in panels),
        *(replace(panel, name=f"ls-{panel.name}") for panel in panels),
    ]


def _start_panels() -> list[Panel]:
    """K = 3 from starts at distance c n^-e: three exponents, and a decade of c at e = 0.083."""
    starts = [(1.0, 0.0), (1.0, 0.083), (1.0, 0.25), (0.3, 0.083), (0.1, 0.083)]
    return [
        replace(panel, name=f"{panel.setting}-c{constant:g}-e{e:g}", start=Start(constant, e))
        for panel in _figure1_panels()[:3]
        for constant, e in starts
    ]


def _truth_panels() -> list[Panel]:
    """The panels K = 3 of Figure 1 under three further truths; with a gate also without a box."""
    panels = [
        replace(panel, name=f"{name}-{panel.name}", truth=further_truth(name, panel.setting))
        for name in FURTHER_TRUTHS
        for panel in _figure1_panels()[:3]
    ]
    free = Optimiser(box="open")
    return panels + [
        replace(panel, name=f"{panel.name}-open", optimiser=free)
        for panel in panels
        if panel.setting != "mha"
    ]


def _afar_panels() -> list[Panel]:
    """K = 2 and 3 from 10 random starts on the same data, and from one start near the truth."""
    base = [replace(p, channels=K, name=f"{p.setting}-K{K}") for K in (2, 3)
            for p in _figure1_panels()[:3]]  # fmt: skip
    shares = {"mha": (1.0,), "value": (1.0, 0.3), "output": (1.0, 0.3)}
    return [
        *(replace(p, name=f"near-{p.name}") for p in base),
        *(
            replace(p, name=f"afar{share:g}-{p.name}", start=Start(share, 0.0, "random", 10))
            for p in base
            for share in shares[p.setting]
        ),
    ]


EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            name="figure1",
            panels=_figure1_panels(),
            sizes=log_sizes(1e4, 1e5, 10),
            replicates=10,
            title="Voronoi loss against n: plain attention, Setting I, Setting II; K = 3 and 4",
            core_seconds=200.0,
        ),
        Experiment(
            name="beyond-1e5",
            panels=[
                replace(panel, optimiser=Optimiser(options={"shares": True}))
                for panel in _figure1_panels()
            ],
            sizes=log_sizes(1e5, 1e7, 5),
            replicates=3,
            streamed=True,
            title="Figure 1 two decades further, to n = 1e7, three runs a size, data never held",
            core_seconds=1000.0,
        ),
        Experiment(
            name="protocol",
            panels=_protocol_panels(),
            sizes=log_sizes(1e4, 1e5, 10),
            replicates=10,
            epochs=(0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000),
            title="the paper's gradient descent, 1000 epochs, beside least squares on equal data",
            core_seconds=2700.0,
        ),
        Experiment(
            name="starts",
            panels=_start_panels(),
            sizes=log_sizes(2e3, 2e4, 5),
            replicates=20,
            title="what the start does: slope of the fit against slope of the start, K = 3",
            core_seconds=150.0,
        ),
        Experiment(
            name="truths",
            panels=_truth_panels(),
            sizes=log_sizes(5e3, 5e4, 5),
            replicates=8,
            title="Figure 1, K = 3, under three further truths, with and without a box",
            core_seconds=300.0,
        ),
        Experiment(
            name="afar",
            panels=_afar_panels(),
            sizes=(2000,),
            replicates=5,
            title="fits from random starts, 10 on each data set: how often they reach the minimum",
            core_seconds=60.0,
        ),
        *VARIATIONS,
        *FLAT_EXPERIMENTS,
    )
}


def get(name: str) -> Experiment:
    """Return the experiment of that name.

    Raises
    ------
    ValueError
        For an unknown name; the closest one is suggested.

    Examples
    --------
    >>> get("figure1").replicates
    10
    >>> get("figur1")
    Traceback (most recent call last):
        ...
    ValueError: experiment: 'figur1' is not known; did you mean 'figure1'?
    """
    one_of("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]


def declared(config: Experiment) -> Experiment | None:
    """Return what the catalogue declares today under a config's name, variant and panels.

    None if the catalogue does not have the name. Panels it no longer has are left out, so that
    the answer then differs from the config.

    Examples
    --------
    >>> old = get("figure1").select("mha-K3")
    >>> declared(old).hash() == old.hash()
    True
    """
    today = EXPERIMENTS.get(config.name)
    if today is None:
        return None
    if config.variant.startswith("quick"):
        today = today.quick()
    kept = [panel.name for panel in config.panels if panel in today.panels]
    return today.select(kept or None)
