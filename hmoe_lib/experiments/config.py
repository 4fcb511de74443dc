"""What an experiment is: frozen values, checked, that determine every number of a result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hmoe_lib.activations import activation
from hmoe_lib.experiments.checks import file_name, integer, items, number, one_of
from hmoe_lib.experiments.fitting import OPTIMISERS, Optimiser, Start
from hmoe_lib.experiments.flat import FlatPanel
from hmoe_lib.measures import HierarchicalMeasure
from hmoe_lib.models import KeyGated, LayerGated, Mha, OutputGated, QueryGated, ValueGated

__all__ = ["LOSSES", "OPTIMISERS", "SETTINGS", "Experiment", "Optimiser", "Panel", "Start"]

SETTINGS = {
    "mha": Mha,
    "value": ValueGated,
    "output": OutputGated,
    "key": KeyGated,
    "query": QueryGated,
    "layer": LayerGated,
}
LOSSES = {"r1": "$L_{1,1}$", "voronoi": "$L_2$", "experts": "$E_2$"}


@dataclass(frozen=True)
class Panel:
    """One truth, one fitted model, one loss: what one set of axes shows.

    Parameters
    ----------
    name : str
        Unique in its experiment; letters, digits, dots and hyphens.
    setting : {"mha", "value", "output", "key", "query", "layer"}
        Plain attention, Setting I (gate at G2), Setting II (G1); gates at G3, G4, G5.
    truth : HierarchicalMeasure
        G*, with K* channels.
    channels : int
        K >= K*, the fitted number of channels.
    loss : {"r1", "voronoi", "experts"}
        L_{1,1}, L_2 or E_2.
    activation : str or None
        Name of phi; None for "mha", which has none.
    bias : float
        b in phi(z + b).
    start : Start
        The distance of the first guess from the truth.
    optimiser : Optimiser
        The estimator.
    noise_sd : float or None, default None
        Standard deviation of this panel's noise; None for the experiment's.

    Raises
    ------
    ValueError
        If a field is unknown (the closest name is suggested) or out of range.
    """

    name: str
    setting: str
    truth: HierarchicalMeasure
    channels: int
    loss: str
    activation: str | None = "sigmoid"
    bias: float = 1.0
    start: Start = field(default_factory=Start)
    optimiser: Optimiser = field(default_factory=Optimiser)
    noise_sd: float | None = None

    def __post_init__(self) -> None:
        file_name("panel name", self.name, longest=40)
        one_of("setting", self.setting, SETTINGS)
        one_of("loss", self.loss, LOSSES)
        kinds = {"truth": HierarchicalMeasure, "start": Start, "optimiser": Optimiser}
        for field_name, kind in kinds.items():
            value = getattr(self, field_name)
            if not isinstance(value, kind):
                article = "an" if kind is Optimiser else "a"
                raise ValueError(f"{field_name}: expected {article} {kind.__name__}, got {value!r}")
        number("bias", self.bias)
        if self.noise_sd is not None:
            number("noise_sd", self.noise_sd, least=0.0)
        integer("channels", self.channels, least=self.truth.channels)
        if self.setting == "mha":
            if self.activation is not None or self.bias:
                raise ValueError("activation: expected None and bias 0 for setting 'mha'")
        elif not isinstance(self.activation, str):
            raise ValueError(f"activation: expected a name, got {self.activation!r}")
        else:
            activation(self.activation, self.bias)

    def model(self):
        """Return the model object of the setting."""
        if self.setting == "mha":
            return Mha()
        return SETTINGS[self.setting](self.activation, bias=self.bias)

    def to_dict(self) -> dict:
        """Return the panel as plain values for JSON."""
        return {
            **{key: getattr(self, key) for key in _PLAIN_PANEL_FIELDS},
            **_unless(noise_sd=(self.noise_sd, None)),
            "truth": json.loads(self.truth.to_json()),
            "start": {
                "constant": self.start.constant,
                "exponent": self.start.exponent,
                **_unless(kind=(self.start.kind, "near"), count=(self.start.count, 1)),
            },
            "optimiser": {
                "name": self.optimiser.name,
                "box": self.optimiser.box,
                "options": dict(self.optimiser.options),
            },
        }

    @classmethod
    def from_dict(cls, values: dict) -> Panel:
        """Make a panel from the values of to_dict."""
        return cls(
            **{key: values[key] for key in _PLAIN_PANEL_FIELDS},
            noise_sd=values.get("noise_sd"),
            truth=HierarchicalMeasure.from_json(json.dumps(values["truth"])),
            start=Start(**values["start"]),
            optimiser=Optimiser(**values["optimiser"]),
        )


_PLAIN_PANEL_FIELDS = ("name", "setting", "channels", "loss", "activation", "bias")


def _unless(**fields) -> dict:
    """Return the fields that are not at their default: a field added later leaves old hashes."""
    return {name: value for name, (value, default) in fields.items() if value != default}


@dataclass(frozen=True)
class Experiment:
    """Everything that determines a result, bit by bit.

    Parameters
    ----------
    name : str
        Also the origin of all its random numbers.
    panels : tuple of Panel or FlatPanel
        Unique names.
    sizes : tuple of int
        Sample sizes n, increasing.
    replicates : int
        Runs of each panel at each size.
    noise_sd : float, default 0.1
        Standard deviation of the Gaussian noise.
    grid : int, default 40
        Points an axis of the midpoint grid on which functions are compared.
    epochs : tuple of int, default ()
        Steps, from 0, at which the loss of each fit is kept in the result.
    streamed : bool, default False
        Draw the data block by block, anew in every pass, and never hold them. The numbers are
        others than those drawn at once.
    variant : str, default "full"
        What :meth:`quick` and :meth:`select` made of it; it does not enter the random numbers.
    title, core_seconds : str, float
        For readers: what is shown and what it costs. Not part of the hash.

    Raises
    ------
    ValueError
        If a field is out of range; the message names it.

    Examples
    --------
    >>> from hmoe_lib.experiments import get
    >>> figure1 = get("figure1")
    >>> len(figure1.panels), figure1.sizes[0], figure1.sizes[-1]
    (6, 10000, 100000)
    >>> figure1.hash() == Experiment.from_dict(figure1.to_dict()).hash()
    True
    """

    name: str
    panels: tuple[Panel | FlatPanel, ...]
    sizes: tuple[int, ...]
    replicates: int
    noise_sd: float = 0.1
    grid: int = 40
    epochs: tuple[int, ...] = ()
    streamed: bool = False
    variant: str = "full"
    title: str = ""
    core_seconds: float = 0.0

    def __post_init__(self) -> None:
        file_name("experiment name", self.name)
        file_name("variant", self.variant)
        object.__setattr__(self, "panels", items("panels", self.panels))
        object.__setattr__(self, "sizes", items("sizes", self.sizes))
        if not self.panels or not all(
            isinstance(panel, Panel | FlatPanel) for panel in self.panels
        ):
            raise ValueError("panels: expected at least one Panel, and nothing else")
        names = [panel.name for panel in self.panels]
        if len(set(names)) < len(names):
            raise ValueError(f"panels: expected unique names, got {names}")
        for n in self.sizes:
            integer("sizes", n, least=1)
        if not self.sizes or any(a >= b for a, b in zip(self.sizes, self.sizes[1:], strict=False)):
            raise ValueError(f"sizes: expected increasing sample sizes, got {self.sizes}")
        object.__setattr__(self, "epochs", items("epochs", self.epochs))
        for epoch in self.epochs:
            integer("epochs", epoch, least=0)
        integer("replicates", self.replicates, least=1)
        integer("grid", self.grid, least=2)
        number("noise_sd", self.noise_sd, least=0.0)
        if not isinstance(self.streamed, bool):
            raise ValueError(f"streamed: expected True or False, got {self.streamed!r}")

    @property
    def stem(self) -> str:
        """Name of its files: the name, then the variant unless it is the full one."""
        return self.name if self.variant == "full" else f"{self.name}-{self.variant}"

    def panel(self, name: str) -> Panel:
        """Return the panel of that name."""
        panels = {panel.name: panel for panel in self.panels}
        one_of("panel", name, panels)
        return panels[name]

    def select(self, names: str | Iterable[str] | None) -> Experiment:
        """Return the experiment with these panels only, in its own order; None keeps all."""
        if names is None:
            return self
        wanted = {names} if isinstance(names, str) else items("panels", names)
        if not wanted:
            raise ValueError("panels: expected at least one name, got none")
        for name in wanted:
            self.panel(name)
        panels = [panel for panel in self.panels if panel.name in wanted]
        if len(panels) == len(self.panels):
            return self
        variant = ".".join([self.variant, *(panel.name for panel in panels)])
        return replace(self, panels=panels, variant=variant)

    def quick(self) -> Experiment:
        """Return the coarse version: five smaller sizes, at most two runs of each.

        The slopes of the coarse version are too noisy to conclude from; it shows that
        everything works.
        """
        if self.variant.startswith("quick"):
            return self
        sizes = log_sizes(max(self.sizes[0] / 10, 500), max(self.sizes[-1] / 10, 5000), 5)
        return replace(
            self,
            variant=self.variant.replace("full", "quick", 1),
            sizes=sizes,
            replicates=min(self.replicates, 2),
            core_seconds=0.1 * self.core_seconds,
        )

    def to_dict(self) -> dict:
        """Return the experiment as plain values for JSON."""
        plain = {key: getattr(self, key) for key in (*_HASHED_FIELDS, *_TEXT_FIELDS)}
        return {
            **plain,
            **_unless(epochs=(list(self.epochs), []), streamed=(self.streamed, False)),
            "sizes": list(self.sizes),
            "panels": [panel.to_dict() for panel in self.panels],
        }

    @classmethod
    def from_dict(cls, values: dict) -> Experiment:
        """Make an experiment from the values of to_dict."""
        panels = [
            (FlatPanel if "gate" in panel else Panel).from_dict(panel) for panel in values["panels"]
        ]
        return cls(**{**values, "panels": panels})

    def hash(self) -> str:
        """Return sha256 of the canonical JSON of all that determines the result."""
        values = self.to_dict()
        for key in _TEXT_FIELDS:
            del values[key]
        text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


_HASHED_FIELDS = ("name", "sizes", "replicates", "noise_sd", "grid", "variant")
_TEXT_FIELDS = ("title", "core_seconds")


def log_sizes(low: float, high: float, count: int) -> tuple[int, ...]:
    """Return sample sizes evenly spaced on the logarithmic scale, rounded to integers.

    Examples
    --------
    >>> log_sizes(100, 10_000, 5)
    (100, 316, 1000, 3162, 10000)
    """
    ratio = (high / low) ** (1.0 / (count - 1))
    return tuple(round(low * ratio**j) for j in range(count))
