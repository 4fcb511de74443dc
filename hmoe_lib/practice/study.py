"""The study: ten variants, three seeds, and one stored result of their runs."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from hmoe_lib.practice import store
from hmoe_lib.practice.config import VARIANTS, Config
from hmoe_lib.practice.measures import FIELDS, measure
from hmoe_lib.practice.result import FORMAT, WEIGHTS
from hmoe_lib.practice.text import Text, python_reference
from hmoe_lib.practice.training import train, validation_windows

Array = np.ndarray

__all__ = ["SEEDS", "collect", "run_one", "run_practice"]

SEEDS = (0, 1, 2)
MEASURED_WINDOWS = 32


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
