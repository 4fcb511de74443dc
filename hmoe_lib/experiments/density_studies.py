"""Rates of maximum likelihood fits: what a study declares, and what one run of it measures."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

import numpy as np

from hmoe_lib.cell_losses import (
    gaussian_loss,
    multinomial_loss,
    over_fit_order,
)
from hmoe_lib.densities import GaussianMoE, MultinomialMoE, density_distance
from hmoe_lib.estimation import Box, fit_likelihood, likelihood_box, split_start
from hmoe_lib.experiments.config import Start
from hmoe_lib.gates import gate
from hmoe_lib.mixing import MixingMeasure
from hmoe_lib.mixing_losses import atom_cells

Array = np.ndarray

__all__ = ["GatedStudy", "RelativeStudy", "Study"]

NODES = 0.5  # t of the second start, along the direction that the likelihood sees least
DISTANCE_POINTS = 25  # inputs at which the fitted density is compared with the true one


class Study:
    """What the two kinds share: a name, sizes, runs, and a hash of all that is declared."""

    name: str
    sizes: tuple[int, ...]
    runs: int

    def settings(self) -> dict:
        """Return all that determines the numbers, as plain values."""
        raise NotImplementedError

    def replicate(self, n: int, rng: np.random.Generator) -> dict[str, float]:
        """Draw one data set of size n, fit it, and return what is measured."""
        raise NotImplementedError

    def hash(self) -> str:
        """Return sha256 of the canonical JSON of the settings."""
        text = json.dumps(self.settings(), sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class GatedStudy(Study):
    r"""Fits of one gated mixture at several sizes.

    Parameters
    ----------
    name : str
        Origin of its random numbers and stem of its files.
    truth : MixingMeasure
        The true measure.
    sizes : tuple of int
        Sample sizes.
    runs : int
        Data sets a size.
    gate, top : str, int or None
        The fitted gate, and K of a top-K gate; ``true_top`` is that of the truth.
    classes : int or None
        S for multinomial experts, None for normal ones.
    half : float
        Inputs are uniform on [-half, half]^d.
    split, copies : int or None, int
        Which true atom starts in how many copies.
    start : Start
        Distance of the start from the truth.
    nodes : bool
        Also start along the direction that the likelihood sees least, and keep the better fit.
    curvature : str
        Of :func:`fit_likelihood`.
    bound : float
        Routers, biases and slopes of classes lie in plus and minus this.
    """

    name: str
    truth: MixingMeasure
    sizes: tuple[int, ...]
    runs: int
    gate: str = "linear"
    top: int | None = None
    true_top: int | None = None
    classes: int | None = None
    half: float = 1.0
    split: int | None = None
    copies: int = 2
    start: Start = field(default_factory=lambda: Start(0.3, 0.083))
    nodes: bool = False
    curvature: str = "hessian"
    bound: float = 8.0

    def model(self, top: int | None = None):
        """Return the density with that K."""
        chosen = gate(self.gate) if top is None else gate(self.gate, top=top)
        return GaussianMoE(chosen) if self.classes is None else MultinomialMoE(self.classes, chosen)

    def settings(self) -> dict:
        """Return all that determines the numbers, as plain values."""
        plain = {key: value for key, value in vars(self).items() if key not in ("truth", "start")}
        return {
            **plain,
            "sizes": list(self.sizes),
            "truth": json.loads(self.truth.to_json()),
            "start": vars(self.start),
        }

    def replicate(self, n: int, rng: np.random.Generator) -> dict[str, float]:
        """Draw one data set of size n, fit it, and return what is measured."""
        source, model = self.model(self.true_top), self.model(self.top)
        truth = source.pinned(self.truth)
        X = rng.uniform(-self.half, self.half, (n, truth.router.shape[1]))
        y = source.sample(truth, X, rng=rng)
        begun = self.starts(model, truth, n, rng)
        box = _common_box(model, begun, y, self.bound)
        fits = [fit_likelihood(model, X, y, s, box, self.curvature) for s in begun]
        fit = max(fits, key=lambda f: f.log_likelihood)
        points = rng.uniform(-self.half, self.half, (DISTANCE_POINTS, X.shape[1]))
        return {
            "loss": self.loss(fit.measure, truth),
            "start_loss": self.loss(begun[0], truth),
            "density": _density_error(model, source, fit.measure, truth, points),
            "gain": fit.log_likelihood - float(source.log_density(truth, X, y).sum()),
            "converged": float(fit.converged),
            "iterations": float(fit.iterations),
            **self.errors(fit.measure, truth),
        }

    def starts(self, model, truth: MixingMeasure, n: int, rng: np.random.Generator) -> list:
        """Return the starts of one data set."""
        distance = self.start.distance(n)
        found = [split_start(model, truth, self.split, self.copies, distance, rng=rng)]
        if self.nodes:
            found.append(
                split_start(model, truth, self.split, self.copies, distance / 3, NODES, rng=rng)
            )
        return found

    def loss(self, G: MixingMeasure, truth: MixingMeasure) -> float:
        """Return the loss of the family."""
        if self.classes is not None:
            return multinomial_loss(G, truth)
        return gaussian_loss(G, truth, top=self.true_top)

    def errors(self, G: MixingMeasure, truth: MixingMeasure) -> dict[str, float]:
        """Return the errors of the parts of the parameters in the cell of the split atom.

        Root mean squares with the relative weights of the cell's atoms; without a split over all
        atoms. For a temperature, also the log ratio to the truth and the errors of router / tau.
        """
        cells = atom_cells(G, truth)
        at = np.arange(G.atoms) if self.split is None else np.flatnonzero(cells == self.split)
        if not len(at):  # a fit that left the cell: its distance is that of the nearest atom
            at = np.argmin(np.abs(G.expert - truth.expert[self.split]).sum(axis=1))[None]
        target = cells[at] if self.split is None else np.full(len(at), self.split)
        w = np.exp(G.bias[at] - G.bias[at].max())
        w = w / w.sum() if self.split is not None else np.full(len(at), 1.0 / len(at))
        delta = G.expert[at] - truth.expert[target]
        router = np.linalg.norm(G.router[at] - truth.router[target], axis=1)
        found = {"router": _rms(w, router), "members": float(len(at))}
        if self.classes is None:
            nu = np.exp(G.expert[at, -1]) - np.exp(truth.expert[target, -1])
            slope = np.linalg.norm(delta[:, :-2], axis=1)
            m = over_fit_order(len(at)) if self.split is not None else 2
            found |= {
                "a": _rms(w, slope),
                "b": _rms(w, delta[:, -2]),
                "nu": _rms(w, nu),
                "b_power": float(w @ np.abs(delta[:, -2]) ** m),
                "nu_power": float(w @ np.abs(nu) ** (m / 2)),
            }
        else:
            rows = delta.reshape(len(at), self.classes - 1, -1)
            found["d"] = _rms(w, np.linalg.norm(rows[..., :-1], axis=(1, 2)))
            found["l"] = _rms(w, np.linalg.norm(rows[..., -1], axis=1))
        if len(G.shared):
            tau, true_tau = float(G.shared[0]), float(truth.shared[0])
            gap = np.linalg.norm(G.router / tau - truth.router / true_tau, axis=1)
            expert = np.linalg.norm(G.expert - truth.expert, axis=1)
            whole = np.linalg.norm(G.to_vector() - truth.to_vector())
            found |= {
                "log_tau": abs(float(np.log(tau / true_tau))),
                "identifiable": float(np.sqrt((gap**2).sum() + (expert**2).sum())),
                "all": float(whole),
            }
        return found


class RelativeStudy(GatedStudy):
    """The same with a start whose entries are those of the truth times 1 + distance U(-1, 1)."""

    def settings(self) -> dict:
        """Return all that determines the numbers, as plain values."""
        return {**super().settings(), "relative": True}

    def starts(self, model, truth: MixingMeasure, n: int, rng: np.random.Generator) -> list:
        """Return the one start of a data set."""
        theta, distance = truth.to_vector(), self.start.distance(n)
        moved = theta * (1.0 + distance * rng.uniform(-1.0, 1.0, theta.size))
        note = f"started at the truth, each entry within {distance:.3g} of itself"
        return [truth.from_vector(moved, note=note)]


def _common_box(model, begun, y: Array, bound: float) -> Box:
    """One box for all starts of a data set: the widest, so that none is cut."""
    factor = 3.0 if model.classes is None else bound / 10.0
    boxes = [likelihood_box(model, start, y, bound, factor) for start in begun]
    return Box(
        np.min([box.lower for box in boxes], axis=0), np.max([box.upper for box in boxes], axis=0)
    )


def _density_error(model, source, G: MixingMeasure, truth: MixingMeasure, X: Array) -> float:
    """Mean Hellinger distance between fit and truth; their gates may keep different K."""
    if model.gate.top == source.gate.top:
        return density_distance(model, G, truth, X, "hellinger").value
    return float("nan")


def _rms(w: Array, values: Array) -> float:
    return float(np.sqrt(w @ np.asarray(values) ** 2))
