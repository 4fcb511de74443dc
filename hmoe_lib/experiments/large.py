"""One run at the size of the literature: d = 32 inputs, k* = 8 atoms, cosine and sigmoid gates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hmoe_lib.estimation import Box, fit_least_squares, fit_top_k
from hmoe_lib.experiments.checks import one_of
from hmoe_lib.experiments.density_studies import Study
from hmoe_lib.experiments.runner import generator
from hmoe_lib.gates import gate
from hmoe_lib.mixing import MixingMeasure
from hmoe_lib.mixing_losses import mixing_errors
from hmoe_lib.models import FlatModel

Array = np.ndarray

__all__ = ["LARGE", "LargeStudy"]

POINTS = 5000  # at which functions and routings are compared
BOX = 10.0  # bounds, in standard deviations of each block of the truth


@dataclass(frozen=True)
class _System:
    """Gate, expert, standard deviations of a true entry by block, and which routers are zero."""

    gate: str
    expert: str
    router: float
    bias: float
    zero: slice
    split: int | None
    options: tuple = ()

    def model(self) -> FlatModel:
        return FlatModel(gate(self.gate, **dict(self.options)), self.expert)


# Standard deviations of routers are multiples of d^(-1/2).
SYSTEMS = {
    "cosine": _System(
        "perturbed_cosine", "tanh", 0.1, 0.05, slice(-2, None), None, (("tau", 0.1), ("top", 2))
    ),
    "sigmoid": _System("sigmoid", "gelu", 1.0, 0.5, slice(0, 1), 0),
}


@dataclass(frozen=True)
class LargeStudy(Study):
    """Fits of one system at several sizes, one run a size.

    Parameters
    ----------
    name : str
        Origin of the random numbers and stem of the files.
    system : {"cosine", "sigmoid"}
        Perturbed cosine scores with a top-2 softmax and tanh experts, exactly fitted; or sigmoids
        without top-K and GELU experts, one atom too many, whose router is zero in the truth.
    sizes, runs : tuple of int, int
        Sample sizes, and data sets a size.
    dim, atoms : int
        d and k*.
    distance : float
        The start is the truth with every free entry moved by this times N(0, 1) times the standard
        deviation that entries of its block were drawn with: it is near the truth, for every n.
    noise_sd : float
        Standard deviation of the noise.
    most : int
        Largest number of steps of bounded least squares.

    Raises
    ------
    ValueError
        For an unknown system; the closest one is suggested.

    Notes
    -----
    The size is that of the experiments of arXiv 2405.14131 and 2405.13997; biases, experts of the
    second system and the start are ours.
    """

    name: str
    system: str
    sizes: tuple[int, ...]
    runs: int = 1
    dim: int = 32
    atoms: int = 8
    distance: float = 0.3
    noise_sd: float = 0.1
    most: int = 60

    def __post_init__(self) -> None:
        one_of("system", self.system, SYSTEMS)

    def settings(self) -> dict:
        """Return all that determines the numbers, as plain values."""
        return {**vars(self), "sizes": list(self.sizes)}

    def model(self) -> FlatModel:
        """Return gate and experts."""
        return SYSTEMS[self.system].model()

    def scales(self) -> dict[str, float]:
        """Return the standard deviations of true routers, biases and experts."""
        system, unit = SYSTEMS[self.system], self.dim**-0.5
        return {"router": system.router * unit, "bias": system.bias, "expert": unit}

    def truth(self) -> MixingMeasure:
        """Return the true measure: normal entries, some routers zero, biases of experts zero."""
        rng, scale, k = generator(self.name, "truth"), self.scales(), self.atoms
        router = scale["router"] * rng.standard_normal((k, self.dim))
        router[SYSTEMS[self.system].zero] = 0.0
        eta = scale["expert"] * rng.standard_normal((k, self.dim + 1))
        eta[:, -1] = 0.0
        pins = self.model().gate.pins(router)
        bias = np.where(pins[1], 0.0, scale["bias"] * rng.standard_normal(k))
        return MixingMeasure(router, bias, eta).pinned_for(pins)

    def start(self, rng: np.random.Generator) -> tuple[MixingMeasure, Box]:
        """Return a start and the box."""
        G, split = self.truth(), SYSTEMS[self.system].split
        G = G if split is None else G.split_atom(split, [0.5, 0.5], "sigmoid")
        sd = np.empty(G.shape.size)
        for block, scale in self.scales().items():
            sd[G.shape.slices[block]] = scale
        theta = G.to_vector()
        reach = np.maximum(BOX * sd, 2.0 * np.abs(theta))
        moved = theta + self.distance * sd * rng.standard_normal(sd.size)
        note = f"started at the truth, moved by {self.distance:g} standard deviations"
        box = Box(-reach, reach)
        return G.from_vector(box.clip(moved), note), box

    def replicate(self, n: int, rng: np.random.Generator) -> dict:
        """Draw one data set of size n, fit it, and return what is measured.

        ``fit_loss``, ``truth_loss`` and ``plain_loss``, that of bounded least squares from the
        same start, are mean squares; ``same`` is the share of new points with the routing of the
        truth, ``theta`` the fit.
        """
        model, truth = self.model(), self.truth()
        X = rng.uniform(-1.0, 1.0, (n, self.dim))
        y = model.sample(truth, X, self.noise_sd, rng=rng)
        start, box = self.start(rng)
        points = rng.uniform(-1.0, 1.0, (POINTS, self.dim))
        plain = fit_least_squares(model, X, y, start, box, max_iterations=self.most)
        top = getattr(model.gate, "top", None)
        fit = plain if top is None else fit_top_k(model, X, y, start, box)
        errors = self._errors(fit.measure, truth)
        gap = model.predict(fit.measure, points) - model.predict(truth, points)
        return {
            "loss_1": errors.loss_1,
            "loss_2": errors.loss_2,
            "start_loss": self._errors(start, truth).loss_1,
            "router": errors.router,
            "expert": errors.expert,
            "single": errors.single,
            "shared": errors.shared,
            "function": float(np.sqrt(np.mean(gap**2))),
            "fit_loss": float(fit.loss),
            "plain_loss": float(plain.loss),
            "truth_loss": float(np.mean((y - model.predict(truth, X)) ** 2)),
            "same": _same(model, fit.measure, truth, points),
            "converged": float(fit.converged),
            "at_bound": float(fit.at_bound.sum()),
            "theta": fit.measure.to_vector(),
        }

    def _errors(self, G: MixingMeasure, truth: MixingMeasure):
        top = getattr(self.model().gate, "top", None)
        return mixing_errors(G, truth, "sigmoid" if top is None else "exp", top)


def _same(model: FlatModel, G: MixingMeasure, truth: MixingMeasure, X: Array) -> float:
    """Share of points with the true set of selected atoms; NaN for a gate that keeps all."""
    if getattr(model.gate, "top", None) is None:
        return float("nan")
    one, other = (model.weights(measure, X) > 0 for measure in (G, truth))
    return float(np.mean(np.all(one == other, axis=1)))


LARGE = {
    "cosine": LargeStudy("large-cosine", "cosine", (2000, 8000)),
    "sigmoid": LargeStudy("large-sigmoid", "sigmoid", (2000, 8000, 32_000), most=200),
}
"""The two runs, by system."""
