"""Flat panels: what is declared, what a replicate holds, and limits that are computed again."""

from dataclasses import replace

import numpy as np
import pytest

from hmoe_lib.estimation import limit_on_a_grid, split_profile
from hmoe_lib.experiments import Experiment, FlatPanel, get, grid, replicate, run
from hmoe_lib.experiments.flat_catalogue import FLAT_EXPERIMENTS, FLAT_TRUTHS, measure_of
from hmoe_lib.gates import gate as make_gate
from hmoe_lib.models import FlatModel

NAMES = [experiment.name for experiment in FLAT_EXPERIMENTS]


@pytest.mark.parametrize("name", NAMES)
def test_configs_survive_json(name):
    config = get(name)
    again = Experiment.from_dict(config.to_dict())
    assert again.hash() == config.hash() and again.panels == config.panels
    other = replace(config, panels=(replace(config.panels[0], width=1.5), *config.panels[1:]))
    assert other.hash() != config.hash()


def test_a_flat_run_keeps_what_a_row_has(tmp_path):
    config = replace(
        get("gates-sigmoid").select(["r1-gelu-s083", "r2-gelu"]), sizes=(400, 800), replicates=2
    )
    result = run(config, jobs=1, progress=False, resume=False, store=tmp_path)
    panel = config.panel("r1-gelu-s083")
    row = result.panel(panel.name)[-1]
    G = result.measure(panel.name, 800, 1)
    assert G.atoms == 3 and row["loss"] == row["loss_voronoi"]
    X = panel.width * grid(config.grid, 2)
    gap = panel.model().predict(G, X) - panel.model().predict(panel.truth, X)
    assert np.isclose(np.sqrt(np.mean(gap**2)), row["function_error"], rtol=1e-12)
    assert np.isclose(row["loss_r1"], row["error_weights"] + row["error_single"]
                      + row["error_shared"])  # fmt: skip
    once = replicate(config, panel.name, 800, 1)
    assert once["theta"] == G.to_vector().tolist() and once["loss"] == row["loss"]
    assert result.panel("r2-gelu")["loss"].min() > 0
    box = config.panel("r2-gelu").box()
    assert np.all(G.bias < 5) and box.lower.min() < -1.5
    bias = config.panel("r2-gelu").limit.shape.slices["bias"]
    assert np.all(box.lower[bias] == -1.5) and np.all(box.upper[bias] == 1.5)


@pytest.mark.parametrize("expert", ["gelu", "relu", "affine"])
def test_the_limit_under_r2_is_what_least_squares_tends_to(expert):
    panel = get("gates-sigmoid").panel(f"r2-{expert}")
    X = panel.width * grid(40, 2)
    rng = np.random.default_rng(1)
    start = panel.limit.from_vector(panel.box().clip(panel.limit.to_vector()))
    limit = limit_on_a_grid(
        panel.model(), panel.truth, start, panel.box(), X, rng=rng, starts=3
    )  # fmt: skip
    assert 0.008 < np.sqrt(limit.loss) < 0.016
    # On a coarser grid the limit is another one, slightly.
    gap = panel.model().predict(limit.measure, X) - panel.model().predict(panel.limit, X)
    assert np.sqrt(np.mean(gap**2)) < 0.1 * np.sqrt(limit.loss)


def local_orders(gate, expert, rows, block, column, weight, width, deltas, **options):
    model = FlatModel(make_gate(gate, **options), expert)
    G = measure_of(rows, gate, **options) if weight == "exp" else measure_of(rows)
    F = split_profile(
        model, G, block, column, deltas, width * grid(20, 2), rng=np.random.default_rng(0),
        weight=weight, starts=2,
    )  # fmt: skip
    return np.diff(np.log(F)) / np.diff(np.log(deltas)), F


WIDE = tuple(((*r, 0.0, 0.0), b, e) for r, b, e in FLAT_TRUTHS["quadratic"])
ORDERS = [
    ("monomial", "gelu", FLAT_TRUTHS["quadratic"], "router", 0, "exp", 2.0, 2),
    ("polynomial", "gelu", WIDE, "router", 3, "exp", 2.0, 4),
    ("sigmoid", "gelu", FLAT_TRUTHS["sigmoid-R1"], "expert", 0, "sigmoid", 3.0, 2),
    ("linear", "gelu", FLAT_TRUTHS["softmax"], "router", 0, "exp", 3.0, 2),
]


@pytest.mark.parametrize("case", ORDERS, ids=lambda case: f"{case[0]}-{case[3]}{case[4]}")
def test_orders_of_contact(case):
    *where, order = case
    slopes, _ = local_orders(*where, deltas=[0.1, 0.2])
    assert abs(slopes[0] - order) < 0.1


FLAT = [
    ("monomial", "affine", FLAT_TRUTHS["quadratic"], "expert", 0, "exp", 2.0),
    ("sigmoid", "relu", FLAT_TRUTHS["sigmoid-R1"], "router", 0, "sigmoid", 3.0),
    ("sigmoid", "affine", FLAT_TRUTHS["sigmoid-R1"], "expert", 2, "sigmoid", 3.0),
]


@pytest.mark.parametrize("case", FLAT, ids=lambda case: f"{case[0]}-{case[1]}-{case[3]}{case[4]}")
def test_what_is_not_identifiable_has_no_order(case):
    _, F = local_orders(*case, deltas=[0.1, 0.2])
    assert F.max() < 1e-11


TRUTH = get("gates-sigmoid").panels[0].truth
BAD = [
    (lambda: FlatPanel("a", "sigmoyd", "gelu", TRUTH), "did you mean 'sigmoid'"),
    (lambda: FlatPanel("a", "sigmoid", "gelu", 3), "truth: expected a MixingMeasure"),
    (lambda: FlatPanel("a", "sigmoid", "gelu", TRUTH, split=2), "split: expected an atom below 2"),
    (lambda: FlatPanel("a", "sigmoid", "gelu", TRUTH, width=0.0), "width: expected a finite"),
    (lambda: FlatPanel("a/b", "sigmoid", "gelu", TRUTH), "panel name"),
    (
        lambda: split_profile(FlatModel("sigmoid", "gelu"), TRUTH, "bias", 0, [0.1], [[0.0, 0.0]],
                              rng=None),
        "block: expected 'router' or 'expert'",
    ),
]  # fmt: skip


@pytest.mark.parametrize("call, message", BAD)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
