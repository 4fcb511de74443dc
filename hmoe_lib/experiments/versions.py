"""What a result depends on besides its config: the library's code, and the packages below it."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["code_hash", "versions"]

# Modules no experiment can import (the import contracts say so): a change there keeps the cache.
_UPSTAIRS = ("plots.py", "pages.py", "reference", "exercises", "identifiability", "practice")


@cache
def versions() -> dict[str, str]:
    """Return the versions a result may depend on."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("numpy", "scipy", "hmoe-lib"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # run from a folder that was never installed
            found[package] = "unknown"
    return {**found, "code": code_hash()}


@cache
def code_hash() -> str:
    """Return sha256 of the library's modules that an experiment may depend on."""
    root = Path(__file__).resolve().parents[1]
    mark = hashlib.sha256()
    for path in _modules(root):
        mark.update(path.relative_to(root).as_posix().encode() + b"\0")
        mark.update(path.read_bytes() + b"\0")
    return mark.hexdigest()


def _modules(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*.py")):
        if not path.relative_to(root).parts[0].startswith(_UPSTAIRS):
            yield path
