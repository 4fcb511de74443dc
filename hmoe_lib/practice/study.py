"""The study: ten variants, three seeds, one stored result, and intervals over seeds."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from hmoe_lib.practice import store
from hmoe_lib.practice.config import VARIANTS, Config, get_variant
from hmoe_lib.practice.measures import FIELDS, measure
from hmoe_lib.practice.text import Text, python_reference
from hmoe_lib.practice.training import train, validation_windows

Array = np.ndarray

__all__ = [
    "SEEDS",
    "WEIGHTS",
    "Interval",
    "PracticeResult",
    "collect",
    "load_practice",
    "load_weights",
    "run_one",
    "run_practice",
    "t_interval",
]

SEEDS = (0, 1, 2)
WEIGHTS = ("none", "setting-II")
"""Variants whose trained weights are stored, seed 0, in float16: the third chapter reads them."""
FORMAT = "hmoe practice 1"
MEASURED_WINDOWS = 32


class Interval(NamedTuple):
    """A mean over seeds with its 95 % interval.

    Parameters
    ----------
    mean, low, high : float
        By Student's t with one degree of freedom less than there are seeds.
    """

    mean: float
    low: float
    high: float

    @property
    def decided(self) -> bool:
        """Whether zero is outside the interval."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def t_interval(values, level: float = 0.95) -> Interval:
    r"""Return the mean of a few values with Student's interval.

    Parameters
    ----------
    values : array_like, shape (n,)
        At least two numbers, one a seed.
    level : float, default 0.95
        Coverage, if the values are independent and normal.

    Raises
    ------
    ValueError
        For fewer than two values, or any that is not finite.

    Notes
    -----
    :math:`\bar v \pm t_{n-1}\, s / \sqrt n`. With three seeds :math:`t_2 = 4.30`: the interval is
    honest about how little three runs say, and wide.

    Examples
    --------
    >>> print(t_interval([1.0, 2.0, 3.0]))
    2.000 [-0.484, 4.484]
    """
    values = np.asarray(values, dtype=float)
    if values.ndim != 1 or len(values) < 2 or not np.all(np.isfinite(values)):
        raise ValueError(f"values: expected at least two finite numbers, got {values}")
    spread = values.std(ddof=1) / np.sqrt(len(values))
    half = float(stdtrit(len(values) - 1, 0.5 + level / 2) * spread)
    middle = float(values.mean())
    return Interval(middle, middle - half, middle + half)


@dataclass(frozen=True)
class PracticeResult:
    """A stored study.

    Attributes
    ----------
    config : Config
        What all runs share; its variant and seed are those of the first.
    variants, seeds : tuple
        The axes of the arrays.
    values : dict of ndarray, shape (variants, seeds, ...)
        "losses" (steps), "validation" (every so many steps), "validation_loss", "seconds", and
        the fields of FIELDS (layers).
    about : dict
        Text and its hash, versions, date.
    """

    config: Config
    variants: tuple[str, ...]
    seeds: tuple[int, ...]
    values: dict[str, Array]
    about: dict

    def of(self, field: str, variant: str) -> Array:
        """Return a field of one variant, (seeds, ...)."""
        if field not in self.values:
            raise ValueError(f"field: {field!r} is not stored; known: {', '.join(self.values)}")
        if variant not in self.variants:
            raise ValueError(f"variant: {variant!r} is not stored; {', '.join(self.variants)} are")
        return self.values[field][self.variants.index(variant)]

    def interval(self, field: str, variant: str) -> Interval:
        """Return mean and interval over seeds of a field with one number a run.

        A field with one number a layer is averaged over layers first.
        """
        return t_interval(_one_a_run(self.of(field, variant)))

    def difference(self, field: str, variant: str, against: str = "none") -> Interval:
        """Return the difference of two variants, paired by seed, with its interval.

        Runs of one seed share their start, as far as they share matrices, and their batches.
        """
        pair = [_one_a_run(self.of(field, name)) for name in (variant, against)]
        return t_interval(pair[0] - pair[1])


def _one_a_run(values: Array) -> Array:
    return values if values.ndim == 1 else values.reshape(len(values), -1).mean(axis=1)


def run_one(config: Config, text: Text, folder: str | Path, progress: bool = True) -> dict:
    """Train and measure one model, or read what was stored of it before.

    Parameters
    ----------
    config : Config
        Variant, seed and sizes.
    text : Text
        What it learns.
    folder : str or Path
        Of checkpoints and finished runs.
    progress : bool, default True
        A bar on stderr.

    Returns
    -------
    dict of ndarray
        One run's share of the values of a PracticeResult, and its weights.
    """
    stored = _finished(config, text, folder)
    if stored is not None:
        return stored
    began = time.process_time()
    trained = train(config, text, folder, progress)
    arrays = {
        "losses": trained.losses,
        "validation": trained.validation,
        "validation_loss": np.array(trained.validation_loss),
    }
    some = validation_windows(config, text, MEASURED_WINDOWS)
    arrays |= measure(config, trained.weights, some)
    arrays["seconds"] = np.array(time.process_time() - began)
    arrays |= {f"weights.{name}": value for name, value in trained.weights.items()}
    about = {"format": FORMAT, "config": config.to_dict(), **store.manifest(text)}
    store.save_arrays(config.stem, about, arrays, folder)
    store.forget_checkpoints(config, folder)
    return arrays


def _finished(config: Config, text: Text, folder) -> dict | None:
    try:
        about, arrays = store.load_arrays(config.stem, folder)
    except (FileNotFoundError, store.DamagedResultError):
        return None
    same = about["config"] == config.to_dict() and about["text_sha256"] == text.sha256
    return arrays if same else None


def run_practice(
    variants: Iterable[str] = tuple(VARIANTS),
    seeds: Iterable[int] = SEEDS,
    config: Config | None = None,
    text: Text | None = None,
    folder: str | Path | None = None,
    progress: bool = True,
) -> Path:
    """Train and measure every variant with every seed; what is finished is not done again.

    Parameters
    ----------
    variants : iterable of str
        Keys of VARIANTS.
    seeds : iterable of int
        Seed after seed: a study that was stopped has the same seeds of all variants, but for one.
    config : Config, optional
        Sizes; those of the book by default.
    text : Text, optional
        The Python language reference by default.
    folder : str or Path, optional
        Of checkpoints and finished runs; ``practice`` in the cache by default.
    progress : bool, default True
        A bar a run.

    Returns
    -------
    Path
        The folder, for :func:`collect`.
    """
    config, text, folder = _defaults(config, text, folder)
    variants = tuple(variants)
    for seed in seeds:
        for variant in variants:
            run_one(replace(config, variant=variant, seed=seed), text, folder, progress)
    return folder


def _defaults(config, text, folder) -> tuple[Config, Text, Path]:
    config = Config() if config is None else config
    text = python_reference() if text is None else text
    return config, text, Path(folder or store.cache_folder() / "practice")


def collect(
    out: str | Path,
    variants: Iterable[str] = tuple(VARIANTS),
    seeds: Iterable[int] = SEEDS,
    config: Config | None = None,
    text: Text | None = None,
    folder: str | Path | None = None,
) -> None:
    """Put finished runs into one stored result, practice.npz and .json, and the weights beside it.

    Parameters
    ----------
    out : str or Path
        Where the book keeps results.
    variants, seeds, config, text, folder
        As for :func:`run_practice`.

    Raises
    ------
    ValueError
        If a run is not finished.
    """
    config, text, folder = _defaults(config, text, folder)
    variants, seeds = tuple(variants), tuple(seeds)
    runs, about = [], {}
    for variant in variants:
        for seed in seeds:
            one = replace(config, variant=variant, seed=seed)
            if _finished(one, text, folder) is None:
                raise ValueError(f"run: {variant} with seed {seed} is not finished in {folder}")
            about, arrays = store.load_arrays(one.stem, folder)
            runs.append(arrays)
            if variant in WEIGHTS and seed == seeds[0]:
                _store_weights(one, arrays, about, out)
    shape = len(variants), len(seeds)
    fields = ["losses", "validation", "validation_loss", "seconds", *FIELDS]
    values = {f: np.stack([run[f] for run in runs]).astype(np.float32) for f in fields}
    values = {name: array.reshape(*shape, *array.shape[1:]) for name, array in values.items()}
    about = {
        **about,
        "config": replace(config, variant=variants[0], seed=seeds[0]).to_dict(),
        "variants": variants,
        "seeds": seeds,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    store.save_arrays("practice", about, values, out)


def _store_weights(config: Config, arrays: dict, about: dict, out) -> None:
    weights = {
        name.removeprefix("weights."): value.astype(np.float16)
        for name, value in arrays.items()
        if name.startswith("weights.")
    }
    about = {**about, "validation_loss": float(arrays["validation_loss"])}
    store.save_arrays(f"practice-weights-{config.variant}", about, weights, out)


def load_practice(folder: str | Path) -> PracticeResult:
    """Read the stored study, after checking that it is whole.

    Parameters
    ----------
    folder : str or Path
        Where it is.

    Raises
    ------
    FileNotFoundError, DamagedResultError
        If a file is missing, or is not what was written.
    StaleResultError
        If it was made with other sizes than those of the book.
    """
    about, values = store.load_arrays("practice", folder)
    config = _checked(about, "practice")
    return PracticeResult(config, tuple(about["variants"]), tuple(about["seeds"]), values, about)


def load_weights(variant: str, folder: str | Path) -> tuple[Config, dict[str, Array], dict]:
    """Return a stored trained model: its config, its weights in float64, and its manifest.

    Parameters
    ----------
    variant : str
        One of WEIGHTS.
    folder : str or Path
        Where the results are.

    Raises
    ------
    ValueError
        For a variant that is not stored.
    FileNotFoundError, DamagedResultError, StaleResultError
        As for :func:`load_practice`.
    """
    get_variant(variant)
    if variant not in WEIGHTS:
        raise ValueError(f"variant: weights of {', '.join(WEIGHTS)} are stored, not of {variant}")
    about, arrays = store.load_arrays(f"practice-weights-{variant}", folder)
    config = _checked(about, f"practice-weights-{variant}")
    return config, {name: value.astype(float) for name, value in arrays.items()}, about


def _checked(about: dict, stem: str) -> Config:
    if about.get("format") != FORMAT:
        raise store.DamagedResultError(f"{stem}: format {about.get('format')!r}, not {FORMAT!r}")
    config = Config(**about["config"])
    expected = Config(variant=config.variant, seed=config.seed)
    if config != expected:
        raise store.StaleResultError(f"{stem}: stored with other sizes; run the study again")
    return config
