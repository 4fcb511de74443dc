"""The cover: the experts that least squares finds, without and with a gate. `make picture`.

One truth, many data sets, for each a start near the truth and a fit of either model. A point is the
vector of a fitted expert, a cross that of a true one.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import hmoe_lib as hl

TARGET = Path(__file__).resolve().parents[1] / "_static"
FITS, SAMPLES, NOISE, DISTANCE, SEED = 40, 20_000, 0.1, 0.5, 1
MODELS = {
    "plain attention": (hl.Mha(), "mha"),
    "gated attention": (hl.ValueGated("sigmoid", bias=1.0), "value"),
}


def fitted_vectors(model) -> np.ndarray:
    """Vectors of all experts of all fits, shape (FITS * H * N * K, 2)."""
    rng = np.random.default_rng(SEED)
    truth, found = hl.experiments.TRUTH_VALUE, []
    for _ in range(FITS):
        start = hl.near_truth_start(truth, truth.channels, distance=DISTANCE, rng=rng)
        X, y = model.sample(truth, SAMPLES, noise_sd=NOISE, rng=rng)
        found.append(hl.fit_least_squares(model, X, y, start).measure.a)
    return np.reshape(found, (-1, 2))


def draw() -> plt.Figure:
    fig, axes = plt.subplots(1, 2, figsize=(12, 6.3), sharey=True)
    clouds = {name: fitted_vectors(model) for name, (model, _) in MODELS.items()}
    both = np.concatenate([*clouds.values()])
    low, high = both.min(axis=0) - 0.3, both.max(axis=0) + 0.3
    for ax, (name, vectors) in zip(axes, clouds.items(), strict=True):
        colour = MODELS[name][1]
        ax.plot(*vectors.T, ".", color=hl.plots.COLOURS[colour], alpha=0.55, markersize=9)
        ax.plot(*hl.experiments.TRUTH_VALUE.a.reshape(-1, 2).T, "+", color="black", markersize=15)
        ax.set_title(name, loc="center", fontsize=22, pad=14)
        ax.set(xticks=[], yticks=[], aspect="equal")
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        ax.grid(False)
        for spine in ax.spines.values():
            spine.set_visible(False)
    fig.suptitle("Why gated attention learns faster", fontsize=28, weight="bold")
    return fig


def main() -> int:
    hl.plots.use()
    draw().savefig(TARGET / "cover.png", dpi=100, bbox_inches=None, metadata={"Software": None})
    print(f"cover.png: {FITS} fits of each model at n = {SAMPLES}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
