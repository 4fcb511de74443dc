"""Configs: what they refuse, what their hash sees, what the catalogue declares."""

from dataclasses import replace

import numpy as np
import pytest

import hmoe_lib as hl
from hmoe_lib.experiments import (
    EXPERIMENTS,
    TRUTH_OUTPUT,
    TRUTH_VALUE,
    Experiment,
    Optimiser,
    Panel,
    Start,
    get,
    log_sizes,
)
from hmoe_lib.experiments.catalogue import declared

FIGURE1 = get("figure1")
PANEL = FIGURE1.panel("value-K3")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"setting": "valeu"}, r"setting: 'valeu' is not known; did you mean 'value'"),
        ({"setting": ["value"]}, r"setting: \['value'\] is not known"),
        ({"loss": "voronoy"}, r"loss: .* did you mean 'voronoi'"),
        ({"activation": "sigmod"}, r"activation: .* did you mean 'sigmoid'"),
        ({"channels": 1}, r"channels: expected an integer >= 2, got 1"),
        ({"channels": 3.0}, r"channels: expected an integer >= 2, got 3.0"),
        ({"truth": "G"}, r"truth: expected a HierarchicalMeasure, got 'G'"),
        ({"name": "../up"}, r"panel name: expected .* got '../up'"),
        ({"name": "x" * 41}, r"panel name: expected up to 40"),
        ({"setting": "mha"}, r"activation: expected None and bias 0"),
    ],
)
def test_a_panel_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        replace(PANEL, **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": ()}, "sizes: expected increasing"),
        ({"sizes": (200, 100)}, "sizes: expected increasing"),
        ({"sizes": (100, 100)}, "sizes: expected increasing"),
        ({"sizes": (0, 100)}, "sizes: expected an integer >= 1, got 0"),
        ({"sizes": (100.0,)}, "sizes: expected an integer >= 1, got 100.0"),
        ({"replicates": 0}, "replicates: expected an integer >= 1, got 0"),
        ({"noise_sd": -0.1}, "noise_sd: expected a finite number >= 0, got -0.1"),
        ({"noise_sd": float("nan")}, "noise_sd: expected a finite number"),
        ({"grid": 1}, "grid: expected an integer >= 2"),
        ({"panels": ()}, "panels: expected at least one Panel"),
        ({"panels": (PANEL, PANEL)}, "panels: expected unique names"),
        ({"name": "a b"}, "experiment name: expected"),
    ],
)
def test_an_experiment_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        replace(FIGURE1, **change)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Optimiser("least_square"), "optimiser: .* did you mean 'least_squares'"),
        (lambda: Optimiser(options={"max_iter": 5}), "did you mean 'max_iterations'"),
        (lambda: Optimiser(options={"tolerance": "x"}), "option tolerance: expected a finite"),
        (lambda: Optimiser(box=0.5), "box: expected a finite number >= 1, got 0.5"),
        (lambda: Start(constant=0.0), "start constant: expected a finite number > 0"),
        (lambda: Optimiser(box="opne"), "box: expected a number, 'open' or None, got 'opne'"),
        (lambda: Start(kind="rnadom"), "start kind: .* did you mean 'random'"),
        (lambda: Start(count=0), "start count: expected an integer >= 1, got 0"),
        (lambda: Start(kind="random"), "expected exponent 0 and constant <= 1 for random starts"),
        (lambda: replace(PANEL, noise_sd=-1.0), "noise_sd: expected a finite number >= 0"),
        (lambda: replace(FIGURE1, epochs=(0, -1)), "epochs: expected an integer >= 0, got -1"),
        (lambda: Start(exponent=-1.0), "start exponent: expected a finite number >= 0"),
        (lambda: get("figur1"), "experiment: 'figur1' is not known; did you mean 'figure1'"),
        (lambda: FIGURE1.select("value-k3"), "panel: .* did you mean 'value-K3'"),
    ],
)
def test_names_and_ranges_are_checked(make, message):
    with pytest.raises(ValueError, match=message):
        make()


ANOTHER_TRUTH = hl.HierarchicalMeasure(
    TRUTH_VALUE.omega, TRUTH_VALUE.M, TRUTH_VALUE.a * (1 + 1e-15)
)


@pytest.mark.parametrize(
    "other",
    [
        replace(FIGURE1, name="figure2"),
        replace(FIGURE1, replicates=11),
        replace(FIGURE1, noise_sd=0.2),
        replace(FIGURE1, grid=41),
        replace(FIGURE1, epochs=(0, 10)),
        replace(FIGURE1, sizes=FIGURE1.sizes[:-1]),
        replace(FIGURE1, panels=FIGURE1.panels[::-1]),
        replace(FIGURE1, panels=(replace(PANEL, truth=ANOTHER_TRUTH), *FIGURE1.panels[3:])),
        FIGURE1.select("value-K3"),
        FIGURE1.quick(),
        *(
            replace(FIGURE1, panels=(replace(PANEL, **change),))
            for change in (
                {"loss": "r1"},
                {"channels": 4},
                {"activation": "tanh"},
                {"bias": 0.5},
                {"start": Start(2.0)},
                {"start": Start(exponent=0.25)},
                {"start": Start(1.0, 0.0, "random")},
                {"start": Start(count=2)},
                {"optimiser": Optimiser(box="open")},
                {"noise_sd": 0.3},
                {"optimiser": Optimiser("gradient_descent")},
                {"optimiser": Optimiser(box=1.5)},
                {"optimiser": Optimiser(options={"max_iterations": 5})},
            )
        ),
    ],
    ids=lambda config: config.stem,
)
def test_the_hash_sees_every_change(other):
    base = replace(FIGURE1, panels=(PANEL,)) if len(other.panels) == 1 else FIGURE1
    assert other.hash() != base.hash()
    assert other.hash() != FIGURE1.hash()


def test_the_hash_does_not_see_the_text_for_readers():
    assert replace(FIGURE1, title="other", core_seconds=1.0).hash() == FIGURE1.hash()


def test_the_hash_of_figure1_is_pinned():
    # A changed hash makes every stored result stale: change this line only with the figure.
    assert FIGURE1.hash()[:16] == "c799b3edce61e39e"


EXTENDED = [
    replace(FIGURE1, panels=[replace(PANEL, **change)], epochs=(0, 3))
    for change in (
        {"start": Start(0.5, 0.0, "random", 3)},
        {"optimiser": Optimiser(box="open"), "noise_sd": 0.3, "loss": "experts"},
    )
]


@pytest.mark.parametrize("config", [FIGURE1, FIGURE1.quick(), FIGURE1.select("mha-K4"), *EXTENDED])
def test_a_config_survives_its_own_dictionary(config):
    again = Experiment.from_dict(config.to_dict())
    assert again == config
    assert again.hash() == config.hash()


def test_figure1_is_the_figure_of_the_paper():
    assert [panel.name for panel in FIGURE1.panels] == [
        f"{setting}-K{K}" for K in (3, 4) for setting in ("mha", "value", "output")
    ]
    assert len(FIGURE1.sizes) == 10
    assert (FIGURE1.sizes[0], FIGURE1.sizes[-1]) == (10_000, 100_000)
    assert np.ptp(np.diff(np.log(FIGURE1.sizes))) < 1e-3
    assert FIGURE1.replicates == 10
    assert FIGURE1.noise_sd == 0.1
    for panel in FIGURE1.panels:
        assert panel.truth == (TRUTH_OUTPUT if panel.setting == "output" else TRUTH_VALUE)
        assert panel.loss == ("r1" if panel.setting == "mha" else "voronoi")
        assert panel.start == Start(1.0, 0.083)
        assert panel.optimiser == Optimiser("least_squares", 1.3)
        assert type(panel.model()) is {
            "mha": hl.Mha, "value": hl.ValueGated, "output": hl.OutputGated
        }[panel.setting]  # fmt: skip


def test_every_entry_of_the_catalogue_says_what_it_shows_and_costs():
    for name, experiment in EXPERIMENTS.items():
        assert name == experiment.name
        assert experiment.title
        assert experiment.core_seconds > 0
        assert len(experiment.quick().sizes) >= 5
        assert experiment.quick().quick() == experiment.quick()
        assert declared(experiment) == experiment
        assert declared(experiment.quick()) == experiment.quick()


def test_selected_panels_have_files_of_their_own():
    names = {
        FIGURE1.stem,
        FIGURE1.quick().stem,
        FIGURE1.select("mha-K3").stem,
        FIGURE1.select("mha-K3").quick().stem,
        FIGURE1.select(["mha-K3", "mha-K4"]).stem,
    }
    assert len(names) == 5
    assert FIGURE1.select(["mha-K4", "mha-K3"]) == FIGURE1.select(["mha-K3", "mha-K4"])
    assert FIGURE1.select(None) is FIGURE1
    assert FIGURE1.select("mha-K3").quick() == FIGURE1.quick().select("mha-K3")
    assert declared(FIGURE1.select("mha-K3")) == FIGURE1.select("mha-K3")


def test_log_sizes_are_even_on_the_logarithmic_scale():
    assert log_sizes(1, 10_000, 5) == (1, 10, 100, 1000, 10_000)


def test_a_panel_knows_its_model():
    assert isinstance(PANEL, Panel)
    assert PANEL.model().phi.bias == 1.0
    assert PANEL.model().phi.name == "sigmoid"
