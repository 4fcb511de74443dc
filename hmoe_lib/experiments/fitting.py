"""How a panel is fitted: where a fit begins, and which estimator runs in which box."""

from __future__ import annotations

from dataclasses import dataclass

from hmoe_lib.experiments.checks import integer, number, one_of

__all__ = ["OPTIMISERS", "STARTS", "Optimiser", "Start"]

STARTS = ("near", "random")
# The options an experiment may set; those of the functions fit_* that change what is fitted.
OPTIMISERS = {
    "least_squares": (
        *("max_iterations", "tolerance", "gain"),
        *("newton", "coarse", "shares", "single"),
    ),
    "gradient_descent": ("step", "max_epochs", "tolerance"),
}


@dataclass(frozen=True)
class Start:
    r"""Where a fit begins: at a distance :math:`c\, n^{-e}` from the truth, or anywhere.

    Parameters
    ----------
    constant : float, default 1
        c > 0. For random starts: the share of the box, at most 1, that they are drawn from.
    exponent : float, default 0.083
        e >= 0; the paper's perturbation is of order n^{-0.083}. For random starts 0.
    kind : {"near", "random"}, default "near"
        Near the truth, or uniform in a box.
    count : int, default 1
        Starts tried on the same data; the fit with the smallest loss is kept.

    Examples
    --------
    >>> round(Start().distance(10_000), 3)
    0.466
    """

    constant: float = 1.0
    exponent: float = 0.083
    kind: str = "near"
    count: int = 1

    def __post_init__(self) -> None:
        number("start constant", self.constant, above=0.0)
        number("start exponent", self.exponent, least=0.0)
        one_of("start kind", self.kind, STARTS)
        integer("start count", self.count, least=1)
        if self.kind == "random" and (self.exponent or self.constant > 1.0):
            raise ValueError(
                "start: expected exponent 0 and constant <= 1 for random starts, got exponent "
                f"{self.exponent!r} and constant {self.constant!r}"
            )

    def distance(self, n: int) -> float:
        """Return c n^{-e}."""
        return self.constant * n**-self.exponent


@dataclass(frozen=True)
class Optimiser:
    """Which estimator runs, in which box, with which options.

    Parameters
    ----------
    name : {"least_squares", "gradient_descent"}
        The functions fit_least_squares and fit_gradient_descent.
    box : float, "open" or None, default 1.3
        The box is this multiple of the largest true entry of each block; "open" keeps only
        omega >= 0, so that parameters are not bounded; None is the estimator's own default.
    options : tuple of (str, number or bool) pairs
        Passed to the estimator; a dict is accepted and stored in sorted order.

    Raises
    ------
    ValueError
        For an unknown name or option; the closest known one is suggested.

    Examples
    --------
    >>> Optimiser("gradient_descent", options={"step": 0.05}).options
    (('step', 0.05),)
    """

    name: str = "least_squares"
    box: float | str | None = 1.3
    options: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        one_of("optimiser", self.name, OPTIMISERS)
        try:
            options = dict(self.options)
        except (TypeError, ValueError):
            raise ValueError(f"options: expected pairs or a dict, got {self.options!r}") from None
        for option, value in options.items():
            one_of(f"option of {self.name}", option, OPTIMISERS[self.name])
            if not isinstance(value, bool):
                number(f"option {option}", value)
        object.__setattr__(self, "options", tuple(sorted(options.items())))
        if isinstance(self.box, str) and self.box != "open":
            raise ValueError(f"box: expected a number, 'open' or None, got {self.box!r}")
        if self.box not in (None, "open"):
            number("box", self.box, least=1.0)
