"""What a run of an experiment returns: one row a replicate, and the fitted parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from hmoe_lib.experiments.checks import one_of
from hmoe_lib.experiments.config import Experiment
from hmoe_lib.experiments.flat import FlatPanel
from hmoe_lib.experiments.rates import STATISTICS, SlopeTable, slope
from hmoe_lib.measures import HierarchicalMeasure, Shape
from hmoe_lib.mixing import MixingMeasure

Array = np.ndarray

__all__ = ["ROW", "ExperimentResult"]

# Everything in a row is a function of the config alone; times are kept apart.
ROW = np.dtype(
    [
        ("panel", "U40"),
        ("n", "i8"),
        ("replicate", "i8"),
        ("loss", "f8"),  # the panel's own loss, L_{1,1} or L_2
        ("loss_r1", "f8"),  # L_{1,1}
        ("loss_voronoi", "f8"),  # L_2
        ("loss_experts", "f8"),  # E_2, cells of experts; the next five are its parts
        ("error_gates", "f8"),  # M
        ("error_weights", "f8"),  # omega, summed over cells
        ("error_single", "f8"),  # a, experts fitted once
        ("error_shared", "f8"),  # a, experts fitted several times, power 1
        ("error_shared_squared", "f8"),  # ... and power 2
        ("cells_shared", "i8"),
        ("error_combinations", "f8"),  # M, d and C: all that plain attention shows
        ("function_error", "f8"),  # root mean square over the grid
        ("start_loss", "f8"),  # the panel's loss at the start
        ("fit_loss", "f8"),  # mean squared residual
        ("truth_loss", "f8"),  # mean squared residual of the truth, on the same data
        ("status", "U24"),
        ("iterations", "i8"),  # of all starts together
        ("hit_bounds", "?"),
        ("starts", "i8"),  # fits from different starts, of which the row is the best
        ("reached", "i8"),  # ... that fit the data at least as well as the truth
    ]
)

_ABSENT = {"f": np.nan, "i": 0, "U": "", "b": False}  # what a flat panel's rows do not have


@dataclass(frozen=True, eq=False)
class ExperimentResult:
    """The rows of an experiment in a fixed order, with fitted parameters and circumstances.

    Parameters
    ----------
    config : Experiment
        What was run.
    rows : ndarray, shape (R,), structured
        A row a replicate, by panel, n, replicate, with the fields of ROW.
    theta : ndarray, shape (R, P)
        Fitted parameter vectors, padded with NaN to the longest.
    seconds : ndarray, shape (R,)
        Time of each replicate; not part of the digest.
    versions : mapping
        Of Python, numpy, scipy and this library.
    date : str
        When the run ended, UTC, ISO format.
    history : ndarray, shape (R, E), optional
        Mean squared residual at the E epochs of the config; NaN after a fit's last step.

    Raises
    ------
    ValueError
        If a row is missing, double or out of order.
    """

    config: Experiment
    rows: Array
    theta: Array
    seconds: Array
    versions: Mapping[str, str]
    date: str
    history: Array | None = None

    def __post_init__(self) -> None:
        expected = list(keys(self.config))
        got = [(str(row["panel"]), int(row["n"]), int(row["replicate"])) for row in self.rows]
        if got != expected:
            raise ValueError(
                f"rows: expected the {len(expected)} replicates of {self.config.stem} in order, "
                f"got {len(got)}"
            )
        if self.history is None:
            object.__setattr__(self, "history", np.full((len(got), 0), np.nan))
        for name in ("theta", "seconds", "history"):
            if len(getattr(self, name)) != len(got):
                raise ValueError(
                    f"{name}: expected {len(got)} rows, got {len(getattr(self, name))}"
                )

    @classmethod
    def from_records(
        cls, config: Experiment, records: Iterable[dict], versions: Mapping[str, str], date: str
    ) -> ExperimentResult:
        """Make a result from the replicates' records, in whatever order they came."""
        found = {(r["panel"], r["n"], r["replicate"]): r for r in records}
        ordered = [found[key] for key in keys(config) if key in found]
        rows = np.zeros(len(ordered), dtype=ROW)
        theta = np.full((len(ordered), max((len(r["theta"]) for r in ordered), default=0)), np.nan)
        for index, record in enumerate(ordered):
            rows[index] = tuple(record.get(name, _ABSENT[ROW[name].kind]) for name in ROW.names)
            theta[index, : len(record["theta"])] = record["theta"]
        seconds = np.array([r["seconds"] for r in ordered], dtype=float)
        none = [np.nan] * len(config.epochs)
        history = np.array([r.get("history", none) for r in ordered], dtype=float)
        history = history.reshape(len(ordered), len(config.epochs))
        return cls(config, rows, theta, seconds, dict(versions), date, history)

    def panel(self, name: str) -> Array:
        """Return the rows of one panel."""
        self.config.panel(name)
        return self.rows[self.rows["panel"] == name]

    def values(self, panel: str, field: str = "loss") -> tuple[Array, Array]:
        """Return a panel's sizes (S,) and a field of its runs (S, R).

        Raises
        ------
        ValueError
            For an unknown panel or field; the closest one is suggested.
        """
        one_of("field", field, ROW.names)
        rows = self.panel(panel)
        return np.array(self.config.sizes), rows[field].reshape(-1, self.config.replicates)

    def alone(self, panel: str) -> ExperimentResult:
        """Return the result of one panel."""
        at = self.rows["panel"] == panel
        return ExperimentResult(
            self.config.select(panel),
            self.rows[at],
            self.theta[at],
            self.seconds[at],
            self.versions,
            self.date,
            self.history[at],
        )

    def measure(self, panel: str, n: int, replicate: int) -> HierarchicalMeasure | MixingMeasure:
        """Return the fitted measure of one replicate."""
        at = (self.rows["panel"] == panel) & (self.rows["n"] == n)
        (index,) = np.nonzero(at & (self.rows["replicate"] == replicate))
        if index.size == 0:
            raise ValueError(f"replicate: there is no {panel}, n = {n}, replicate {replicate}")
        chosen = self.config.panel(panel)
        if isinstance(chosen, FlatPanel):
            origin = chosen.origin()
            return origin.from_vector(self.theta[index[0], : origin.shape.size])
        truth = chosen.truth
        H, N, K, d = Shape(truth.heads, truth.experts, chosen.channels, truth.dim)
        blank = HierarchicalMeasure(
            np.zeros((H, K)), np.zeros((H, N, d, d)), np.zeros((H, N, K, d))
        )
        return blank.from_vector(self.theta[index[0], : blank.shape.size])

    def slopes(
        self,
        field: str = "loss",
        rng: np.random.Generator | None = None,
        level: float = 0.95,
        resamples: int = 2000,
    ) -> SlopeTable:
        """Return the slopes of mean and median of every panel, with bootstrap intervals.

        Parameters
        ----------
        field : str, default "loss"
            Any positive field of the rows, such as "function_error".
        rng : numpy.random.Generator, optional
            By default one made from the experiment's name and each panel's, so that the same
            result always shows the same intervals, alone or beside other panels.
        level, resamples : float, int
            See :func:`hmoe_lib.experiments.slope`.

        Raises
        ------
        ValueError
            For fewer than five sizes and for losses that are not positive and finite.
        """
        # Only the runner makes generators, and it imports this module.
        from hmoe_lib.experiments.runner import generator

        table = SlopeTable()
        for panel in self.config.panels:
            chosen = rng or generator(self.config.name, "bootstrap", panel.name, field)
            sizes, values = self.values(panel.name, field)
            table[panel.name] = {
                statistic: slope(sizes, values, chosen, statistic, level, resamples)
                for statistic in STATISTICS
            }
        return table

    def digest(self) -> str:
        """Return sha256 of rows and fitted parameters: equal digests are equal results."""
        mark = hashlib.sha256(self.config.hash().encode())
        for name in ROW.names:
            mark.update(np.ascontiguousarray(self.rows[name]).tobytes())
        mark.update(np.ascontiguousarray(self.theta).tobytes())
        mark.update(np.ascontiguousarray(self.history).tobytes())
        return mark.hexdigest()

    def __repr__(self) -> str:
        counts = dict(zip(*np.unique(self.rows["status"], return_counts=True), strict=True))
        status = ", ".join(f"{count} {name}" for name, count in counts.items())
        return f"ExperimentResult({self.config.stem}: {len(self.rows)} replicates; {status})"


def keys(config: Experiment):
    """Yield (panel, n, replicate) of every replicate, in the order of the rows."""
    for panel in config.panels:
        for n in config.sizes:
            for replicate in range(config.replicates):
                yield panel.name, n, replicate
