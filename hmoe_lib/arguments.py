"""What every border of the library asks of an argument: arrays of real numbers, finite numbers."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np

Array = np.ndarray

__all__ = ["frozen_array", "is_finite", "number", "real_array"]


def real_array(name: str, value, wanted: str) -> Array:
    """Return a float64 array, not copied where it is one already, or refuse what is none.

    numpy reads text and dates as numbers and forgets masks without a word; here each is an error.

    Examples
    --------
    >>> real_array("y", [1, 2], "numbers")
    array([1., 2.])
    >>> real_array("y", ["1", "2"], "numbers")
    Traceback (most recent call last):
        ...
    ValueError: y: expected numbers, got text
    """
    try:
        array = np.asarray(value)
        if array.dtype.kind != "c":
            return _floats(value, array)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name}: expected {wanted}, got {error}") from None
    raise ValueError(f"{name}: expected real numbers, got complex ones")


def _floats(value, array: Array) -> Array:
    if np.ma.is_masked(value):
        raise TypeError("masked entries")
    objects = array.flat if array.dtype.kind == "O" else ()
    if array.dtype.kind in "US" or any(isinstance(entry, str | bytes) for entry in objects):
        raise TypeError("text")
    if array.dtype.kind not in "biufO":
        raise TypeError(f"entries of type {array.dtype}")
    return array.astype(float, copy=False)


def frozen_array(name: str, value, ndim: int) -> Array:
    """Return a read-only copy with that many axes, none empty, all entries finite."""
    array = np.array(real_array(name, value, f"numbers with {ndim} axes"))
    if array.ndim != ndim or 0 in array.shape:
        raise ValueError(f"{name}: expected {ndim} axes, none empty, got shape {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name}: expected finite numbers, got NaN or infinity")
    array.flags.writeable = False
    return array


def is_finite(value) -> bool:
    """Whether a value is one real number, finite in float64; truth values are not numbers."""
    try:
        return (
            isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(float(value))
        )
    except OverflowError:  # an integer beyond float64
        return False


def number(name: str, value, least: float = -math.inf, above: float = -math.inf) -> float:
    """Return a finite number in range as a float.

    Examples
    --------
    >>> number("step", 0, above=0.0)
    Traceback (most recent call last):
        ...
    ValueError: step: expected a finite number > 0, got 0
    """
    if not is_finite(value) or value < least or value <= above:
        bound = f" >= {least:g}" if least > -math.inf else ""
        bound = f" > {above:g}" if above > -math.inf else bound
        raise ValueError(f"{name}: expected a finite number{bound}, got {value!r}")
    return float(value)
