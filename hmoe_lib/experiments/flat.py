"""Panels of flat mixtures: a gate, an expert, a truth, and how one replicate is computed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np

from hmoe_lib.arguments import number
from hmoe_lib.estimation import Box, fit_least_squares, perturbed
from hmoe_lib.experiments.checks import file_name, one_of
from hmoe_lib.experiments.fitting import Optimiser, Start
from hmoe_lib.gates import Sigmoid, gate
from hmoe_lib.mixing import MixingMeasure
from hmoe_lib.mixing_losses import matched_errors, mixing_errors
from hmoe_lib.models import FlatModel

Array = np.ndarray

__all__ = ["FlatPanel", "flat_record"]


@dataclass(frozen=True)
class FlatPanel:
    r"""One truth, one gate, one expert: an exact fit, or one with an atom too many.

    Parameters
    ----------
    name : str
        Unique in its experiment; letters, digits, dots and hyphens.
    gate, expert : str
        Names of :func:`hmoe_lib.gates.gate` and :func:`hmoe_lib.experts.expert`.
    truth : MixingMeasure
        G* with its pins; its atoms generate the data.
    split : int or None, default None
        The true atom that the start has twice, at half its weight; None fits k* atoms.
    options : tuple of (str, number) pairs
        Options of the gate; a dict is accepted and stored in sorted order.
    width : float, default 2
        Inputs are uniform on [-width, width]^d.
    limit : MixingMeasure or None, default None
        Where the fit starts and to what its loss is measured, instead of the truth: the limit of
        least squares in a box that excludes the truth.
    limits : tuple of (str, int, float, float)
        Block, column, lower and upper bound: changes to the box.
    start : Start
        The perturbation of the start.
    optimiser : Optimiser
        Least squares and its box.

    Raises
    ------
    ValueError
        If a field is unknown (the closest name is suggested) or out of range.
    """

    name: str
    gate: str
    expert: str
    truth: MixingMeasure
    split: int | None = None
    options: tuple[tuple[str, float], ...] = ()
    width: float = 2.0
    limit: MixingMeasure | None = None
    limits: tuple[tuple[str, int, float, float], ...] = ()
    start: Start = field(default_factory=Start)
    optimiser: Optimiser = field(default_factory=Optimiser)

    def __post_init__(self) -> None:
        file_name("panel name", self.name, longest=40)
        object.__setattr__(self, "options", tuple(sorted(dict(self.options).items())))
        object.__setattr__(self, "limits", tuple(tuple(limit) for limit in self.limits))
        for name, value in (("truth", self.truth), ("limit", self.limit)):
            if not isinstance(value, MixingMeasure) and (name == "truth" or value is not None):
                raise ValueError(f"{name}: expected a MixingMeasure, got {value!r}")
        number("width", self.width, above=0.0)
        one_of("optimiser of a flat panel", self.optimiser.name, ("least_squares",))
        if self.split is not None and not 0 <= self.split < self.truth.atoms:
            raise ValueError(f"split: expected an atom below {self.truth.atoms}, got {self.split}")
        self.model()

    @property
    def weight(self) -> str:
        """What the mass of an atom is: "exp" for a softmax, "sigmoid" for a sigmoid gate."""
        return "sigmoid" if isinstance(self.model().gate, Sigmoid) else "exp"

    @property
    def dim(self) -> int:
        """d, the number of inputs: an expert has d + 1 parameters, or d without a bias."""
        return self.truth.expert.shape[1] - (self.expert != "linear")

    def model(self) -> FlatModel:
        """Return the model."""
        return FlatModel(gate(self.gate, **dict(self.options)), self.expert)

    def origin(self) -> MixingMeasure:
        """Return the measure that starts are perturbations of."""
        if self.limit is not None:
            return self.limit
        if self.split is None:
            return self.truth
        return self.truth.split_atom(self.split, [0.5, 0.5], self.weight)

    def box(self) -> Box:
        """Return the parameter space: around the origin, with the panel's own limits."""
        origin = self.origin()
        around = Box.around(origin, self.optimiser.box)
        lower, upper = around.lower.copy(), around.upper.copy()
        for block, column, low, high in self.limits:
            mask = np.zeros_like(getattr(origin, block), dtype=bool)
            mask[..., column] = True
            mask = np.ones_like(mask) if mask.ndim == 1 else mask
            free = mask[~origin.pinned[("router", "bias", "expert", "shared").index(block)]]
            at = np.arange(origin.shape.size)[origin.shape.slices[block]][free.ravel()]
            lower[at], upper[at] = low, high
        return Box(lower, upper)

    def to_dict(self) -> dict:
        """Return the panel as plain values for JSON."""
        start = {"constant": self.start.constant, "exponent": self.start.exponent}
        return {
            **{name: getattr(self, name) for name in ("name", "gate", "expert", "split", "width")},
            "options": dict(self.options),
            "truth": json.loads(self.truth.to_json()),
            "limit": None if self.limit is None else json.loads(self.limit.to_json()),
            "limits": [list(limit) for limit in self.limits],
            "start": start,
            "optimiser": {"box": self.optimiser.box, "options": dict(self.optimiser.options)},
        }

    @classmethod
    def from_dict(cls, values: dict) -> FlatPanel:
        """Make a panel from the values of to_dict."""
        measures = {
            name: None
            if values[name] is None
            else MixingMeasure.from_json(json.dumps(values[name]))
            for name in ("truth", "limit")
        }
        return cls(
            **{
                **values,
                **measures,
                "start": Start(**values["start"]),
                "optimiser": Optimiser(**values["optimiser"]),
            }
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FlatPanel):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None


def flat_record(
    panel: FlatPanel,
    n: int,
    noise_sd: float,
    points: Array,
    data: np.random.Generator,
    start_rng: np.random.Generator,
) -> dict:
    """Compute one replicate of a flat panel: the fields of a row that a flat fit has.

    ``loss`` is loss_1 of an exact fit, loss_2 of an over-specified one, and the distance to the
    limit where the panel has one; ``loss_r1``, ``loss_voronoi`` are always loss_1 and loss_2 with
    respect to the truth. ``error_gates`` and ``loss_experts`` are the parts of routers and
    experts, ``error_single`` and ``error_shared`` those of cells with one atom and with several.
    """
    model, truth, box = panel.model(), panel.truth, panel.box()
    X = data.uniform(-panel.width, panel.width, size=(n, panel.dim))
    y = model.sample(truth, X, noise_sd, rng=data)
    start = perturbed(panel.origin(), panel.start.distance(n), rng=start_rng, bounds=box)
    fit = fit_least_squares(model, X, y, start, bounds=box, **dict(panel.optimiser.options))
    errors = mixing_errors(fit.measure, truth, panel.weight)
    gap = model.predict(fit.measure, points) - model.predict(truth, points)
    return {
        "loss": _loss(panel, fit.measure),
        "loss_r1": errors.loss_1,
        "loss_voronoi": errors.loss_2,
        "loss_experts": errors.expert,
        "error_gates": errors.router,
        "error_weights": errors.weights,
        "error_single": errors.single,
        "error_shared": errors.shared,
        "cells_shared": int((np.bincount(errors.cells) > 1).sum()),
        "function_error": float(np.sqrt(np.mean(gap**2))),
        "start_loss": _loss(panel, start),
        "fit_loss": float(fit.loss),
        "truth_loss": float(np.mean((y - model.predict(truth, X)) ** 2)),
        "status": str(fit.status),
        "iterations": int(fit.iterations),
        "hit_bounds": bool(fit.at_bound.any()),
        "starts": 1,
        "theta": fit.measure.to_vector().tolist(),
    }


def _loss(panel: FlatPanel, G: MixingMeasure) -> float:
    if panel.limit is not None:
        return matched_errors(G, panel.limit)["total"]
    errors = mixing_errors(G, panel.truth, panel.weight)
    return errors.loss_1 if panel.split is None else errors.loss_2
