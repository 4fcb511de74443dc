"""Run an experiment: replicates in parallel, each with random numbers of its own, resumable.

The only module that makes random generators.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hmoe_lib.blocks import BLOCK_SIZE, Block, Samples, Stream
from hmoe_lib.estimation import (
    Box,
    fit_gradient_descent,
    fit_least_squares,
    near_truth_start,
    random_start,
)
from hmoe_lib.experiments import store as files
from hmoe_lib.experiments.catalogue import get
from hmoe_lib.experiments.checks import integer, one_of
from hmoe_lib.experiments.config import Experiment, Optimiser, Panel
from hmoe_lib.experiments.distances import distances, losses
from hmoe_lib.experiments.engine import Engine, LostWorkerError, one_thread
from hmoe_lib.experiments.flat import FlatPanel, flat_record
from hmoe_lib.experiments.journal import Journal
from hmoe_lib.experiments.result import ExperimentResult, keys
from hmoe_lib.experiments.versions import versions
from hmoe_lib.measures import HierarchicalMeasure
from hmoe_lib.models.base import HierarchicalModel

Array = np.ndarray

__all__ = ["LostWorkerError", "generator", "grid", "replicate", "run"]

_ESTIMATORS = {
    "least_squares": fit_least_squares,
    "gradient_descent": fit_gradient_descent,
}


SPREADS = ("replicates", "blocks")


def run(
    experiment: str | Experiment,
    quick: bool = False,
    jobs: int = 2,
    progress: bool = True,
    store: str | Path | None = None,
    resume: bool = True,
    panels: str | Iterable[str] | None = None,
    cache: bool = False,
    scheduler: str | None = None,
    spread: str = "replicates",
) -> ExperimentResult:
    """Run an experiment of the catalogue, or one of the reader's.

    Parameters
    ----------
    experiment : str or Experiment
        A name of the catalogue, or a config.
    quick : bool, default False
        The coarse version: it shows that everything works, not the rate.
    jobs : int, default 2
        Workers, at least 1. Any number gives the same bits.
    progress : bool, default True
        A bar on standard error.
    store : str or Path, optional
        Folder into which the result is written as NAME.npz and NAME.json.
    resume : bool, default True
        Go on from the replicates that a stopped run of the same config by the same code left.
    panels : str or sequence of str, optional
        These panels only; their numbers are those of the full run.
    cache : bool, default False
        Take the result from the local cache if it is there, and keep it there.
    scheduler : str, optional
        Address of a Dask scheduler whose workers compute, instead of processes of this machine.
    spread : {"replicates", "blocks"}, default "replicates"
        What workers share: the replicates, or the blocks of the data of one fit after the other.

    Returns
    -------
    ExperimentResult
        One row a replicate, in a fixed order.

    Raises
    ------
    ValueError
        For an unknown experiment or panel (the closest one is suggested) and for jobs < 1.
    OSError
        If the folder of the result cannot be written or the scheduler does not answer, before
        anything is computed.
    BusyError
        If another process runs the same experiment in the same cache folder.
    LostWorkerError
        If workers were lost three times without a result in between, or the scheduler was.

    Notes
    -----
    Replicate r at size n draws its data and its start from ``SeedSequence([hash of the
    experiment's name, n, r])``: all panels of a replicate see the same inputs and noise, and no
    number depends on which other replicates run. The engine is joblib's and can be exchanged with
    ``joblib.parallel_config``; each replicate computes with one BLAS thread in every engine. Sums
    over the blocks of a sample are added in a fixed order, so that no way to spread the work
    changes a bit.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from hmoe_lib.experiments import get, run
    >>> tiny = replace(get("figure1").select("mha-K3"), sizes=(300,), replicates=1)
    >>> result = run(tiny, jobs=1, progress=False, resume=False)
    >>> result.rows["panel"], result.rows["loss"] > 0
    (array(['mha-K3'], dtype='<U40'), array([ True]))
    """
    config = get(experiment) if isinstance(experiment, str) else experiment
    if not isinstance(config, Experiment):
        raise ValueError(f"experiment: expected a name or an Experiment, got {experiment!r}")
    one_of("spread", spread, SPREADS)
    engine = Engine(jobs, scheduler)
    config = config.select(panels)
    config = config.quick() if quick else config
    if store is not None:
        files.check_folder(store)
    journal = Journal(config)
    # Who asks for a cached result waits for the run that is computing it.
    with journal.locked(wait=cache):
        result = files.cached(config) if cache else None
        if result is None:
            work = partial(_records, engine, spread)
            with engine:
                result = _computed(config, journal, work, progress, resume)
            if cache:
                files.remember(result)
        if store is not None:
            files.save(result, store)
        journal.remove()  # not before the result is safe
    return result


def replicate(
    config: Experiment, panel: str, n: int, number: int, engine: Engine | None = None
) -> dict:
    """Compute one replicate: the same numbers as in a full run, to the last bit.

    Parameters
    ----------
    config : Experiment
        Gives name, noise and grid; its sizes and number of replicates do not matter.
    panel : str
        Name of the panel.
    n : int
        Sample size.
    number : int
        Which replicate, from 0.
    engine : Engine, optional
        Computes the blocks of the fit; by default this process does.

    Returns
    -------
    dict
        The fields of a row, with the fitted vector ``theta`` and ``seconds``.
    """
    began = time.perf_counter()
    chosen = config.panel(panel)
    record = one_thread(_fitted, config, chosen, n, number, engine)
    return {**record, "seconds": time.perf_counter() - began}


def generator(*origin: str | int) -> np.random.Generator:
    """Return the random generator of an origin, such as (experiment, n, replicate)."""
    return np.random.default_rng(_seed(*origin))


def grid(points: int, dim: int) -> Array:
    """Return the midpoints of a regular grid on [-1, 1]^d, shape (points^d, d).

    Examples
    --------
    >>> grid(2, 1).ravel()
    array([-0.5,  0.5])
    """
    integer("points", points, least=1)
    integer("dim", dim, least=1)
    line = (np.arange(points) + 0.5) * (2.0 / points) - 1.0
    return np.stack(np.meshgrid(*[line] * dim, indexing="ij"), axis=-1).reshape(-1, dim)


# ---- one replicate -------------------------------------------------------------------------------


def _fitted(
    config: Experiment, panel: Panel, n: int, number: int, engine: Engine | None = None
) -> dict:
    data, start_rng = map(np.random.default_rng, _seed(config.name, n, number).spawn(2))
    if isinstance(panel, FlatPanel):
        points = panel.width * _points(config.grid, panel.dim)
        record = flat_record(panel, n, config.noise_sd, points, data, start_rng)
        return {"panel": panel.name, "n": n, "replicate": number, **record}
    model, truth = panel.model(), panel.truth
    samples = _samples(config, panel, n, number, data)
    samples.map = map if engine is None else engine.map
    box, estimator = _box(panel), _ESTIMATORS[panel.optimiser.name]
    fits = []
    for _ in range(panel.start.count):
        start = _start(panel, n, box, start_rng)
        options = dict(panel.optimiser.options)
        fits.append((start, estimator(model, samples, None, start, bounds=box, **options)))
    start, fit = min(fits, key=lambda pair: pair[1].loss)
    truth_loss = float(model.loss_at(truth.to_vector(), truth.shape, samples))
    points = grid(config.grid, truth.dim)
    found = {}  # where a fit never began, what measures it stays absent from its row
    if fit.status != "diverged":
        found = distances(panel, model, fit.measure, points)
        found["start_loss"] = losses(model, start, truth, points)[panel.loss]
    return {
        "panel": panel.name,
        "n": n,
        "replicate": number,
        **found,
        "fit_loss": float(fit.loss),
        "truth_loss": truth_loss,
        "status": str(fit.status),
        "iterations": sum(int(other.iterations) for _, other in fits),
        "hit_bounds": bool(fit.at_bound.any()),
        "starts": len(fits),
        "reached": sum(bool(other.loss <= truth_loss) for _, other in fits),
        "theta": fit.measure.to_vector().tolist(),
        "history": [_loss_after(epoch, fit.history) for epoch in config.epochs],
    }


def _loss_after(epoch: int, history: np.ndarray) -> float:
    return float(history[epoch]) if epoch < len(history) else np.nan


def _samples(
    config: Experiment, panel: Panel, n: int, number: int, data: np.random.Generator
) -> Samples:
    """Data of one replicate: held in memory, or drawn anew at every look."""
    model, truth = panel.model(), panel.truth
    noise_sd = config.noise_sd if panel.noise_sd is None else panel.noise_sd
    if config.streamed:
        return Stream(_Draw(model, truth, noise_sd, (config.name, n, number)), n)
    return Samples(*model.sample(truth, n, noise_sd=noise_sd, rng=data))


def _points(points: int, dim: int) -> Array:
    """A grid on the cube where it can be held, else 10,000 points that are always the same."""
    if points**dim <= 1_000_000:
        return grid(points, dim)
    return generator("points of a cube", dim).uniform(-1.0, 1.0, (10_000, dim))


@dataclass(frozen=True)
class _Draw:
    """Draws block after block: each has random numbers of its own, so that no order matters."""

    model: HierarchicalModel
    truth: HierarchicalMeasure
    noise_sd: float
    origin: tuple[str | int, ...]

    def __call__(self, index: int) -> Block:
        rng = generator(*self.origin, "block", index)
        return self.model.sample_block(self.truth, BLOCK_SIZE, self.noise_sd, rng=rng)


def _start(panel: Panel, n: int, box: Box | None, rng: np.random.Generator):
    """Draw one start of the panel's kind."""
    truth, start = panel.truth, panel.start
    if start.kind == "near":
        return near_truth_start(truth, panel.channels, start.distance(n), rng=rng, bounds=box)
    # Without a finite box of the fit's own, starts are drawn from the one fits usually have.
    finite = box is not None and np.isfinite(box.upper).all()
    drawn = box if finite else Box.around(truth, Optimiser().box, channels=panel.channels)
    shape = truth.shape._replace(channels=panel.channels)
    return random_start(shape, start.constant, bounds=drawn, rng=rng)


def _box(panel: Panel) -> Box | None:
    if panel.optimiser.box is None:
        return None
    if panel.optimiser.box == "open":
        return Box.nonnegative_weights(panel.truth, channels=panel.channels)
    return Box.around(panel.truth, panel.optimiser.box, channels=panel.channels)


def _seed(*origin: str | int) -> np.random.SeedSequence:
    # Python's own hash() of a text changes from process to process.
    words = [
        int.from_bytes(hashlib.sha256(part.encode()).digest()[:8])
        if isinstance(part, str)
        else part
        for part in origin
    ]
    return np.random.SeedSequence(words)


# ---- many replicates -----------------------------------------------------------------------------


def _computed(
    config: Experiment, journal: Journal, work: Callable, progress: bool, resume: bool
) -> ExperimentResult:
    if not resume:
        journal.remove()
    records = {_key(record): record for record in journal.records()}
    # The slowest first: no worker is left alone with a long fit at the end.
    todo = sorted((key for key in keys(config) if key not in records), key=lambda key: -key[1])
    with tqdm(
        total=len(todo) + len(records),
        initial=len(records),
        disable=not progress,
        desc=config.stem,
        unit="fit",
    ) as bar:
        for record in work(config, todo):
            journal.append(record)
            records[_key(record)] = record
            bar.update()
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return ExperimentResult.from_records(config, records.values(), versions(), date)


def _records(engine: Engine, spread: str, config: Experiment, todo: list) -> Iterator[dict]:
    if spread == "replicates":
        return engine.unordered(replicate, [(config, *key) for key in todo])
    return (replicate(config, *key, engine) for key in todo)


def _key(record: dict) -> tuple[str, int, int]:
    return record["panel"], record["n"], record["replicate"]
