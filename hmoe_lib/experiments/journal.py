"""Files that are never half written: whole files, and the journal of a run that still goes on.

A file appears under its name only when it is complete, and every line of a journal carries its own
checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

from hmoe_lib.experiments.config import Experiment
from hmoe_lib.experiments.versions import versions

__all__ = ["BusyError", "Journal", "cache_folder", "run_key", "write_whole"]


class BusyError(OSError):
    """Another process runs the same experiment in the same cache folder."""


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


def run_key(config: Experiment) -> str:
    """Return a hash of the config, the code and the versions: what a run may go on from."""
    parts = [config.hash(), json.dumps(versions(), sort_keys=True)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def write_whole(path: Path, content: bytes) -> None:
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
        self.path = folder / f"{config.stem}-{run_key(config)}.jsonl"

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
            write_whole(self.path, b"".join(_sealed(record) for record in good))
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
