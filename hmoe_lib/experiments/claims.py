"""What the papers claim of each system, the exponent of theory, and where ours is stored."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hmoe_lib.arguments import number
from hmoe_lib.experiments.checks import one_of
from hmoe_lib.experiments.density_catalogue import STUDIES, load_study
from hmoe_lib.experiments.rates import STATISTICS, Slope
from hmoe_lib.experiments.store import load

__all__ = ["CLAIMS", "Claim", "Measured", "measured"]


@dataclass(frozen=True)
class Claim:
    """One exponent and the stored numbers that can speak for or against it.

    Parameters
    ----------
    key : str
        Short name of the row.
    source : str
        A study of ``STUDIES``, or the name of a stored experiment.
    field : str
        What was measured.
    exponent : float
        Theory's, for n to infinity; the start's, where a parameter is not identifiable.
    panel : str
        Panel of the experiment; empty for a study.
    statistic : {"mean", "median"}
        Of the runs of a size; the median where single runs rule the mean.
    power : float
        The field is raised to it.

    Raises
    ------
    ValueError
        For an exponent that is no finite number, or an unknown statistic.
    """

    key: str
    source: str
    field: str
    exponent: float
    panel: str = ""
    statistic: str = "mean"
    power: float = 1.0

    def __post_init__(self) -> None:
        number("exponent", self.exponent)
        one_of("statistic", self.statistic, STATISTICS)

    def slope(self, folder: str | Path) -> Slope:
        """Return the measured slope, with its bootstrap interval, from the stored result."""
        if self.source in STUDIES:
            return load_study(self.source, folder).slope(self.field, self.statistic, self.power)
        result = load(self.source, folder).alone(self.panel)
        if self.power != 1.0:
            raise ValueError(f"power: expected 1 for an experiment, got {self.power:g}")
        return result.slopes(self.field)[self.panel][self.statistic]


@dataclass(frozen=True)
class Measured:
    """A claim with what was found."""

    claim: Claim
    slope: Slope

    @property
    def inside(self) -> bool:
        """Whether the interval holds theory's exponent."""
        return bool(self.slope.low <= self.claim.exponent <= self.slope.high)

    def __str__(self) -> str:
        return str(self.slope).replace("-", "\N{MINUS SIGN}")


_LIKELIHOOD = {
    "top-K": (
        Claim("dense", "dense-exact", "loss", -1 / 2),
        Claim("top2", "top2-exact", "loss", -1 / 2),
        Claim("over-beta", "dense-over", "router", -1 / 4),
        Claim("over-loss", "dense-over", "loss", -1 / 2, statistic="median"),
    ),
    "temperature": (
        Claim("heat", "temperature-e0.083", "log_tau", -0.083),
        Claim("heat-rest", "temperature-e0.083", "identifiable", -1 / 2),
        Claim("active", "activated", "log_tau", -1 / 2),
    ),
    "multinomial": (
        Claim("classes", "multinomial-good", "loss", -1 / 2, statistic="median"),
        Claim("flat", "multinomial-bad", "loss", -1 / 2, statistic="median"),
        Claim("classes-over", "multinomial-over", "d", -1 / 4, statistic="median"),
    ),
    "contamination": (
        Claim("apart", "prompt-apart", "share", -1 / 2),
        Claim("fading", "prompt-fading", "eta", -1 / 4),
        Claim("merging", "prompt-merging", "share", -1 / 4),
    ),
}


def _medians(source: str, *rows: tuple[str, str, str, float]) -> tuple[Claim, ...]:
    """Claims about panels of one experiment; rows are (key, panel, field, exponent)."""
    return tuple(
        Claim(key, source, field, exponent, panel, "median") for key, panel, field, exponent in rows
    )


_REGRESSION = {
    "attention": _medians(
        "starts",
        ("mha", "mha-c1-e0.083", "loss", -0.083),
        ("mha-start", "mha-c1-e0.25", "loss", -1 / 4),
        ("setting-1", "value-c1-e0.083", "loss", -1 / 2),
        ("setting-2", "output-c1-e0.083", "loss", -1 / 2),
    ),
    "cosine": _medians(
        "gates-cosine",
        ("cos-norm", "cosine-exact-s0", "error_gates", 0.0),
        ("cos-exact", "perturbed-exact-s0", "loss", -1 / 2),
        ("cos-shared", "perturbed-over-tanh-s083", "error_shared", -1 / 4),
    ),
    "quadratic": _medians(
        "gates-quadratic",
        ("mono-exact", "monomial-exact-gelu-s083", "loss", -1 / 2),
        ("poly-exact", "polynomial-exact-gelu-s083", "loss", -1 / 2),
        ("mono-shared", "monomial-over-gelu-s0", "error_shared", -1 / 4),
    ),
    "sigmoid": _medians(
        "gates-sigmoid",
        ("r1-gelu", "r1-gelu-s0", "error_shared", -1 / 4),
        ("r1-relu", "r1-relu-s0", "error_shared", 0.0),
        ("softmax", "softmax-gelu-s0", "error_shared", -1 / 4),
        ("r2", "r2-gelu", "loss", -1 / 2),
    )
    + _medians(
        "gates-sigmoid-quadratic",
        ("att-gelu", "r1-gelu-s0", "error_shared", -1 / 4),
        ("att-relu", "r1-relu-s0", "error_shared", 0.0),
    ),
}

CLAIMS: dict[str, tuple[Claim, ...]] = {
    "attention": _REGRESSION["attention"],
    **_LIKELIHOOD,
    **{name: claims for name, claims in _REGRESSION.items() if name != "attention"},
}
"""The paper itself and its seven companions, four likelihoods and three regressions."""


def measured(folder: str | Path, *systems: str) -> dict[str, Measured]:
    """Return claims with their measured slopes, by key, from stored results.

    Parameters
    ----------
    folder : str or Path
        Where results are stored.
    *systems : str
        Names in ``CLAIMS``; by default all of them.

    Returns
    -------
    dict of Measured

    Raises
    ------
    ValueError
        For an unknown system, and where a run has a loss of zero: such a run must be looked at.
    FileNotFoundError, StaleResultError, DamagedResultError
        If a result is missing, of another config, or not whole.

    Notes
    -----
    The exponents are those of arXiv 2602.01468, 2309.13850, 2401.13875, 2310.14188, 2410.12258,
    2405.14131, 2410.11222 and 2405.13997, or of this book where the pages say so.

    Examples
    --------
    >>> len(CLAIMS), [claim.key for claim in CLAIMS["top-K"]]
    (8, ['dense', 'top2', 'over-beta', 'over-loss'])
    """
    for name in systems:
        one_of("system", name, CLAIMS)
    chosen = [claim for name in systems or CLAIMS for claim in CLAIMS[name]]
    return {claim.key: Measured(claim, claim.slope(folder)) for claim in chosen}
