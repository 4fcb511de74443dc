"""The atlas: proofs, certificates, splits; stored cells rechecked by code that shares nothing."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import sympy

from hmoe_lib import identifiability as engine
from hmoe_lib.identifiability import __main__ as command
from hmoe_lib.identifiability.__main__ import main
from hmoe_lib.identifiability.atoms import EXPERTS, GATES
from hmoe_lib.identifiability.families import Definition, Family, of_order, rational, single
from hmoe_lib.identifiability.literature import STATED
from hmoe_lib.identifiability.parsing import parse, real
from hmoe_lib.identifiability.relations import Problem
from hmoe_lib.identifiability.solve import complete

ROOT = Path(__file__).resolve().parents[1]
STORED = json.loads((ROOT / "book" / "results" / "atlas.json").read_text(encoding="utf8"))
CELLS = {(c["gate"], c["expert"]): c for c in STORED["cells"]}
INF = float("inf")


# ---- the stored atlas ----------------------------------------------------------------------------


def test_every_gate_meets_every_expert():
    assert list(CELLS) == [(g, e) for g in GATES for e in EXPERTS]
    assert len(GATES) >= 9 and len(EXPERTS) >= 8


def test_every_stored_cell_is_rechecked():
    faults = {key: found for key, c in CELLS.items() if (found := engine.recheck_cell(c))}
    assert faults == {}
    assert all(r["proved"] for c in CELLS.values() for r in c["relations"])
    assert all(c["certificate"] for c in CELLS.values())
    assert not [key for key, c in CELLS.items() if c["order"] is None or c["exact"] is None]


SAMPLE = [
    ("linear softmax", "affine"),
    ("polynomial quadratic", "tanh neuron"),
    ("cosine", "constant"),
    ("temperature", "linear"),
    ("sigmoid, linear score", "tanh neuron"),
    ("sigmoid, quadratic score", "polynomial"),
]


@pytest.mark.parametrize("key", SAMPLE, ids=" x ".join)
def test_the_stored_atlas_is_what_the_engine_says(key):
    now = json.loads(json.dumps(engine.cell_to_dict(engine.atom_verdict(*key))))
    stored = copy.deepcopy(CELLS[key])
    for cell in (now, stored):
        cell["contact"] = None
    assert now == stored


def test_the_page_has_the_same_atlas():
    page = json.loads((ROOT / "book" / "_static" / "atlas.json").read_text(encoding="utf8"))
    assert page == json.loads(json.dumps(engine.atlas_for_page(STORED)))
    assert set(page["cells"]) == set(GATES)


def test_references_of_the_atlas_exist():
    keys = {c["source"] for c in CELLS.values()} - {"ours"}
    assert keys == set(STATED.values())
    text = (ROOT / "book" / "references.bib").read_text(encoding="utf8")
    assert [k for k in keys if f"{{{k}," not in text] == []
    assert all(key in CELLS for key in STATED)


# ---- what a recheck refuses ----------------------------------------------------------------------


def broken(key, change):
    cell = copy.deepcopy(CELLS[key])
    change(cell)
    return engine.recheck_cell(cell)


HEAT = ("polynomial quadratic", "tanh neuron")
GOOD = ("linear softmax", "tanh neuron")


def test_a_wrong_relation_is_refused():
    def double(cell):
        cell["relations"][0]["terms"][0][0] = "2"

    assert "does not vanish" in broken(HEAT, double)[0]


def test_a_relation_said_twice_is_refused():
    def twice(cell):
        cell["relations"].append(cell["relations"][0])

    found = broken(HEAT, twice)
    assert "relations are dependent" in found and "add up" in found[0]


def test_a_certificate_of_dependent_functions_is_refused():
    def repeat(cell):
        functions = cell["certificate"]["functions"]
        functions[-1] = functions[0]

    assert broken(GOOD, repeat)[0] == "certificate does not hold"


def test_a_certificate_of_another_atom_is_refused():
    def swap(cell):
        cell["certificate"] = CELLS[HEAT]["certificate"]

    assert "certificate is about another atom" in broken(GOOD, swap)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.update(order=5),
        lambda s: s.update(leading="2*(" + s["leading"] + ")"),
        lambda s: s.update(order="inf"),
        lambda s: s.update(change=s["change"] + " + delta**3"),
    ],
)
def test_a_wrong_split_is_refused(change):
    def spoil(cell):
        change(cell["splits"][0])

    assert any("split" in f for f in broken(HEAT, spoil))


def test_an_order_that_does_not_follow_is_refused():
    assert broken(HEAT, lambda c: c.update(order=2))
    assert broken(GOOD, lambda c: c.update(order="inf"))


def test_a_witness_that_is_not_positive_is_refused():
    def spoil(cell):
        block = next(iter(cell["harmless"]["witness"].values()))
        block["W"][0][0] = "-1"

    assert broken(GOOD, spoil) == ["nothing shows that a split cannot use the relations"]


@pytest.mark.parametrize("key", ["definitions", "certificate", "relations", "functions"])
def test_a_damaged_cell_is_refused(key):
    assert "cannot be read" in broken(GOOD, lambda c: c.pop(key))[0]


# ---- the four likelihood families ----------------------------------------------------------------


def relations(gate, expert, **options):
    return [str(r) for r in engine.atom_verdict(gate, expert, **options).relations]


def test_gaussian_experts_have_both_relations():
    found = relations("linear softmax", "Gaussian density")
    assert "2 * [d/dnu u1] - [d2/db^2 u1] = 0" in found
    assert "[d/da u1] - [d2/dbeta db u1] = 0" in found
    v = engine.atom_verdict("linear softmax", "Gaussian density")
    assert (v.order, v.mechanisms, v.exact) == (4.0, ("heat",), True)


def test_a_known_variance_takes_the_heat_out():
    v = engine.atom_verdict("linear softmax", "exp(-(y - a*x1 - b)**2 / 2)")
    assert (v.order, v.word, v.mechanisms) == (2.0, "harmless", ())


def test_a_laplace_like_density_has_no_heat():
    v = engine.atom_verdict("linear softmax", "exp(-sqrt((y - b)**2 + nu)) / nu", at={"nu": 1})
    assert v.mechanisms == () and v.order == 2


def test_temperature_is_flat_and_its_activation_is_not():
    found = relations("temperature", "Gaussian density")
    assert "7 * [d/dbeta u1] + 15 * [d/dtau u1] = 0" in found
    assert "2 * [d/da u1] - 3 * [d2/dbeta db u1] = 0" in found  # at tau = 3/2
    v = engine.atom_verdict("temperature", "tanh neuron")
    assert v.exact is False and v.order == INF and v.mechanisms == ("scale",)
    w = engine.atom_verdict("activated temperature", "tanh neuron")
    assert w.exact is True and w.order == 2 and w.relations == ()


def test_multinomial_experts_exchange_with_a_linear_gate_only():
    found = relations("linear softmax", "multinomial")
    assert "[d/dc1 u1] - [d2/dbeta dl1 u1] = 0" in found
    assert "[d/dc2 u1] - [d2/dbeta dl2 u1] = 0" in found
    assert not [r for r in relations("transformed input", "multinomial") if "beta" in r]


def test_top_k_is_linear_inside_a_region():
    assert relations("top-K", "GELU neuron") == relations("linear softmax", "GELU neuron")
    # Certified on the cube, and the functions are analytic: the same minor on a part of it.
    problem = Problem(engine.atom("top-K", "GELU neuron").family(), None)
    kept = complete(problem, range(len(problem.family))).independent
    rng = np.random.default_rng(0)
    X = rng.uniform([0.2, -1], [0.4, 1], size=(400, 2))  # a region: 0.2 < x1 < 0.4
    from hmoe_lib.identifiability.tape import Arrays

    names = [s.name for s in problem.family.inputs]
    columns = problem.tape.run([X[:, ["x1", "f"].index(n)] for n in names], Arrays())
    F = np.stack([np.broadcast_to(columns[i], len(X)) for i in kept], axis=1)
    s = np.linalg.svd(F / np.linalg.norm(F, axis=0), compute_uv=False)
    assert s[-1] > 1e-14 * s[0]


# Rank with the score x and with tanh(x), of 21 functions; intercepts of flat classes are 0 so that
# all numbers are rational and every relation is proved.
RANKS = {
    "good": ({"c1": "3", "c2": "-2", "l1": "1/2", "l2": "-2/5"}, 18, 20),
    "one class flat": ({"c1": "3", "c2": "0", "l1": "1/2", "l2": "0"}, 15, 18),
    "bad": ({"c1": "0", "c2": "0", "l1": "0", "l2": "0"}, 9, 13),
}


@pytest.mark.parametrize("regime", RANKS)
def test_multinomial_rank_table(regime):
    """The second-order list of the numerator, classes as coordinates."""
    at, plain, transformed = RANKS[regime]
    for gate, rank in (("linear softmax", plain), ("transformed input", transformed)):
        family = engine.atom(gate, "multinomial", at=at).family(numerator=True)
        found = complete(Problem(family, None), range(len(family)))
        assert (len(family), found.rank, found.complete) == (21, rank, True)


@pytest.mark.parametrize("gate", ["linear softmax", "transformed input"])
def test_two_classes_of_equal_slope_split_along_a_direction(gate):
    """A square of a direction that is no coordinate; a transformed input does not remove it."""
    v = engine.atom_verdict(gate, "multinomial", at={"c2": 0, "l2": 0})
    assert v.word == "slow" and v.mechanisms == ("heat",) and v.harmless.holds is False
    assert "l1 +- delta, l2 +- 2 delta, l1 + 1/2 delta^2" in [s.text for s in v.splits]
    cell = json.loads(json.dumps(engine.cell_to_dict(v)))
    assert engine.recheck_cell(cell) == []


def test_contamination_meets_the_pretrained_model():
    """(1 - lam) f0 + lam f: heat in f; f0 of the same form at the same place costs a direction."""
    f = "exp(-(y - b)**2/(2*nu)) / sqrt(nu)"
    at = {"lam": "1/3", "b": "1/5", "nu": 1}

    def found(f0):
        text = f"(1 - lam)*({f0}) + lam*{f}"
        names = ["y", *at]
        definition = Definition(parse(text, names), {real(n): rational(v) for n, v in at.items()})
        listed = tuple(single("u1", by) for by in of_order(2, list(at)))
        family = Family("contaminated", (real("y"),), {"u1": definition}, listed)
        return complete(Problem(family, None), range(len(family)))

    apart = found("exp(-2*sqrt(1 + y**2))")
    same = found("exp(-(y - 1/5)**2/2)")
    assert any("[d/dnu u1] - [d2/db^2 u1] = 0" in str(r) for r in apart.relations)
    assert apart.rank > same.rank
    assert "[d/dlam u1] = 0" in [str(r) for r in same.relations]
    assert "[d/dlam u1] = 0" not in [str(r) for r in apart.relations]


# ---- the regression companions -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gate", "expert", "order", "mechanisms"),
    [
        ("monomial quadratic", "GELU neuron", 2, ()),
        ("polynomial quadratic", "GELU neuron", 4, ("heat",)),
        ("monomial quadratic", "affine", INF, ("shift",)),
        ("polynomial quadratic", "affine", INF, ("heat", "shift")),
        ("sigmoid, linear score", "GELU neuron", 2, ()),
        ("sigmoid, linear score", "ReLU neuron", INF, ("scale",)),
        ("sigmoid, linear score", "affine", INF, ("scale", "shift")),
        ("linear softmax", "ReLU neuron", INF, ("scale",)),
        ("perturbed cosine", "tanh neuron", 2, ()),
        ("cosine", "tanh neuron", INF, ("scale",)),
    ],
)
def test_orders_of_the_trials(gate, expert, order, mechanisms):
    v = engine.atom_verdict(gate, expert)
    assert (v.order, v.mechanisms) == (order, mechanisms)


@pytest.mark.parametrize("expert", ["tanh neuron", "affine"])
def test_two_inputs_give_the_same_verdict(expert):
    for gate in ("linear softmax", "polynomial quadratic", "monomial quadratic"):
        one, two = (engine.atom_verdict(gate, expert, dim=d) for d in (1, 2))
        assert (one.word, one.mechanisms, one.exact) == (two.word, two.mechanisms, two.exact)


def test_a_free_amplitude_makes_every_neuron_unsafe_under_a_sigmoid():
    free = engine.atom_verdict("sigmoid, linear score", "c*tanh(a*x1 + b)")
    fixed = engine.atom_verdict("sigmoid, linear score", "tanh(a*x1 + b)")
    assert free.order == INF and fixed.order == 2


def test_numerator_relations_are_broken_by_the_normaliser():
    v = engine.atom_verdict("monomial quadratic", "affine")
    assert v.exact is True
    assert "10 * [d/da" not in str(v.relations)
    assert any("[u1]" in str(r) for r in v.numerator)


@pytest.mark.parametrize("split", [("1/3", "2/3"), ("1/5", "3/10"), ("1/2", "1/4", "1/5")])
def test_the_curvature_lemma_of_sigmoid_gates(split):
    """diag(sigma'') is positive definite where sum sigma' beta = 0, if the gates sum to less than
    1; at sum 1 two gates lose it."""
    p = np.array([float(sympy.Rational(v)) for v in split])
    first, second = p * (1 - p), p * (1 - p) * (1 - 2 * p)
    basis = np.linalg.svd(first[None])[2][1:]
    lowest = np.linalg.eigvalsh(basis @ np.diag(second) @ basis.T)[0]
    assert lowest > 1e-12 if p.sum() < 1 else abs(lowest) < 1e-12


HARMLESS = [k for k, c in CELLS.items() if c["order"] == 2 and k[0] != "top-K"]


@pytest.mark.parametrize("key", HARMLESS, ids=" x ".join)
def test_in_a_mixture_there_are_no_more_relations(key):
    """The model condition behind order 2, at a truth of two atoms: f is no coordinate any more."""
    found = engine.examine(engine.mixture_family(engine.atom(*key))).solution
    stored = [r["text"] for r in CELLS[key]["relations"]]
    assert found.complete and [str(r) for r in found.relations] == stored


def test_the_mixture_is_that_of_its_gate():
    """w (h - f) and v (k - f) add up to 0 under a softmax; a sigmoid has a bias and no f."""
    soft = engine.mixture_family(engine.atom("linear softmax", "tanh neuron"))
    both = [d.expression.xreplace(d.at) for d in soft.definitions.values()]
    assert [s.name for s in soft.inputs] == ["x1"] and len(both) == 2
    assert sympy.simplify(both[0] + both[1]) == 0 != sympy.simplify(both[0])
    single_gate = engine.mixture_family(engine.atom("sigmoid, linear score", "tanh neuron"))
    second = single_gate.definitions["u2"]
    s = sum(second.at[real(n)] * x for n, x in (("beta", real("x1")), ("beta0", 1)))
    h = sympy.tanh(second.at[real("a")] * real("x1") + second.at[real("b")])
    gap = second.expression.xreplace(second.at) - h / (1 + sympy.exp(-s))
    assert sympy.simplify(gap) == 0


def test_a_mixture_of_linear_experts_has_more():
    family = engine.mixture_family(engine.atom("linear softmax", "affine"))
    assert len(engine.examine(family).solution.relations) >= 4


@pytest.mark.parametrize(
    ("gate", "expert", "name", "order"),
    [
        ("polynomial quadratic", "tanh neuron", "beta", 4),
        ("monomial quadratic", "tanh neuron", "A", 2),
        ("linear softmax", "Gaussian density", "b", 4),
        ("sigmoid, linear score", "GELU neuron", "b", 2),
    ],
)
def test_orders_of_contact_without_noise(gate, expert, name, order):
    deltas = np.array([0.2, 0.14, 0.1, 0.07]) if order == 4 else np.array([0.06, 0.04, 0.03, 0.02])
    assert engine.atom_contact(gate, expert, name, deltas).integer == order


def test_stored_contacts_are_measured_again():
    """With a tolerance: the last bits of a descent are the machine's."""
    key = ("monomial quadratic", "tanh neuron")
    found, stored = engine.cell_contacts(engine.atom_verdict(*key)), CELLS[key]["contact"]
    assert list(found) == list(stored) == ["A", "a", "b"]
    for name, contact in found.items():
        assert contact["integer"] == stored[name]["integer"] == 2
        assert abs(contact["order"] - stored[name]["order"]) < 0.02
    assert engine.cell_contacts(engine.atom_verdict("linear softmax", "linear")) == {}


def test_contacts_that_are_refused():
    with pytest.raises(ValueError, match="name: expected one of"):
        engine.atom_contact("temperature", "tanh neuron", "tau")
    with pytest.raises(ValueError, match="deltas: expected at least four"):
        engine.atom_contact("linear softmax", "tanh neuron", "b", [0.1, 0.2])
    with pytest.raises(ValueError, match="expert: a ReLU neuron by its length"):
        engine.atom_contact("linear softmax", "ReLU neuron", "r")


# ---- a reader's own, and bad input ---------------------------------------------------------------


def test_an_own_gate_in_text_and_in_sympy():
    x, beta = sympy.symbols("x1 beta")
    own = engine.atom_verdict(beta * sympy.sin(x), "tanh neuron")
    assert own.word == "harmless" and own.relations == ()
    assert engine.atom_verdict("beta*sin(x1)", "tanh(a*x1 + b)").word == "harmless"
    heat = engine.atom_verdict("beta*sin(x1) + gamma*sin(x1)**2", "tanh neuron")
    assert heat.order == 4 and heat.mechanisms == ("heat",)


@pytest.mark.parametrize(
    ("gate", "expert", "message"),
    [
        ("cos", "linear", "gate: expected one of .*did you mean 'cosine'"),
        ("linear softmax", "neuron", "expert: expected one of"),
        ("linear softmax", "multi-nomial", "expert: expected one of"),
        ("beta*x1", "relu(a*x1)", "expert: .* has a kink"),
        ("x1**2", "linear", "gate: expected at least one parameter"),
        ("linear softmax", "x1**2", "expert: expected at least one parameter"),
        ("a*x1", "tanh(a*x1)", "expert: the parameter 'a' belongs to the gate"),
        ("beta*x1 +", "linear", "gate: .* cannot be read"),
        ("__import__('os')", "linear", "not an allowed function"),
        (3.0, "linear", "gate: expected a name, a formula or a Gate"),
        ("beta*x1**beta", "linear", "constant exponent"),
    ],
)
def test_gates_and_experts_that_are_refused(gate, expert, message):
    with pytest.raises(ValueError, match=message):
        engine.atom_verdict(gate, expert)


def test_a_word_that_is_like_no_name_is_a_formula():
    own, named = (engine.atom_verdict("linear softmax", expert) for expert in ("q", "constant"))
    assert own.atom.expert == sympy.Symbol("q", real=True)
    assert (own.order, own.mechanisms) == (named.order, named.mechanisms) == (INF, ("shift",))


@pytest.mark.parametrize("dim", [0, 4, True, 1.5])
def test_dimensions_that_are_refused(dim):
    with pytest.raises(ValueError, match="dim: expected an integer"):
        engine.atom("linear softmax", "linear", dim=dim)


def test_values_that_are_refused():
    with pytest.raises(ValueError, match="at: 'gamma' is no parameter"):
        engine.atom("linear softmax", "linear", at={"gamma": 1})
    with pytest.raises(ValueError, match="needs two inputs"):
        engine.atom("cosine", "linear", dim=1)


def test_the_command_for_a_cell(capsys):
    assert main(["--gate", "monomial quadratic", "--expert", "tanh neuron"]) == 0
    assert "harmless, order of contact 2" in capsys.readouterr().out
    assert main(["--gate", "beta*x1 + A*x1**2", "--expert", "tanh neuron", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["order"] == 4
    assert main(["--gate", "cos", "--expert", "linear"]) == 2
    assert main(["--gate", "cosine"]) == 2
    assert "error: expected both --gate and --expert" in capsys.readouterr().err
    assert main([]) == 2
    assert "error: EXPR" in capsys.readouterr().err


def test_the_command_for_the_atlas(capsys, monkeypatch):
    gate, expert = "polynomial quadratic", "tanh neuron"
    cells = engine.atlas([gate], [expert])
    monkeypatch.setattr(command, "atlas", lambda: cells)
    monkeypatch.setattr(command, "cell_contacts", lambda v: {"beta": v.order})

    def printed(*options):
        assert main(["--atlas", *options]) == 0
        return capsys.readouterr().out

    assert printed().split("\n")[1] == "polynomial quadratic  4 heat"
    whole = json.loads(printed("--json", "--contacts"))
    assert whole["cells"][0]["contact"] == {"beta": 4.0}
    assert not json.loads(printed("--json"))["cells"][0]["contact"]
    on_page = engine.atlas_for_page(STORED)["cells"][gate][expert]
    assert json.loads(printed("--page"))["cells"] == {gate: {expert: on_page}}
