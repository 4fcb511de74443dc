"""Figures: what is drawn is what the result holds, and nobody needs colour to read it."""

import io
from dataclasses import replace

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from hmoe_lib import plots
from hmoe_lib.experiments import ExperimentResult, get
from hmoe_lib.experiments.result import ROW, keys

SIZES = (100, 200, 400, 800, 1600)
CONFIG = replace(get("figure1"), sizes=SIZES, replicates=4)
EXPONENTS = {"mha": -0.083, "value": -0.5, "output": -0.4}


def synthetic(config=CONFIG):
    """A result whose losses are noisy power laws, made without any fit."""
    rng = np.random.default_rng(0)
    rows = np.zeros(len(list(keys(config))), dtype=ROW)
    for row, (panel, n, number) in zip(rows, keys(config), strict=True):
        row["panel"], row["n"], row["replicate"] = panel, n, number
        law = 50.0 * n ** EXPONENTS[config.panel(panel).setting]
        for field in ("loss", "loss_r1", "loss_voronoi", "function_error"):
            row[field] = law * rng.lognormal(sigma=0.05)
        row["start_loss"], row["status"] = 60.0 * n**-0.083, "converged"
    theta, seconds = np.zeros((rows.size, 1)), np.zeros(rows.size)
    return ExperimentResult(config, rows, theta, seconds, {}, "")


RESULT = synthetic()


@pytest.fixture(autouse=True)
def closed():
    """Close the figures of a test."""
    yield
    plt.close("all")


@pytest.fixture
def ax():
    """Axes in the book's style."""
    with plots.style():
        yield plt.subplots()[1]


def labelled(ax, start):
    """Return the line whose label starts so."""
    (line,) = [line for line in ax.lines if str(line.get_label()).startswith(start)]
    return line


def test_every_run_is_a_dot(ax):
    plots.rate_panel(ax, RESULT, "value-K3")
    dots = labelled(ax, "one run")
    n, values = RESULT.values("value-K3")
    assert sorted(dots.get_ydata()) == sorted(values.ravel())
    assert dots.get_xdata().tolist() == np.repeat(n, 4).tolist()
    assert dots.get_linestyle() == "None"


def test_mean_and_median_and_their_lines_are_those_of_the_result(ax):
    plots.rate_panel(ax, RESULT, "value-K4")
    n, values = RESULT.values("value-K4")
    drawn = [line.get_ydata().tolist() for line in ax.lines if len(line.get_ydata()) == n.size]
    assert values.mean(axis=1).tolist() in drawn
    assert np.median(values, axis=1).tolist() in drawn
    for statistic, slope in RESULT.slopes()["value-K4"].items():
        line = labelled(ax, f"{statistic}, slope")
        fitted = np.diff(np.log(line.get_ydata())) / np.diff(np.log(line.get_xdata()))
        assert fitted == pytest.approx(slope.value, rel=1e-9)
        assert str(slope) in line.get_label().replace("\N{MINUS SIGN}", "-")


@pytest.mark.parametrize(
    ("panel", "field", "exponent"),
    [("value-K3", "loss", -0.5), ("mha-K3", "loss", 0.0), ("mha-K3", "function_error", -0.5)],
)
def test_the_reference_line_has_the_exponent_of_theory(ax, panel, field, exponent):
    plots.rate_panel(ax, RESULT, panel, field)
    line = labelled(ax, "theory")
    rise = np.diff(np.log(line.get_ydata())) / np.diff(np.log(line.get_xdata()))
    assert rise == pytest.approx(exponent, abs=1e-12)


def test_the_start_is_shown_beside_losses_only(ax):
    plots.rate_panel(ax, RESULT, "mha-K3")
    assert labelled(ax, "median start").get_ydata()[0] == pytest.approx(60.0 * 100**-0.083)
    other = plt.subplots()[1]
    plots.rate_panel(other, RESULT, "mha-K3", "function_error")
    third = plt.subplots()[1]
    plots.rate_panel(third, RESULT, "mha-K3", show_start=False)
    for axes in (other, third):
        assert not [line for line in axes.lines if line.get_label() == "median start"]


def test_a_given_exponent_replaces_that_of_theory(ax):
    plots.rate_panel(ax, RESULT, "mha-K3", theory=-0.25)
    rise = np.diff(np.log(labelled(ax, "$n^{-0.25}$").get_ydata())) / np.log(16)
    assert rise == pytest.approx(-0.25)


def test_fewer_than_five_sizes_are_drawn_without_slopes(ax):
    few = synthetic(replace(CONFIG, sizes=SIZES[:4]))
    plots.rate_panel(ax, few, "value-K3")
    assert not any("slope" in str(line.get_label()) for line in ax.lines)
    assert labelled(ax, "mean").get_linestyle() == "-"


def test_what_cannot_be_drawn_is_refused(ax):
    with pytest.raises(ValueError, match="panel: 'value-K5' is not known; did you mean 'value-K"):
        plots.rate_panel(ax, RESULT, "value-K5")
    with pytest.raises(ValueError, match="field: 'lss' is not known; did you mean 'loss'"):
        plots.rate_panel(ax, RESULT, "value-K3", "lss")
    rows = RESULT.rows.copy()
    rows["loss"][0] = 0.0
    with pytest.raises(ValueError, match="loss: expected positive values"):
        plots.rate_panel(ax, replace(RESULT, rows=rows), "mha-K3")


def test_the_figure_has_a_row_a_setting_and_a_column_a_k():
    with plots.style():
        fig = plots.rate_figure(RESULT)
    titles = [ax.get_title("left") for ax in fig.axes]
    assert len(titles) == 6
    assert [title[-2] for title in titles] == list("343434")
    assert [title.split(",")[0] for title in titles[::2]] == [
        "Multi-head attention", "Setting I", "Setting II"
    ]  # fmt: skip
    (legend,) = fig.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts[:2] == ["one run", "median start"]
    assert len(texts) == len(set(texts)) == 4
    assert all(len(ax.get_legend().get_texts()) == 2 for ax in fig.axes)


def test_the_legend_of_a_panel_lies_below_its_dots():
    with plots.style():
        fig = plots.rate_figure(RESULT)
        fig.canvas.draw()
    for ax, panel in zip(
        fig.axes, ["mha", "mha", "value", "value", "output", "output"], strict=True
    ):
        top = ax.get_legend().get_window_extent().transformed(ax.transData.inverted()).y1
        lowest = min(RESULT.values(f"{panel}-K{k}")[1].min() for k in (3, 4))
        assert top < lowest


def test_a_result_with_uneven_panels_leaves_no_empty_axes():
    part = synthetic(CONFIG.select(["mha-K3", "value-K3", "value-K4"]))
    with plots.style():
        assert len(plots.rate_figure(part).axes) == 3


def test_the_same_result_gives_the_same_svg():
    def drawn():
        with plots.style():
            buffer = io.BytesIO()
            plots.rate_figure(RESULT).savefig(buffer, format="svg", metadata={"Date": None})
        return buffer.getvalue()

    assert drawn() == drawn()


def test_histories_start_at_the_first_loss(ax):
    plots.history(ax, {"a": [1.0, 0.5, 0.25], "b": np.array([2.0, 1.0])}, {"b": "#000000"})
    assert labelled(ax, "a").get_ydata().tolist() == [1.0, 0.5, 0.25]
    assert labelled(ax, "b").get_xdata().tolist() == [1, 2]
    assert to_rgb(labelled(ax, "b").get_color()) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("bad", [[], [1.0, np.nan], [1.0, np.inf], [1.0, 0.0], [[1.0]]])
def test_a_history_without_logarithm_is_refused(ax, bad):
    with pytest.raises(ValueError, match="history of 'a': expected positive finite losses"):
        plots.history(ax, {"a": bad})


# ---- colour --------------------------------------------------------------------------------------


def luminance(colour):
    """Relative luminance of WCAG."""
    channels = np.array(to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def as_deuteranope(colour):
    """Linear simulation of deuteranopia (Machado, Oliveira and Fernandes 2009, severity 1)."""
    matrix = [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ]
    return np.array(matrix) @ np.array(to_rgb(colour))


def cycle():
    with plots.style():
        return plt.rcParams["axes.prop_cycle"].by_key()


@pytest.mark.parametrize("colour", [*plots.COLOURS.values(), *cycle()["color"]])
def test_colours_stand_out_from_white(colour):
    assert 1.05 / (luminance(colour) + 0.05) >= 3.0


def test_the_colours_of_settings_differ_for_a_deuteranope():
    seen = [as_deuteranope(plots.COLOURS[name]) for name in ("mha", "value", "output", "theory")]
    gaps = [np.linalg.norm(a - b) for i, a in enumerate(seen) for b in seen[:i]]
    assert min(gaps) > 0.2
    # Negative control: this red and this green are nearly one colour to a deuteranope.
    assert np.linalg.norm(as_deuteranope("#b00000") - as_deuteranope("#004a00")) < 0.2


def test_no_two_curves_of_the_cycle_differ_by_colour_alone():
    looks = list(zip(cycle()["marker"], cycle()["linestyle"], strict=True))
    assert len(set(cycle()["marker"])) == len(looks)


def test_the_style_ends_with_its_block():
    before = plt.rcParams["axes.spines.top"]
    with plots.style():
        assert plt.rcParams["axes.spines.top"] is False
    assert plt.rcParams["axes.spines.top"] == before
