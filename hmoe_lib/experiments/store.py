"""The only place where the library reads and writes files: results, journals, the cache, measures.

Nothing is ever half written: a file appears under its name only when it is complete, and every
line of a journal carries its own checksum.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

from hmoe_lib.experiments.catalogue import declared
from hmoe_lib.experiments.config import Experiment
from hmoe_lib.experiments.result import ROW, ExperimentResult
from hmoe_lib.experiments.versions import versions
from hmoe_lib.measures import HierarchicalMeasure

__all__ = [
    "BusyError",
    "DamagedResultError",
    "Journal",
    "StaleResultError",
    "cache_folder",
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


class StaleResultError(ValueError):
    """A stored result belongs to another config than the one asked for."""


class DamagedResultError(ValueError):
    """A stored result cannot be read, or is not what was written."""


class BusyError(OSError):
    """Another process runs the same experiment in the same cache folder."""


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
    _write(paths[0], numbers.getvalue())
    _write(paths[1], (json.dumps(about, indent=1, sort_keys=True) + "\n").encode())
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
    folder = Path(folder)
    for ending in ("json", "npz"):
        if not (folder / f"{name}.{ending}").is_file():
            found = sorted(path.stem for path in folder.glob("*.json")) or ["nothing"]
            raise FileNotFoundError(
                f"no stored result {name}.{ending} in {folder}; it holds {', '.join(found)}"
            )
    result = _read(folder / f"{name}.json", folder / f"{name}.npz")
    if expected is None:
        expected = declared(result.config)
    if expected is not None and result.config.hash() != expected.hash():
        raise StaleResultError(
            f"{name}: the stored result has config {result.config.hash()[:12]}, the experiment "
            f"now has {expected.hash()[:12]}; run it again"
        )
    return result


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
    _write(Path(folder) / f"{stem}.npz", numbers.getvalue())
    text = json.dumps(about, indent=1, sort_keys=True) + "\n"
    _write(Path(folder) / f"{stem}.json", text.encode())


def load_arrays(stem: str, folder: str | Path) -> tuple[dict, dict]:
    """Return what save_arrays wrote, (about, arrays), after checking that it is whole."""
    try:
        numbers = (Path(folder) / f"{stem}.npz").read_bytes()
        about = json.loads((Path(folder) / f"{stem}.json").read_bytes())
    except ValueError as error:
        raise DamagedResultError(f"{stem}: the stored result is damaged ({error})") from None
    if hashlib.sha256(numbers).hexdigest() != about["npz_sha256"]:
        raise DamagedResultError(f"{stem}: {stem}.npz is not the file that was written")
    with np.load(io.BytesIO(numbers), allow_pickle=False) as arrays:
        return about, {name: arrays[name] for name in arrays.files}


# ---- journals ------------------------------------------------------------------------------------


class Journal:
    """Finished replicates of a run that is still going on: one checked line each, appended.

    Parameters
    ----------
    config : Experiment
        The journal's name holds the hashes of the config, the code and the versions, so that it
        is never continued by another program.
    folder : str or Path, optional
        By default ``cache_folder() / "journals"``.
    """

    def __init__(self, config: Experiment, folder: str | Path | None = None) -> None:
        folder = Path(folder) if folder is not None else cache_folder() / "journals"
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{config.stem}-{_key(config)}.jsonl"

    @contextmanager
    def locked(self, wait: bool = False) -> Iterator[None]:
        """Keep other processes from this journal; they raise BusyError, or wait.

        The system gives the lock back when the process ends, however it ends.
        """
        path = self.path.with_suffix(".lock")
        while (file := _lock(path)) is None:
            if not wait:
                raise BusyError(
                    f"another process ({path.read_text(errors='replace') or 'unknown'}) runs this "
                    f"experiment in {path.parent}; wait for it, or set HMOE_CACHE to another folder"
                )
            time.sleep(0.2)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            file.close()

    def records(self) -> list[dict]:
        """Return the records whose lines are whole; a truncated or changed line is dropped."""
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().split(b"\n")
        records = [_unsealed(line) for line in lines]
        good = [record for record in records if record is not None]
        if len(good) < sum(map(bool, lines)) or lines[-1]:
            # What follows a damaged tail would be glued to it.
            _write(self.path, b"".join(_sealed(record) for record in good))
        return good

    def append(self, record: dict) -> None:
        """Add a record and wait until it is on the disk."""
        with open(self.path, "ab") as file:
            file.write(_sealed(record))
            file.flush()
            os.fsync(file.fileno())

    def remove(self) -> None:
        """Forget the journal."""
        self.path.unlink(missing_ok=True)


def _lock(path: Path):
    """Return the open, locked file, or None if another process holds it."""
    file = open(path, "a+")  # noqa: SIM115 (the lock lives as long as the open file)
    if fcntl is None:  # no such locks: as before, two runs are the reader's own business
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The one who had it may have removed it while we waited: then ours is nobody's.
        if os.fstat(file.fileno()).st_ino == os.stat(path).st_ino:
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            return file
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:  # a file system without locks
        return file
    file.close()
    return None


def _sealed(record: dict) -> bytes:
    text = json.dumps(record, sort_keys=True).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _unsealed(line: bytes) -> dict | None:
    mark, _, text = line.partition(b" ")
    return json.loads(text) if mark == b"%08x" % zlib.crc32(text) and text else None


# ---- the cache -----------------------------------------------------------------------------------


def cache_folder() -> Path:
    """Return the folder of journals and cached results, made if need be.

    The environment variable HMOE_CACHE if set, else ``~/.cache/hmoe_lib``, else, where the home
    folder cannot be written, ``.cache`` of the current folder.
    """
    chosen = os.environ.get("HMOE_CACHE")
    folders = [Path(chosen)] if chosen else [Path.home() / ".cache" / "hmoe_lib", Path(".cache")]
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise OSError(f"no folder for the cache can be written, tried {[str(f) for f in folders]}")


def cached(config: Experiment) -> ExperimentResult | None:
    """Return the cached result of this config by this code and these versions, if there is one."""
    folder = cache_folder() / "cached" / _key(config)
    try:
        return load(config, folder)
    except (FileNotFoundError, DamagedResultError, StaleResultError):
        return None


def remember(result: ExperimentResult) -> None:
    """Put a result into the cache."""
    save(result, cache_folder() / "cached" / _key(result.config))


def _key(config: Experiment) -> str:
    parts = [config.hash(), json.dumps(versions(), sort_keys=True)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


# ---- measures and bytes --------------------------------------------------------------------------


def save_measure(G: HierarchicalMeasure, path: str | Path) -> None:
    """Write a measure as JSON; load_measure reads it back to the last bit."""
    if not isinstance(G, HierarchicalMeasure):
        raise ValueError(f"G: expected a HierarchicalMeasure, got {type(G).__name__}")
    _write(Path(path), (G.to_json() + "\n").encode())


def load_measure(path: str | Path) -> HierarchicalMeasure:
    """Read a measure written by save_measure.

    Raises
    ------
    ValueError
        If the text is not that of a measure.
    """
    return HierarchicalMeasure.from_json(Path(path).read_text(encoding="utf-8"))


def _write(path: Path, content: bytes) -> None:
    """Write under another name, then rename: the path holds the old content or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
