"""Checks of an experiment's fields: a ValueError names the field, what was expected, what came."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Iterable

from hmoe_lib import arguments

__all__ = ["file_name", "integer", "items", "number", "one_of"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")


def file_name(what: str, value, longest: int = 100) -> None:
    """Refuse what cannot be part of the name of a file on every system."""
    if not isinstance(value, str) or not _NAME.fullmatch(value) or len(value) > longest:
        raise ValueError(
            f"{what}: expected up to {longest} letters, digits, dots and hyphens, got {value!r}"
        )


def one_of(what: str, value, known: Collection[str]) -> None:
    """Refuse an unknown name and suggest the closest known one."""
    if value in list(known):
        return
    near = difflib.get_close_matches(str(value), list(known), n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
    raise ValueError(f"{what}: {value!r} is not known; {hint}")


def number(what: str, value, least: float = -math.inf, above: float = -math.inf) -> None:
    """Refuse what is not a finite number in range, of a type that JSON holds."""
    if not isinstance(value, int | float):
        raise ValueError(f"{what}: expected a finite number, got {value!r}")
    arguments.number(what, value, least, above)


def integer(what: str, value, least: int) -> None:
    """Refuse what is not an integer in range."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{what}: expected an integer >= {least}, got {value!r}")


def items(what: str, value) -> tuple:
    """Return the entries of a list or another iterable."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"{what}: expected a list, got {value!r}")
    return tuple(value)
