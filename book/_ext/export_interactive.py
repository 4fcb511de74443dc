"""What the moving figures start from, written by the library: `make interactive`.

For each figure a JSON file with its measures, points and numbers, and a PNG of its first state, for
readers without scripts and for paper. Nothing in them is typed by hand but the settings below.
"""

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import hmoe_lib as hl
from hmoe_lib.experiments import grid, slope
from hmoe_lib.voronoi import function_distances

TARGET = Path(__file__).resolve().parents[1] / "_static" / "interactive"
# The names under which common.js knows the activations.
MODELS = {
    "plain attention": (hl.Mha(), "identity", "mha"),
    "Setting I": (hl.ValueGated("sigmoid", bias=1.0), "sigmoid, bias 1", "value"),
}


def as_lists(G: hl.HierarchicalMeasure) -> dict:
    return {"omega": G.omega.tolist(), "M": G.M.tolist(), "a": G.a.tolist()}


def numbers(G, truth, X) -> dict:
    """What a figure says about a state: distances of the functions, and the two losses."""
    found = {"distance": {}, "losses": {}, "cells": {}}
    for name, (model, _, _) in MODELS.items():
        change = model.predict(G, X) - model.predict(truth, X)
        found["distance"][name] = float(np.sqrt(np.mean(change**2)))
        one, two = hl.voronoi_loss_r(model, G, truth, X), hl.voronoi_loss(model, G, truth, X)
        found["losses"][name] = {"one": one, "two": two}
        found["cells"][name] = hl.voronoi_cells(model, G, truth, X).tolist()
    return found


# ---- A split expert ------------------------------------------------------------------------------

SPLIT_TRUTH = hl.HierarchicalMeasure(
    [[4.0]],
    [[[[1.0, 0.0], [0.0, -1.0]], [[0.0, 0.0], [0.0, 0.0]]]],
    [[[[1.0, 0.5]], [[-1.0, 1.0]]]],
)
SPLIT_STEP, SPLIT_REACH = [2.0, 1.0], 4.0


def split(step) -> hl.HierarchicalMeasure:
    """Expert 1 of the channel taken apart into two halves, a + v and a - v."""
    a = SPLIT_TRUTH.a[:, :, [0, 0]]
    a[0, 0] += np.outer([1, -1], step)
    return hl.HierarchicalMeasure(SPLIT_TRUTH.omega[:, [0, 0]] / 2, SPLIT_TRUTH.M, a)


def split_line() -> np.ndarray:
    t = np.linspace(-1, 1, 61)
    return np.stack([t, np.zeros_like(t)], axis=1)


def export_split() -> dict:
    line, models = split_line(), {}
    for name, (model, activation, colour) in MODELS.items():
        corners = [[i * SPLIT_REACH, j * SPLIT_REACH] for i in (0, 0.5, 1) for j in (-1, 0, 1)]
        values = [model.predict(split(v), line) for v in corners]
        low, high = np.floor(np.min(values) - 0.5), np.ceil(np.max(values) + 0.5)
        models[name] = {"activation": activation, "colour": colour, "range": [low, high]}
    return {
        "truth": as_lists(SPLIT_TRUTH),
        "step": SPLIT_STEP,
        "reach": SPLIT_REACH,
        "points": grid(12, 2).tolist(),
        "line": line.tolist(),
        "models": models,
    }


def draw_split():
    G, line = split(SPLIT_STEP), split_line()
    fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.7))
    axes[0].plot(*G.a[0, 0].T, "o-", color=hl.plots.COLOURS["start"], label="halves")
    axes[0].plot(*SPLIT_TRUTH.a[0, 0, 0], "x", color=hl.plots.COLOURS["theory"], label="truth")
    axes[0].set(title="two halves of expert 1", xlabel="first entry", ylabel="second entry")
    axes[0].legend()
    for ax, (name, (model, _, colour)) in zip(axes[1:], MODELS.items(), strict=True):
        ax.plot(line[:, 0], model.predict(SPLIT_TRUTH, line), "k:", label="truth")
        moved = model.predict(G, line)
        ax.plot(line[:, 0], moved, "--", marker="", color=hl.plots.COLOURS[colour], label="split")
        ax.set(title=name, xlabel="x along a line")
        ax.legend()
    return fig


# ---- Voronoi cells -------------------------------------------------------------------------------


def one_head(omega, a_1, a_2) -> hl.HierarchicalMeasure:
    """One head, two experts, one input: the measures of the chapter's map."""
    a = np.array([a_1, a_2], dtype=float)
    return hl.HierarchicalMeasure([omega], [[[[2.0]], [[0.0]]]], a[None, :, :, None])


VORONOI_TRUTH = one_head([1, 1, 1], [4, -4, -1], [-3, 3, -4.5])
VORONOI_FIT = one_head([1, 0.5, 0.5, 1], [3, -4.5, -3, -1.2], [-2, 2, 4, 1.2])
VORONOI_REACH, VORONOI_SIDE = 6.0, 61
VORONOI_LINE = np.linspace(-1, 1, 41)[:, None]


def export_voronoi() -> dict:
    return {
        "truth": as_lists(VORONOI_TRUTH),
        "fit": as_lists(VORONOI_FIT),
        "line": VORONOI_LINE.tolist(),
        "reach": VORONOI_REACH,
        "side": VORONOI_SIDE,
        "models": {name: activation for name, (_, activation, _) in MODELS.items()},
    }


def draw_voronoi():
    axis = np.linspace(-VORONOI_REACH, VORONOI_REACH, 121)
    places = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    many = one_head(np.ones(len(places)), *places.T)
    fig, axes = plt.subplots(1, 2, figsize=(7.2, 3.7), sharey=True)
    tints = np.array([[0.56, 0.75, 0.89], [0.94, 0.71, 0.55], [0.59, 0.83, 0.71]])
    for ax, (name, (model, _, _)) in zip(axes, MODELS.items(), strict=True):
        squares = function_distances(model, many, VORONOI_TRUTH, VORONOI_LINE)[0, :, 0]
        image = tints[squares.argmin(axis=1)].reshape(121, 121, 3)
        ax.imshow(image, origin="lower", extent=[-VORONOI_REACH, VORONOI_REACH] * 2)
        for G, marker in ((VORONOI_TRUTH, "o"), (VORONOI_FIT, "s")):
            for k, (p, q) in enumerate(G.a[0, :, :, 0].T):
                ax.plot(p, q, marker, color="black", markersize=13)
                ax.text(p, q, k + 1, color="white", ha="center", va="center")
        ax.set(title=name, xlabel="$a_1$")
        ax.grid(False)
    axes[0].set_ylabel("$a_2$")
    return fig


# ---- What the start does -------------------------------------------------------------------------

RESULTS = TARGET.parents[1] / "results"
# Resampling for the intervals; everything else is in the stored result.
SEED = 0
SETTINGS = {"mha": "plain attention", "value": "Setting I", "output": "Setting II"}


def starts() -> hl.experiments.ExperimentResult:
    return hl.experiments.load("starts", RESULTS)


def export_starts() -> dict:
    """Each panel of the stored experiment: medians and slopes of its starts and of its fits."""
    result, panels = starts(), []
    for panel in result.config.panels:
        entry = {
            "setting": SETTINGS[panel.setting],
            "colour": panel.setting,
            "constant": panel.start.constant,
            "exponent": panel.start.exponent,
        }
        for key, field in (("fit", "loss"), ("start", "start_loss")):
            n, values = result.values(panel.name, field)
            line = slope(n, values, np.random.default_rng(SEED), statistic="median")
            entry[key] = {
                "median": np.median(values, axis=1).tolist(),
                "slope": [line.value, line.low, line.high],
                "line": line.predict(n[[0, -1]]).tolist(),
            }
        entry["n"] = n.tolist()
        panels.append(entry)
    return {"panels": panels, "runs": int(values.shape[1])}


def draw_starts():
    fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.9), sharey=True)
    panels = export_starts()["panels"]
    for ax, (colour, name) in zip(axes, SETTINGS.items(), strict=True):
        shown = [p for p in panels if p["colour"] == colour and p["constant"] == 1.0]
        for p in shown:
            value, low, high = p["fit"]["slope"]
            ax.plot([p["start"]["slope"][0]] * 2, [low, high], "-", color="#444444", marker="")
            ax.plot(p["start"]["slope"][0], value, "o", color=hl.plots.COLOURS[colour])
        ax.axline((0, 0), slope=1, color=hl.plots.COLOURS["start"], ls=":")
        ax.axhline(-0.5, color=hl.plots.COLOURS["theory"], ls="--")
        ax.set(title=name, xlabel="slope of the start")
    axes[0].set_ylabel("slope of the fit")
    return fig


FIGURES = {
    "split": (export_split, draw_split),
    "voronoi": (export_voronoi, draw_voronoi),
    "starts": (export_starts, draw_starts),
}


def main() -> int:
    hl.plots.use()
    for name, (export, draw) in FIGURES.items():
        text = json.dumps(export(), separators=(",", ":"))
        (TARGET / f"{name}.json").write_text(f"{text}\n", encoding="utf8")
        fig = draw()
        fig.savefig(TARGET / f"{name}.png", dpi=110, metadata={"Software": None})
        plt.close(fig)
        print(f"{name}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
