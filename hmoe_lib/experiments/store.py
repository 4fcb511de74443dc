"""Results, the cache and measures on disk: with the journal, all files that the library touches."""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path

import numpy as np

from hmoe_lib.experiments.catalogue import declared
from hmoe_lib.experiments.config import Experiment
from hmoe_lib.experiments.journal import cache_folder, run_key, write_whole
from hmoe_lib.experiments.result import ROW, ExperimentResult
from hmoe_lib.measures import HierarchicalMeasure

__all__ = [
    "DamagedResultError",
    "StaleResultError",
    "cached",
    "check_folder",
    "load",
    "load_arrays",
    "load_measure",
    "remember",
    "save",
    "save_arrays",
    "save_measure",
]

FORMAT = "hmoe result 1"
# A wheel has no results: said where somebody misses one.
_WHERE = (
    "results are looked for in the folder that is named and nowhere else; those of the book are in "
    "book/results of its source archive, and of the zip of its notebooks"
)


class StaleResultError(ValueError):
    """A stored result belongs to another config than the one asked for."""


class DamagedResultError(ValueError):
    """A stored result cannot be read, or is not what was written."""


# ---- results -------------------------------------------------------------------------------------


def save(result: ExperimentResult, folder: str | Path) -> tuple[Path, Path]:
    """Write NAME.npz (numbers) and NAME.json (config, hash, versions, seconds, date).

    Parameters
    ----------
    result : ExperimentResult
        What to store.
    folder : str or Path
        Made if it does not exist.

    Returns
    -------
    tuple of Path
        The two files. The npz is the same, byte by byte, whenever the result is.
    """
    numbers = io.BytesIO()
    np.savez_compressed(numbers, rows=result.rows, theta=result.theta, history=result.history)
    about = {
        "format": FORMAT,
        "config": result.config.to_dict(),
        "hash": result.config.hash(),
        "digest": result.digest(),
        "npz_sha256": hashlib.sha256(numbers.getvalue()).hexdigest(),
        "versions": dict(result.versions),
        "date": result.date,
        "seconds": [round(float(s), 4) for s in result.seconds],
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / f"{result.config.stem}.npz", folder / f"{result.config.stem}.json"
    write_whole(paths[0], numbers.getvalue())
    write_whole(paths[1], (json.dumps(about, indent=1, sort_keys=True) + "\n").encode())
    return paths


def check_folder(folder: str | Path) -> None:
    """Make the folder of a result, or raise OSError: better before a run than after it."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"folder {folder} cannot be written")


def load(
    name: str | Experiment, folder: str | Path, expected: Experiment | None = None
) -> ExperimentResult:
    """Read a stored result, after checking that it is whole and of the right config.

    Parameters
    ----------
    name : str or Experiment
        Name of the files without ending, or the experiment itself, which is then expected.
    folder : str or Path
        Where they are.
    expected : Experiment, optional
        The config the result must have; by default what the catalogue declares today, if the
        experiment is in it.

    Raises
    ------
    FileNotFoundError
        If a file is missing; the message lists what the folder holds.
    DamagedResultError
        If a file is truncated, changed, or does not fit the other one.
    StaleResultError
        If the config is not the expected one.
    """
    if isinstance(name, Experiment):
        name, expected = name.stem, name
    result = _read(*_files(name, folder))
    if expected is None:
        expected = declared(result.config)
    if expected is not None and result.config.hash() != expected.hash():
        raise StaleResultError(
            f"{name}: the stored result has config {result.config.hash()[:12]}, the experiment "
            f"now has {expected.hash()[:12]}; run it again"
        )
    return result


def _files(name: str, folder: str | Path) -> tuple[Path, Path]:
    """Return the json and the npz file of a result, or say what the folder holds instead."""
    paths = Path(folder) / f"{name}.json", Path(folder) / f"{name}.npz"
    for path in paths:
        if not path.is_file():
            found = sorted(path.stem for path in Path(folder).glob("*.json")) or ["nothing"]
            raise FileNotFoundError(
                f"no stored result {path.name} in {folder}; it holds {', '.join(found)} ({_WHERE})"
            )
    return paths


def _read(json_path: Path, npz_path: Path) -> ExperimentResult:
    def damaged(why) -> DamagedResultError:
        return DamagedResultError(f"{json_path.stem}: the stored result is damaged ({why})")

    numbers = npz_path.read_bytes()
    try:
        about = json.loads(json_path.read_bytes())
        if about["format"] != FORMAT:
            raise damaged(f"format {about['format']!r}, expected {FORMAT!r}")
        if hashlib.sha256(numbers).hexdigest() != about["npz_sha256"]:
            raise damaged(f"{npz_path.name} is not the file that was written")
        config = Experiment.from_dict(about["config"])
        if config.hash() != about["hash"]:
            raise damaged("its config does not have its hash")
        with np.load(io.BytesIO(numbers), allow_pickle=False) as arrays:
            rows, theta = arrays["rows"].astype(ROW), arrays["theta"]
            history = arrays["history"]
        seconds = np.array(about["seconds"], dtype=float)
        result = ExperimentResult(
            config, rows, theta, seconds, about["versions"], about["date"], history
        )
    except DamagedResultError:
        raise
    except (KeyError, TypeError, ValueError, OSError, RecursionError) as error:
        raise damaged(f"{type(error).__name__}: {error}") from None
    if result.digest() != about["digest"]:
        raise damaged("its rows do not have its digest")
    return result


def save_arrays(stem: str, about: dict, arrays: dict, folder: str | Path) -> None:
    """Write arrays as STEM.npz and what they are, with the file's checksum, as STEM.json."""
    numbers = io.BytesIO()
    np.savez_compressed(numbers, **arrays)
    about = {**about, "npz_sha256": hashlib.sha256(numbers.getvalue()).hexdigest()}
    check_folder(folder)
    write_whole(Path(folder) / f"{stem}.npz", numbers.getvalue())
    text = json.dumps(about, indent=1, sort_keys=True) + "\n"
    write_whole(Path(folder) / f"{stem}.json", text.encode())


def load_arrays(stem: str, folder: str | Path) -> tuple[dict, dict]:
    """Return what save_arrays wrote, (about, arrays), after checking that it is whole."""
    json_path, npz_path = _files(stem, folder)
    numbers = npz_path.read_bytes()
    try:
        about = json.loads(json_path.read_bytes())
    except ValueError as error:
        raise DamagedResultError(f"{stem}: the stored result is damaged ({error})") from None
    if hashlib.sha256(numbers).hexdigest() != about["npz_sha256"]:
        raise DamagedResultError(f"{stem}: {stem}.npz is not the file that was written")
    with np.load(io.BytesIO(numbers), allow_pickle=False) as arrays:
        return about, {name: arrays[name] for name in arrays.files}


# ---- the cache -----------------------------------------------------------------------------------


def cached(config: Experiment) -> ExperimentResult | None:
    """Return the cached result of this config by this code and these versions, if there is one."""
    folder = cache_folder() / "cached" / run_key(config)
    try:
        return load(config, folder)
    except (FileNotFoundError, DamagedResultError, StaleResultError):
        return None


def remember(result: ExperimentResult) -> None:
    """Put a result into the cache."""
    save(result, cache_folder() / "cached" / run_key(result.config))


# ---- measures -----------------------------------------------------------------------------------


def save_measure(G: HierarchicalMeasure, path: str | Path) -> None:
    """Write a measure as JSON; load_measure reads it back to the last bit."""
    if not isinstance(G, HierarchicalMeasure):
        raise ValueError(f"G: expected a HierarchicalMeasure, got {type(G).__name__}")
    write_whole(Path(path), (G.to_json() + "\n").encode())


def load_measure(path: str | Path) -> HierarchicalMeasure:
    """Read a measure written by save_measure.

    Raises
    ------
    ValueError
        If the text is not that of a measure.
    """
    return HierarchicalMeasure.from_json(Path(path).read_text(encoding="utf-8"))
