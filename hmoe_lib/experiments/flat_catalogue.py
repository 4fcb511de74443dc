"""The declared truths and experiments of the part on gates: cosine, quadratic, sigmoid.

The truths come from random searches for good conditioning (an inverse Gram matrix of first and,
for over-fits, second derivatives), made before any fit: they are favourable cases. Rows are
(router, bias, expert).
"""

from __future__ import annotations

import numpy as np

from hmoe_lib.experiments.config import Experiment, log_sizes
from hmoe_lib.experiments.fitting import Optimiser, Start
from hmoe_lib.experiments.flat import FlatPanel
from hmoe_lib.gates import gate
from hmoe_lib.mixing import MixingMeasure

__all__ = ["FLAT_EXPERIMENTS", "FLAT_TRUTHS", "measure_of"]


def measure_of(rows, gate_name: str | None = None, **options) -> MixingMeasure:
    """Return a measure from rows (router, bias, expert), with the pins of a gate."""
    router, bias, expert = zip(*rows, strict=True)
    G = MixingMeasure(np.array(router, dtype=float), bias, expert)
    return G if gate_name is None else G.pinned_for(gate(gate_name, **options).pins(G.router))


FLAT_TRUTHS = {
    "cosine": (
        ((-0.10, 0.62), 0.65, (0.05, 1.07, -0.33)),
        ((0.87, -0.26), -0.28, (2.37, -2.53, -0.30)),
        ((0.0, 0.0), 0.0, (-0.81, -0.23, 0.07)),
    ),
    "cosine-over": (
        ((0.49, -0.13), -0.05, (0.65, 1.33, 0.38)),
        ((0.0, 0.0), 0.0, (0.36, -2.27, 1.16)),
    ),
    "quadratic": (
        ((1.79, -0.83, -0.23), 0.10, (0.72, 2.37, -0.59)),
        ((0.0, 0.0, 0.0), 0.0, (2.16, -4.20, 0.33)),
    ),
    "sigmoid-R1": (
        ((0.0, 0.0), 2.15, (1.91, -1.37, 0.19)),
        ((0.08, 0.64), -1.37, (-0.86, -0.26, 3.38)),
    ),
    "sigmoid-quadratic": (
        ((0.0, 0.0, 0.0), 2.15, (1.91, -1.37, 0.19)),
        ((-0.85, 0.99, 0.86), -1.37, (-0.86, -0.26, 3.38)),
    ),
    "softmax": (
        ((1.47, 2.58), -0.07, (1.17, -0.45, 0.12)),
        ((0.0, 0.0), 0.0, (-7.02, 1.58, 1.20)),
    ),
    "sigmoid-R2": (
        ((1.88, 1.17), 0.86, (-0.28, 1.68, 0.87)),
        ((1.45, -1.62), 0.58, (-0.66, -1.92, 0.80)),
    ),
}
"""Rows of the true measures, by name."""

STARTS = {"s0": Start(0.5, 0.0), "s083": Start(0.5, 0.083), "s250": Start(1.0, 0.25)}
_BOX = Optimiser(box=1.3)


def _panel(name: str, gate_name: str, expert: str, truth: MixingMeasure, tag: str, **more):
    """Return a panel in the box of this part; the tag of its start ends its name."""
    start = STARTS[tag]
    return FlatPanel(f"{name}-{tag}", gate_name, expert, truth, start=start, optimiser=_BOX, **more)


def _cosine() -> list[FlatPanel]:
    return [*_cosine_exact(), *_cosine_over()]


def _temperatures(name: str, tau: float) -> dict:
    return {"temperature": 0.3, **({} if name == "cosine" else {"tau": tau})}


def _cosine_exact() -> list[FlatPanel]:
    """Exact fits: perturbed and vanilla with pins, and perturbed without."""
    rows, name = FLAT_TRUTHS["cosine"], "perturbed_cosine"
    perturbed = measure_of(rows, name, **_temperatures(name, 1.0))
    vanilla = measure_of(rows, "cosine", **_temperatures("cosine", 1.0))
    # Shown beside the other: its reference has no router either.
    vanilla = vanilla.pinned_for(gate(name).pins(vanilla.router))
    loose = measure_of(rows).pinned_for(
        (np.zeros((3, 2), bool), np.array([False, False, True]), np.zeros(0, bool))
    )
    return [
        _panel(
            f"{kind}-exact", name, "tanh", truth, tag, options=_temperatures(name, 1.0), width=3.0
        )
        for kind, name, truth in (
            ("perturbed", name, perturbed),
            ("cosine", "cosine", vanilla),
            ("unpinned", name, loose),
        )
        for tag in STARTS
    ]


def _cosine_over() -> list[FlatPanel]:
    panels = []
    for name, expert in (
        ("perturbed_cosine", "tanh"),
        ("cosine", "tanh"),
        ("perturbed_cosine", "affine"),
    ):
        options = _temperatures(name, 0.5)
        truth = measure_of(FLAT_TRUTHS["cosine-over"], name, **options)
        title = f"{name.split('_')[0]}-over-{expert}"
        panels += [
            _panel(title, name, expert, truth, tag, split=0, options=options, width=3.0)
            for tag in ("s0", "s083")
        ]
    return panels


def _quadratic() -> list[FlatPanel]:
    panels, rows = [], FLAT_TRUTHS["quadratic"]
    wide = tuple(((*router, 0.0, 0.0), bias, expert) for router, bias, expert in rows)
    for name, truth in (("monomial", rows), ("polynomial", wide)):
        for expert in ("gelu", "affine"):
            at = (name, expert, measure_of(truth, name))
            panels.append(_panel(f"{name}-exact-{expert}", *at, "s083"))
            panels += [_panel(f"{name}-over-{expert}", *at, tag, split=0) for tag in ("s0", "s083")]
    return panels


# Limits of least squares under R2 in the box of the panels, with one atom too many: computed on a
# 150 x 150 midpoint grid, without noise, from 16 starts (hmoe_lib.estimation.limit_on_a_grid). A
# test computes them again.
_R2_BOX = (("bias", 0, -1.5, 1.5), ("expert", 2, 0.6, 1.1))
R2_LIMITS = {
    "gelu": (
        ((0.6009749796129853, 0.16552388352505126), -1.5,
         (-0.15984197080716483, 0.09743974499899113, 0.6)),
        ((1.9519289309672696, 1.2364290883648739), 0.8513969731362698,
         (-0.27170352009520604, 1.6298754031454814, 0.7933187818791048)),
        ((1.4738006618647757, -1.6510688524772468), 0.5905450389647577,
         (-0.6450389727457966, -1.9389188839593012, 0.7171150074873717)),
    ),
    "relu": (
        ((-1.4161276512003107, -0.37415215203170343), -1.5,
         (0.6589178463016553, 0.4917988369656986, 0.6)),
        ((1.4641449490128808, -1.6182671332107799), 0.6271471726186331,
         (-0.6597537682441825, -1.9359803137686864, 0.7484527694540551)),
        ((1.6936083337344487, 1.030706531316274), 0.6576791038254765,
         (-0.26005541025406576, 1.6793597564037872, 0.8136224488370741)),
    ),
    "affine": (
        ((1.0014189634116655, -0.14057666701276358), -1.5,
         (-0.046977122794915435, -0.00883658874780443, 0.6)),
        ((1.9020574042438543, 1.1722896722465816), 0.8932979305848455,
         (-0.3165960753434317, 1.68133729144155, 0.7712535760866401)),
        ((1.46691067680687, -1.6291653662083367), 0.6008362064924748,
         (-0.6919672512908422, -1.9032432002113024, 0.7218592957686619)),
    ),
}  # fmt: skip


def _sigmoid() -> list[FlatPanel]:
    """R1 and its control, a softmax, have an atom too many; R2 is fitted to its limit."""
    truth, softmax = measure_of(FLAT_TRUTHS["sigmoid-R1"]), FLAT_TRUTHS["softmax"]
    control = ("softmax-gelu", "linear", "gelu", measure_of(softmax, "linear"))
    over = {"split": 0, "width": 3.0}
    return [
        *(
            _panel(f"r1-{expert}", "sigmoid", expert, truth, tag, **over)
            for expert in ("gelu", "relu", "affine")
            for tag in STARTS
            if (expert, tag) != ("affine", "s083")
        ),
        *(_panel(*control, tag, **over) for tag in ("s0", "s083")),
        *(
            FlatPanel(
                f"r2-{expert}",
                "sigmoid",
                expert,
                measure_of(FLAT_TRUTHS["sigmoid-R2"]),
                limit=measure_of(limit),
                limits=_R2_BOX,
                width=3.0,
                start=Start(0.2, 0.083),
                optimiser=_BOX,
            )
            for expert, limit in R2_LIMITS.items()
        ),
    ]


def _sigmoid_quadratic() -> list[FlatPanel]:
    """Regime R1 with the scores of attention: biases and experts of sigmoid-R1, A instead of beta.

    A of the second atom is the best of 400 random ones by the smallest singular value of the
    distinct first and second derivatives, scaled to length 1; it hardly matters.
    """
    truth = measure_of(FLAT_TRUTHS["sigmoid-quadratic"])
    return [
        _panel(f"r1-{expert}", "sigmoid_monomial", expert, truth, tag, split=0)
        for expert, tags in (
            ("gelu", ("s0", "s083", "s250")),
            ("relu", ("s0", "s250")),
            ("affine", ("s0", "s250")),
        )
        for tag in tags
    ]


FLAT_EXPERIMENTS = tuple(
    Experiment(
        name=name,
        panels=panels(),
        sizes=log_sizes(low, 100 * low, 7),
        replicates=10,
        grid=60,
        title=title,
        core_seconds=seconds,
    )
    for name, panels, low, title, seconds in (
        ("gates-cosine", _cosine, 1000, "Cosine and perturbed cosine routers", 60.0),
        ("gates-quadratic", _quadratic, 300, "Monomial and polynomial gates", 120.0),
        ("gates-sigmoid", _sigmoid, 300, "Sigmoid and softmax gates, regimes R1 and R2", 120.0),
        (
            "gates-sigmoid-quadratic",
            _sigmoid_quadratic,
            300,
            "Sigmoid gates with quadratic scores, regime R1",
            600.0,
        ),
    )
)
