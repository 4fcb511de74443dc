"""What a study found: the stored result read back, with intervals over seeds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from hmoe_lib.practice import store
from hmoe_lib.practice.config import Config, get_variant

Array = np.ndarray

__all__ = [
    "FORMAT",
    "WEIGHTS",
    "Interval",
    "PracticeResult",
    "load_practice",
    "load_weights",
    "t_interval",
]

WEIGHTS = ("none", "setting-II")
"""Variants whose trained weights are stored, seed 0, in float16: the third chapter reads them."""
FORMAT = "hmoe practice 1"


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
