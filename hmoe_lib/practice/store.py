"""The files of this package: texts of the reader, checkpoints, runs and trained weights.

Arrays and manifests are written and checked by :mod:`hmoe_lib.experiments.store`.
"""

from __future__ import annotations

import contextlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from hmoe_lib.experiments.store import (
    DamagedResultError,
    StaleResultError,
    cache_folder,
    load_arrays,
    save_arrays,
)
from hmoe_lib.experiments.versions import versions
from hmoe_lib.practice.config import Config
from hmoe_lib.practice.text import Text, text_of

Array = np.ndarray

__all__ = [
    "DamagedResultError",
    "StaleResultError",
    "cache_folder",
    "forget_checkpoints",
    "last_checkpoint",
    "load_arrays",
    "manifest",
    "read_text",
    "save_arrays",
    "save_checkpoint",
]


def read_text(path: str | Path) -> Text:
    """Return a text file of the reader's own.

    Parameters
    ----------
    path : str or Path
        A UTF-8 file of at least 81920 bytes.

    Raises
    ------
    ValueError
        If it is empty, too short, binary or not UTF-8.
    OSError
        If it cannot be read.
    """
    return text_of(Path(path).name, Path(path).read_bytes())


def manifest(text: Text) -> dict:
    """Return what a run depends on besides its config: the text, and versions."""
    found = dict(versions())
    for package in ("jax", "jaxlib", "optax"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return {
        "text": text.name,
        "text_sha256": text.sha256,
        "text_bytes": len(text.train) + len(text.validation),
        "versions": found,
    }


# ---- checkpoints ---------------------------------------------------------------------------------


def save_checkpoint(config: Config, text: Text, folder, step: int, arrays: dict) -> None:
    """Write a checkpoint under the name of its step, then remove the older ones.

    A kill between the two leaves one more file; a kill while it is written leaves the older one.
    """
    about = {"config": config.to_dict(), "step": step, "text_sha256": text.sha256}
    save_arrays(f"{config.stem}-step{step:06d}", about, arrays, folder)
    for path in _checkpoints(config, folder)[1:]:
        _remove(path)


def last_checkpoint(config: Config, text: Text, folder) -> dict[str, Array] | None:
    """Return the arrays of the newest whole checkpoint of this config on this text, or None."""
    for path in _checkpoints(config, folder):
        try:
            about, arrays = load_arrays(path.stem, folder)
        except (DamagedResultError, OSError, KeyError):
            continue
        if about["config"] == config.to_dict() and about["text_sha256"] == text.sha256:
            return arrays
    return None


def forget_checkpoints(config: Config, folder) -> None:
    """Remove all checkpoints of a config."""
    for path in _checkpoints(config, folder):
        _remove(path)


def _checkpoints(config: Config, folder) -> list[Path]:
    return sorted(Path(folder).glob(f"{config.stem}-step*.json"), reverse=True)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_suffix(".npz").unlink(missing_ok=True)
