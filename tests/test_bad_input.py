"""Every border of the library against what readers hand over by mistake: a sentence, a field."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import sympy
from checks import random_measure

import hmoe_lib as hl
from hmoe_lib import identifiability as engine
from hmoe_lib.arguments import is_finite, number, real_array
from hmoe_lib.densities import ContaminatedMoE, GaussianMoE
from hmoe_lib.estimation import data_start, fit_likelihood, random_start, split_start
from hmoe_lib.experiments import catalogue, config, get, run, runner, slope, store
from hmoe_lib.experiments.__main__ import main
from hmoe_lib.experiments.journal import Journal
from hmoe_lib.experiments.truths import further_truth
from hmoe_lib.identifiability.families import custom
from hmoe_lib.identifiability.parsing import Z, parse_activation
from hmoe_lib.identifiability.points import interior
from hmoe_lib.identifiability.relations import prove
from hmoe_lib.identifiability.tape import Rationals, Tape
from hmoe_lib.identifiability.truths import generic_truth
from hmoe_lib.measures import Shape
from hmoe_lib.mixing import MixingMeasure

MODEL = hl.ValueGated("sigmoid", bias=1.0)
G = random_measure(np.random.default_rng(0))
X, Y = MODEL.sample(G, 100, rng=np.random.default_rng(1))
W = np.random.default_rng(2).standard_normal((4, 2, 2, 2))
BEYOND = 10**400  # an integer that float64 does not hold


def masked(array):
    hidden = np.zeros(array.shape, bool)
    hidden.flat[0] = True
    return np.ma.masked_array(array, hidden)


# ---- arrays --------------------------------------------------------------------------------------

SPOILED = {
    "masked": (masked, "masked entries"),
    "text": (lambda array: array.astype(str), "text"),
    "text among objects": (lambda array: array.astype(str).astype(object), "text"),
    "dates": (lambda array: np.zeros(array.shape, "datetime64[D]"), "entries of type datetime64"),
    "complex": (lambda array: array + 0j, "complex ones"),
    "beyond": (lambda array: np.full(array.shape, BEYOND, dtype=object), "int too large"),
    "a dict": (lambda array: {}, "float"),
}
BORDERS = {
    "predict": (X, "X", lambda v: MODEL.predict(G, v)),
    "X of a fit": (X, "X", lambda v: hl.fit_least_squares(MODEL, v, Y, G)),
    "y of a fit": (Y, "y", lambda v: hl.fit_gradient_descent(MODEL, X, v, G)),
    "points of a loss": (X, "X", lambda v: hl.voronoi_loss(MODEL, G, G, v)),
    "omega": (G.omega, "omega", lambda v: hl.HierarchicalMeasure(v, G.M, G.a)),
    "M": (G.M, "M", lambda v: hl.HierarchicalMeasure.normalized(G.omega, v, G.a)),
    "a": (G.a, "a", lambda v: hl.HierarchicalMeasure(G.omega, G.M, v)),
    "vector": (G.to_vector(), "vector", G.from_vector),
    "lower": (np.zeros(3), "lower", lambda v: hl.Box(v, np.ones(3))),
    "upper": (np.ones(3), "upper", lambda v: hl.Box(np.zeros(3), v)),
    "tokens": (X[:4], "X", lambda v: hl.attention.multi_head_attention(v, *W)),
    "weights": (W[2], "W_V", lambda v: hl.attention.gated_attention(X[:4], *W[:2], v, W[3])),
    "argument of phi": (X, "z", hl.activation("tanh")),
    "losses": (np.ones((5, 2)), "values", lambda v: slope(range(1, 6), v, np.random.default_rng())),
}


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("spoiled", SPOILED)
def test_arrays_that_numpy_would_take(border, spoiled):
    good, field, take = BORDERS[border]
    spoil, got = SPOILED[spoiled]
    take(good)
    with pytest.raises(ValueError, match=f"^{field}: expected .*, got .*{got}"):
        take(spoil(good))


def test_a_mask_that_hides_nothing_is_no_mask_and_good_arrays_are_not_copied():
    assert np.array_equal(real_array("X", np.ma.masked_array(X), "numbers"), X)
    assert real_array("X", X, "numbers") is X
    assert real_array("X", [[1, True], [2, 0]], "numbers").dtype == float


@pytest.mark.parametrize("wrong", [None, "1", 1j, np.nan, -np.inf, BEYOND, True, [1.0], np.ones(1)])
def test_what_is_not_a_finite_number(wrong):
    assert not is_finite(wrong)
    with pytest.raises(ValueError, match="step: expected a finite number > 0, got"):
        number("step", wrong, above=0.0)
    for call in (
        lambda: hl.fit_least_squares(MODEL, X, Y, G, gain=wrong),
        lambda: hl.fit_least_squares(MODEL, X, Y, G, tolerance=wrong),
        lambda: hl.fit_gradient_descent(MODEL, X, Y, G, step=wrong),
        lambda: hl.near_truth_start(G, 3, wrong, rng=np.random.default_rng()),
        lambda: MODEL.sample(G, 5, noise_sd=wrong, rng=np.random.default_rng()),
        lambda: hl.Box.around(G, wrong),
        lambda: hl.voronoi_loss_r(MODEL, G, G, X, r=wrong),
        lambda: MODEL.phi.with_bias(wrong),
        lambda: config.Start(constant=wrong),
    ):
        with pytest.raises(ValueError, match=r"expected a finite (number|power)"):
            call()


def test_what_is_a_finite_number():
    for right in (1, 0.5, Fraction(1, 2), np.float32(0.5), np.int64(3)):
        assert is_finite(right) and number("step", right) == float(right)


# ---- objects of the wrong kind -------------------------------------------------------------------

NO_MODELS = [None, "sigmoid", hl.ValueGated, G, {}, np.sin]


@pytest.mark.parametrize("wrong", NO_MODELS, ids=lambda model: str(model)[:20])
def test_what_is_not_a_model(wrong):
    for call in (
        lambda: hl.fit_least_squares(wrong, X, Y, G),
        lambda: hl.fit_gradient_descent(wrong, X, Y, G),
        lambda: hl.voronoi_cells(wrong, G, G, X),
        lambda: hl.voronoi_loss(wrong, G, G, X),
        lambda: hl.voronoi_loss_r(wrong, G, G, X),
    ):
        with pytest.raises(ValueError, match=r"model: expected a model such as Mha\(\), got"):
            call()


def test_responses_that_are_missing():
    for call in (
        lambda: hl.fit_least_squares(MODEL, X, None, G),
        lambda: hl.fit_gradient_descent(MODEL, X, None, G),
        lambda: MODEL.loss_and_gradient(G, X, None),
        lambda: MODEL.normal_equations(G, X, None),
    ):
        with pytest.raises(ValueError, match=r"y: expected shape \(n,\), got None"):
            call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: G.canonical("G"), "reference: expected a HierarchicalMeasure, got str"),
        (lambda: G.permuted(heads=[1.0, 0.0]), "heads: expected a permutation"),
        (lambda: G.permuted(heads=[True, False]), "heads: expected a permutation"),
        (lambda: hl.HierarchicalMeasure(-G.omega, G.M, G.a, signed="no"), "signed: expected True"),
        (lambda: hl.HierarchicalMeasure.from_json("[" * 200_000), "text: expected the JSON"),
        (lambda: hl.Box([], []), "lower: expected a vector without NaN, got shape"),
        (lambda: hl.Box([np.nan], [1.0]), "lower: expected a vector without NaN"),
        (lambda: hl.Box.around(G, 2.0, channels=2.5), "channels: expected an integer >= 1 or None"),
        (lambda: hl.Box.around(G, 2.0, channels=0), "channels: expected an integer >= 1 or None"),
        (lambda: hl.Activation("mine", None, np.cos, np.sin, "z"), "value: expected a function"),
        (lambda: store.save_measure(None, "G.json"), "G: expected a HierarchicalMeasure, got None"),
        (lambda: runner.grid(0, 2), "points: expected an integer >= 1, got 0"),
        (lambda: runner.grid(2, "2"), "dim: expected an integer >= 1, got '2'"),
        (lambda: parse_activation("sigmod"), "did you mean 'sigmoid'"),
        (lambda: parse_activation("sigmod(z)"), "did you mean 'sigmoid'"),
    ],
)
def test_objects_of_the_wrong_kind_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("method", ["predict", "components", "jacobian"])
def test_results_beyond_float64_are_refused(method):
    """Neither a warning nor a NaN: one sentence."""
    steep = hl.HierarchicalMeasure(G.omega, G.M, G.a * 1e305)
    for measure, inputs in ((G, X * 1e200), (steep, X * 1e10)):
        with pytest.raises(ValueError, match="X: expected a finite result, got overflow"):
            getattr(hl.Mha(), method)(measure, inputs)


# ---- experiments ---------------------------------------------------------------------------------

FIGURE1 = get("figure1")
PANEL = FIGURE1.panel("mha-K3")
TINY = replace(FIGURE1, name="tiny", panels=[PANEL], sizes=(200, 300), replicates=2, grid=4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: replace(PANEL, start="near"), "start: expected a Start, got 'near'"),
        (lambda: replace(PANEL, optimiser=None), "optimiser: expected an Optimiser, got None"),
        (lambda: replace(PANEL, bias=None), "bias: expected a finite number, got None"),
        (
            lambda: replace(FIGURE1.panel("value-K3"), activation=hl.activation("tanh")),
            "activation: expected a name",
        ),
        (lambda: replace(FIGURE1, panels=None), "panels: expected a list, got None"),
        (lambda: replace(FIGURE1, sizes=500), "sizes: expected a list, got 500"),
        (lambda: replace(FIGURE1, noise_sd=BEYOND), "noise_sd: expected a finite number >= 0"),
        (lambda: config.Optimiser(options=5), "options: expected pairs or a dict, got 5"),
        (lambda: FIGURE1.select(5), "panels: expected a list, got 5"),
        (lambda: FIGURE1.select([]), "panels: expected at least one name"),
        (lambda: slope(range(1, 6), np.ones((5, 2)), None), "rng: expected a numpy Generator"),
        (
            lambda: slope(range(1, 6), np.ones((5, 2)), np.random.default_rng(), resamples=0),
            "resamples: expected an integer >= 1",
        ),
        (
            lambda: slope(range(1, 6), np.ones((5, 2)), np.random.default_rng(), level="95"),
            "level: expected a number between 0 and 1",
        ),
    ],
)
def test_configs_and_slopes_name_the_field(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HMOE_CACHE", str(tmp_path / "cache"))


def test_a_folder_that_cannot_be_written_is_told_before_the_work(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    calls = []
    monkeypatch.setattr(runner, "replicate", lambda *key: calls.append(key))
    with pytest.raises(OSError, match="file"):
        run(TINY, jobs=1, progress=False, store=tmp_path / "file")
    assert main(["run", "figure1", "--quick", "--out", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not calls


def test_work_is_kept_until_its_result_is_stored(tmp_path, monkeypatch):
    def full(*_):
        raise OSError("no space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(store, "write_whole", full)
        with pytest.raises(OSError, match="no space"):
            run(TINY, jobs=1, progress=False, store=tmp_path / "out")
    assert len(Journal(TINY).records()) == 4
    monkeypatch.setattr(runner, "replicate", full)  # nothing is left to compute
    result = run(TINY, jobs=1, progress=False, store=tmp_path / "out")
    assert store.load(TINY, tmp_path / "out").digest() == result.digest()
    assert not Journal(TINY).path.exists()


@pytest.mark.parametrize(
    "damage", [lambda text: "[" * 100_000, lambda text: text.replace("0.1,", f"{BEYOND},")]
)
def test_json_that_python_cannot_hold_is_damage(tmp_path, damage):
    _, about = store.save(run(TINY, jobs=1, progress=False), tmp_path)
    about.write_text(damage(about.read_text()))
    with pytest.raises(store.DamagedResultError, match="tiny: the stored result is damaged"):
        store.load("tiny", tmp_path)


# ---- mixtures, densities, proofs -----------------------------------------------------------------

RNG = np.random.default_rng(3)
ONE = MixingMeasure([[0.0]], [0.0], [[0.5, 0.0]])
TWO = MixingMeasure([[1.0], [0.0]], [0.0, 0.0], [[2.0, 0.0, 0.0], [-2.0, 0.0, 0.0]])
NORMAL = GaussianMoE()
PROMPT = ContaminatedMoE(lambda x, y: np.zeros(len(y)))
OPEN = custom("phi(a*x1)", [{"a": 1}], dim=1)
REFUSED = {
    "rows": (lambda: MixingMeasure([[1.0]], [0.0, 0.0], [[1.0]] * 2), "router: expected 2 rows"),
    "masks": (lambda: MixingMeasure([[1.0]], [0.0], [[1.0]], pinned=[None] * 3),
              "pinned: expected four masks, got 3"),
    "format": (lambda: MixingMeasure.from_json(ONE.to_json().replace("mixing 1", "mixing 2")),
               "text: expected the JSON of a mixing measure, got format 'hmoe mixing 2'"),
    "two prompts": (lambda: PROMPT.log_density(TWO, [[1.0]], [0.0]), "G: expected one atom"),
    "no draws": (lambda: PROMPT.sample(ONE, [[1.0]], rng=RNG), "draw_known: sampling needs a"),
    "nodes": (lambda: split_start(NORMAL, TWO, 0, nodes=1.0, rng=RNG),
              r"nodes: expected a number in \[0, 1\), got 1"),
    "prompt's groups": (lambda: data_start(PROMPT, [[1.0]], [0.0], 1, rng=RNG),
                        "model: expected a gated density"),
    "groups": (lambda: data_start(NORMAL, [[1.0]], [0.0], 1, kind="means", rng=RNG),
               "kind: expected 'kmeans' or 'random', got 'means'"),
    "steps": (lambda: fit_likelihood(NORMAL, X[:, :1], Y, TWO, max_iterations=2.5),
              "largest number of steps: expected an integer, got 2.5"),
    "endless": (lambda: random_start(Shape(1, 1, 1, 1), bounds=hl.Box([-np.inf, 0], [9, 9]),
                                     rng=RNG), "bounds: expected finite bounds to draw from"),
    "start's rng": (lambda: random_start(Shape(1, 1, 1, 1), bounds=hl.Box([0, 0], [9, 9]),
                                         rng=3), "rng: expected a numpy Generator, got int"),
    "another truth": (lambda: further_truth("usual", "value"), "truth: expected one of"),
    "order": (lambda: custom("a*x1", [{"a": 1}], order=3), "order: expected 1 or 2, got 3"),
    "no atom": (lambda: custom("a*x1", []), "atoms: expected at least one atom"),
    "open": (lambda: engine.examine(OPEN), "phi: this family leaves the activation open"),
    "too many": (lambda: engine.examine(OPEN.subset([0] * 401), "tanh"), "401 functions, more"),
    "a pole": (lambda: engine.examine(OPEN.subset([0] * 2), "1/(z - 1/3)"), "near z = 0.333"),
    "accuracy": (lambda: engine.gram("tanh", dim=1, nodes=4).sample_size(accuracy=0.0),
                 "noise_sd, accuracy: expected positive numbers"),
    "truth's sizes": (lambda: engine.ModelGram("tanh", (1, 2, 1, 1), nodes=4)(generic_truth(1)),
                      r"truth: expected sizes \(1, 2, 1, 1\), got \(2, 2, 2, 1\)"),
    "points": (lambda: interior(99, 1), "dim: expected 1 to"),
    "pi": (lambda: Tape([sympy.pi], []).run([], Rationals()), "pi is not rational"),
    "a root": (lambda: Tape([sympy.sqrt(2)], []).run([], Rationals()), "a root is not rational"),
    "a power": (lambda: Tape([Z**10_001], [Z]).run([1], Rationals()), "a power of at most"),
    "sine": (lambda: Tape([sympy.sin(Z)], [Z]).run([1], Rationals()), "sin is not rational"),
    "an open function": (lambda: Tape(OPEN.expressions(), []), "cannot be computed"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_mixtures_and_proofs_refuse(case):
    call, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_what_has_no_answer_says_so():
    """Not equal, not declared, no finite order, nothing proved: each has its own value."""
    assert ONE != 3 and ONE != TWO
    assert catalogue.declared(replace(TINY, name="nobody")) is None
    deltas = np.array([0.4, 0.3, 0.2, 0.1])
    lost = engine.Contact(deltas, 0.0 * deltas, np.nan, np.nan, np.nan)
    assert "vanish to rounding" in str(lost) and lost.integer is None
    assert prove({0: sympy.Float(1.0), 1: sympy.Float(-1.0)}, [Z, Z]) is False
    assert prove({0: sympy.Integer(1), 1: sympy.Integer(-1)}, [Z, Z]) is True


STUCK = """
import sys, time
sys.path.insert(0, sys.argv[1])
from test_bad_input import TINY, runner
from hmoe_lib.experiments.__main__ import main
import hmoe_lib.experiments.catalogue as catalogue
catalogue.EXPERIMENTS["tiny"] = TINY

def wait(config, panel, n, number):
    print("working", flush=True)
    time.sleep(60)

runner.replicate = wait
sys.exit(main(["run", "tiny", "--jobs", "2", "--no-progress"]))
"""


def children(parent: int) -> list[int]:
    """Processes started as workers by a parent, from the tables of Linux."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/stat") as stat, open(f"/proc/{entry}/cmdline") as command:
                if stat.read().rsplit(")", 1)[1].split()[1] == str(parent):
                    found += [int(entry)] if "LokyProcess" in command.read() else []
        except (OSError, IndexError):
            continue
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs the process table of Linux")
def test_workers_killed_again_and_again_are_one_line_and_status_two(tmp_path):
    """A worker that is killed once is replaced (test_experiments_reliability); not for ever."""
    command = [sys.executable, "-c", STUCK, os.path.dirname(__file__)]
    with open(tmp_path / "err", "w+") as told:
        process = subprocess.Popen(command, stderr=told, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 600  # a net, and no measure: a busy machine takes a minute
        while process.poll() is None and time.monotonic() < deadline:
            if len(workers := children(process.pid)) == 2:
                time.sleep(1.0)  # until both have work
                with contextlib.suppress(ProcessLookupError):  # the pool itself ends workers, too
                    os.kill(workers[0], signal.SIGKILL)
            time.sleep(0.05)
        process.kill()
        assert process.wait() == 2
        told.seek(0)
        lines = told.read().splitlines()
    assert len(lines) == 1 and "workers were killed again and again" in lines[0], lines
