"""Figures: axes in, axes out. One style, one colour for each thing the book shows."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from hmoe_lib.experiments.config import LOSSES
from hmoe_lib.experiments.result import ExperimentResult

__all__ = ["COLOURS", "GREYS", "history", "rate_figure", "rate_panel"]
__all__ += ["reference_line", "style", "use"]

STYLE = Path(__file__).with_name("book.mplstyle")

# Okabe and Ito's palette, its yellows and sky blue left out for lack of contrast on white, and its
# green darker: without blue cones it would be the blue (tests/book/test_colours.py).
COLOURS = {
    "mha": "#D55E00",
    "value": "#0072B2",
    "output": "#00694A",
    "key": "#792B86",
    "query": "#A83400",
    "layer": "#7B0C19",
    "theory": "#000000",
    "start": "#767676",
    "truth": "#CC79A7",
}
GREYS = {"light": "#dddddd", "middle": "#999999", "dark": "#444444"}  # frames, helping lines
SETTING_NAMES = {
    "mha": "Multi-head attention",
    "value": "Setting I, gate after the values",
    "output": "Setting II, gate after the output",
    "key": "Gate after the keys",
    "query": "Gate after the queries",
    "layer": "Gate at the end of the layer",
}
FIELD_NAMES = {
    "loss_r1": "Voronoi loss $L_{1,1}$",
    "loss_voronoi": "Voronoi loss $L_2$",
    "loss_experts": "loss by experts $E_2$",
    "error_gates": "error of the gates $M$",
    "error_weights": "error of the weights $\\omega$",
    "error_single": "experts fitted once",
    "error_shared": "experts fitted several times",
    "error_shared_squared": "experts fitted several times, squared",
    "error_combinations": "error of $M$, $d$ and $C$",
    "function_error": "function error",
    "fit_loss": "mean squared residual",
    "start_loss": "Voronoi loss at the start",
}
_THEORY = {"value": -0.5, "output": -0.5}  # no rate where experts are linear


def use() -> None:
    """Switch to the book's style for the rest of the session.

    Examples
    --------
    >>> with plt.rc_context():
    ...     use()
    ...     plt.rcParams["axes.spines.top"]
    False
    """
    plt.style.use(STYLE)


def style():
    """Return a context manager: the book's style inside, the old one after.

    Examples
    --------
    >>> with style():
    ...     fig, ax = plt.subplots()
    >>> fig.get_facecolor()
    (1.0, 1.0, 1.0, 1.0)
    >>> plt.close(fig)
    """
    return plt.style.context(STYLE)


def reference_line(ax: Axes, n, exponent: float, through: tuple[float, float], label: str = ""):
    """Draw the line c n^exponent through a point (n, value), in the style of theory.

    Parameters
    ----------
    ax, n : matplotlib Axes, array_like
        The line spans the range of n.
    exponent : float
        Slope on log-log axes.
    through : (float, float)
        A sample size and a value on the line.
    label : str, optional
        For the legend; by default the exponent.

    Returns
    -------
    matplotlib Line2D

    Examples
    --------
    >>> fig, ax = plt.subplots()
    >>> line = reference_line(ax, [100, 10_000], -0.5, through=(100, 1.0))
    >>> [round(float(v), 12) for v in line.get_ydata()], line.get_label()
    ([1.0, 0.1], '$n^{-0.5}$')
    >>> plt.close(fig)
    """
    ends = np.array([np.min(n), np.max(n)], dtype=float)
    values = through[1] * (ends / through[0]) ** exponent
    label = label or f"$n^{{{exponent:g}}}$"
    (line,) = ax.plot(
        ends, values, color=COLOURS["theory"], linestyle=":", marker="", zorder=4, label=label
    )
    return line


def rate_panel(
    ax: Axes,
    result: ExperimentResult,
    panel: str,
    field: str = "loss",
    theory: float | None = None,
    show_start: bool = True,
    legend: bool = True,
) -> Axes:
    """Draw a loss against n: every run, mean and median with fitted slopes, theory's exponent.

    Parameters
    ----------
    ax, result : matplotlib Axes, ExperimentResult
        The axes become log-log. With fewer than five sizes no slopes are shown; lines join the
        points.
    panel : str
        Name of the panel.
    field : str, default "loss"
        Field of the rows; "function_error" shows prediction instead of recovery.
    theory : float, optional
        Exponent of the reference line. By default -1/2 with a gate and for the function error,
        and 0 for the loss of plain attention, whose channels no sample size identifies.
    show_start : bool, default True
        Also draw the median loss of the starts, when a loss is drawn.
    legend : bool, default True
        A legend to the right of the axes.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        For an unknown panel or field, and for values that are not positive.

    Examples
    --------
    >>> from hmoe_lib.experiments import get, run
    >>> from dataclasses import replace
    >>> tiny = replace(get("figure1").select("mha-K3"), sizes=(300, 600), replicates=2)
    >>> result = run(tiny, jobs=1, progress=False, resume=False)
    >>> fig, ax = plt.subplots()
    >>> rate_panel(ax, result, "mha-K3").get_xscale()
    'log'
    >>> plt.close(fig)
    """
    config = result.config.panel(panel)
    n, values = result.values(panel, field)
    if not np.all(values > 0):
        raise ValueError(f"{field}: expected positive values for logarithmic axes")
    colour, is_loss = COLOURS[config.setting], field.startswith("loss")
    ax.set(xscale="log", yscale="log")
    ax.plot(
        np.repeat(n, values.shape[1]), values.ravel(),
        color=colour, marker="o", linestyle="", markersize=3.2, alpha=0.45, markeredgewidth=0,
        label="one run",
    )  # fmt: skip
    _summaries(ax, result, panel, field, colour)
    middle, level = np.exp(np.log(n).mean()), np.exp(np.log(np.median(values, axis=1)).mean())
    if theory is None:
        theory = _THEORY.get(config.setting, 0.0) if is_loss else -0.5
    label = {0.0: "theory: no rate", -0.5: "theory: $n^{-1/2}$"}.get(theory, "")
    reference_line(ax, n, theory, (middle, 0.7 * level), label)
    if show_start and is_loss:
        at_start = np.median(result.values(panel, "start_loss")[1], axis=1)
        ax.plot(
            n, at_start, color=COLOURS["start"], marker="x", markersize=4, linestyle="-.",
            linewidth=1.2, label="median start",
        )  # fmt: skip
    name = f"Voronoi loss {LOSSES[config.loss]}" if field == "loss" else FIELD_NAMES[field]
    ax.set(xlabel="sample size $n$", ylabel=name)
    ax.set_title(f"{SETTING_NAMES[config.setting]}, $K = {config.channels}$")
    _log_ticks(ax)
    if legend:
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def _summaries(ax: Axes, result: ExperimentResult, panel: str, field: str, colour: str) -> None:
    """Mean (filled, solid) and median (hollow, dashed) of the runs, with their fitted lines."""
    n, values = result.values(panel, field)
    few = len(n) < 5
    slopes = {} if few else result.alone(panel).slopes(field)[panel]
    # A small square fits into a wide circle: both are seen where mean and median agree.
    looks = {
        "median": {"marker": "o", "linestyle": "--", "markersize": 6.5, "markerfacecolor": "white"},
        "mean": {"marker": "s", "linestyle": "-", "markersize": 3.5, "markerfacecolor": colour},
    }
    for statistic, look in looks.items():
        points = getattr(np, statistic)(values, axis=1)
        label = statistic if few else f"{statistic}, slope {slopes[statistic]}"
        label = label.replace("-", "\N{MINUS SIGN}")
        line = look.pop("linestyle")
        ax.plot(
            n, points, color=colour, linestyle=line if few else "",
            label=label if few else None, zorder=3, **look,
        )  # fmt: skip
        if not few:
            ax.plot(
                n[[0, -1]], slopes[statistic].predict(n[[0, -1]]), color=colour, linestyle=line,
                linewidth=1.5, markevery=[], label=label, **look,
            )  # fmt: skip


def rate_figure(result: ExperimentResult, field: str = "loss", **options) -> Figure:
    """Draw all panels of a result: a row a setting, a column a K, one legend for all.

    Parameters
    ----------
    result, field : ExperimentResult, str
        Field of the rows, by default "loss".
    **options
        Passed to :func:`rate_panel`.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> from hmoe_lib.experiments import get, run
    >>> from dataclasses import replace
    >>> tiny = replace(get("figure1").select(["mha-K3", "mha-K4"]), sizes=(300, 600), replicates=2)
    >>> fig = rate_figure(run(tiny, jobs=1, progress=False, resume=False))
    >>> [ax.get_title() for ax in fig.axes]
    ['Multi-head attention, $K = 3$', 'Multi-head attention, $K = 4$']
    >>> plt.close(fig)
    """
    panels = result.config.panels
    settings = list(dict.fromkeys(panel.setting for panel in panels))
    columns = [[panel for panel in panels if panel.setting == setting] for setting in settings]
    width = max(map(len, columns))
    fig, axes = plt.subplots(
        len(settings), width, figsize=(7.4, 0.6 + 2.75 * len(settings)), sharex=True, sharey="row",
        squeeze=False,
    )  # fmt: skip
    for row, of_setting in zip(axes, columns, strict=True):
        for ax, panel in zip(row, of_setting, strict=False):
            rate_panel(ax, result, panel.name, field, legend=False, **options)
        for ax in row[len(of_setting) :]:
            ax.remove()
        _own_legend(row[: len(of_setting)])
    for ax in axes.ravel():
        ax.label_outer()
    fig.align_ylabels()
    return _shared_legend(fig)


def history(ax: Axes, fits, colours=None) -> Axes:
    """Draw the loss of one or more fits after each step.

    Parameters
    ----------
    ax : matplotlib Axes
        Becomes log-log, so that ten steps and a thousand are seen together.
    fits : mapping of str to FitResult or array_like
        The label of each, and the fit or its history.
    colours : mapping of str to str, optional
        A colour for a label; the style's cycle for the others.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If a history is empty or not positive and finite.

    Examples
    --------
    >>> fig, ax = plt.subplots()
    >>> [line.get_label() for line in history(ax, {"a": [1.0, 0.5], "b": [1.0, 0.9]}).lines]
    ['a', 'b']
    >>> plt.close(fig)
    """
    for label, fit in fits.items():
        losses = np.asarray(getattr(fit, "history", fit), dtype=float)
        if losses.ndim != 1 or losses.size == 0 or not np.all((losses > 0) & (losses < np.inf)):
            raise ValueError(f"history of {label!r}: expected positive finite losses")
        steps = np.arange(1, losses.size + 1)
        look = {"color": colours[label]} if colours and label in colours else {}
        marks = np.unique(np.geomspace(1, losses.size, 8).astype(int)) - 1
        ax.plot(steps, losses, label=label, markevery=list(marks), **look)
    ax.set(xscale="log", yscale="log")
    ax.set(xlabel="step (the start is 1)", ylabel="mean squared residual")
    _log_ticks(ax)
    ax.legend()
    return ax


# ---- small pieces --------------------------------------------------------------------------------


def _log_ticks(ax: Axes) -> None:
    plain = FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1000 else f"{value:g}")
    # The narrower the range, the more numbers between powers of ten need a label.
    for axis in (ax.xaxis, ax.yaxis):
        low, high = axis.get_view_interval()
        decades = np.log10(high / low)
        subs = (1.0, 2.0, 3.0, 5.0) if decades < 1 else (1.0, 2.0, 5.0) if decades < 2 else (1.0,)
        axis.set_major_locator(LogLocator(subs=subs, numticks=9))
        axis.set_major_formatter(plain)
        axis.set_minor_formatter(NullFormatter())


def _own_legend(row) -> None:
    """In each panel only what differs between panels: its slopes, below its own dots."""
    for ax in row:
        handles, labels = ax.get_legend_handles_labels()
        own = [(h, la) for h, la in zip(handles, labels, strict=True) if "slope" in la]
        if own:
            ax.legend(*zip(*own[::-1], strict=True), loc="lower left")
    low, high = row[0].get_ylim()
    row[0].set_ylim(low * (low / high) ** 0.35, high)


def _shared_legend(fig: Figure) -> Figure:
    """One legend under the panels for what is the same in all of them."""
    shared = {}
    for ax in fig.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            if "slope" not in label:
                shared.setdefault(label, handle)
    order = sorted(shared, key=lambda label: label.startswith("theory"))
    fig.legend([shared[la] for la in order], order, loc="outside lower center", ncols=len(order))
    return fig
