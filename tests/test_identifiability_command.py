"""Untrusted text, refusals, the command and its exit status."""

import io
import json
import math
import subprocess
import sys
import warnings

import numpy as np
import pytest
import sympy

from hmoe_lib import identifiability as engine
from hmoe_lib.activations import ACTIVATIONS, Activation
from hmoe_lib.identifiability.__main__ import main
from hmoe_lib.identifiability.parsing import FUNCTIONS, SEVERAL, Z, parse, parse_activation
from hmoe_lib.identifiability.tape import Arrays, Tape
from hmoe_lib.identifiability.truths import read_atoms, read_truth

REFUSED = {
    "__import__('os').system('true')": "not an allowed function",
    "z.__class__": "Attribute",
    "lambda: z": "Lambda",
    "[z for z in z]": "ListComp",
    "(z := 3)": "NamedExpr",
    "z if z else 1": "IfExp",
    "f'{z}'": "JoinedStr",
    "eval(z)": "not an allowed function",
    "phi(z)": "not an allowed function",
    "'z'": "not a number",
    "True": "not a number",
    "1j*z": "not a number",
    "9**9**9": "constant exponent",
    "z**z": "constant exponent",
    "(((z**12)**12)**12)": "beyond degree",
    "(z**12 + 1)**12": "beyond degree",
    "((9**12)**12)**12": "too large",
    "1e400*z": "out of range",
    "0x10*z": "decimal",
    "z*0.3333333333333333333333333333333333333333333": "decimal",
    "z" * 601: "at most 600",
    "-" * 100 + "z": "nested",
    "(" * 250 + "z" + ")" * 250: "cannot be read",
    "sin()": "wrong arguments",
    "sin(z, z)": "wrong arguments",
    "sin(z=1)": "wrong arguments",
    "max(z)": "wrong arguments",
    "z/0": "divides by zero",
    "0**(-1)": "not a finite real",
    "log(-1)*z": "not a finite real",
    "x + 1": "not a symbol here",
    "nan*z": "not a symbol here",
    "z^2": "write \\*\\*",
    "z//2": "not arithmetic",
    "not z": "not arithmetic",
    "sigmoid(z": "cannot be read",
    "": "expected text",
    "z; z": "cannot be read",
    "z\x00": "cannot be read",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda t: t[:20])
def test_text_that_is_refused(text):
    with pytest.raises(ValueError, match=f"expression: .*{REFUSED[text]}"):
        parse(text)


def test_nothing_of_the_text_is_evaluated(tmp_path):
    target = tmp_path / "made"
    for text in (f"open({str(target)!r}, 'w')", f"exec('open({str(target)!r}, \"w\")')*z"):
        with pytest.raises(ValueError):
            parse(text)
    assert not target.exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("z + 0.1", Z + sympy.Rational(1, 10)),
        ("2e-1*z", Z / 5),
        ("E**z", sympy.exp(Z)),
        ("z**(1/3)", Z ** sympy.Rational(1, 3)),
        ("-(+z)", -Z),
        ("erfc(z)", 1 - sympy.erf(Z)),
    ],
)
def test_text_that_is_read(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize("name", [n for n in ACTIVATIONS if n != "relu"] + ["power2", "power5"])
def test_names_mean_the_same_as_in_the_library(name):
    from hmoe_lib.activations import activation

    phi = activation(name, bias=0.5)
    e = parse_activation(phi)
    assert sympy.simplify(e - phi.symbolic(Z)) == 0
    assert parse_activation(name).subs(Z, Z + sympy.Rational(1, 2)).equals(e)


FORMULAS = {
    **{name: getattr(math, name) for name in ("exp", "log", "sqrt", "sin", "cos", "tan", "sinh",
                                              "cosh", "tanh", "atan", "asinh", "erf", "erfc")},
    "sech": lambda t: 2 / (math.exp(t) + math.exp(-t)),
    "sinc": lambda t: math.sin(t) / t,
    "sigmoid": lambda t: 1 / (1 + math.exp(-t)),
    "silu": lambda t: t / (1 + math.exp(-t)),
    "gelu": lambda t: t * 0.5 * math.erfc(-t / math.sqrt(2)),
    "softplus": lambda t: math.log1p(math.exp(t)),
    "mish": lambda t: t * math.tanh(math.log1p(math.exp(t))),
    "abs": abs,
    "sign": lambda t: math.copysign(1, t),
    "relu": lambda t: max(t, 0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in SEVERAL and n != "Abs"])
def test_functions_of_the_text_are_those_of_the_field(name):
    for t in (0.3, 1.7, *(() if name in ("log", "sqrt") else (-0.6,))):
        e = parse(f"{name}(z)")
        if name in ("abs", "sign", "relu"):  # a kink is read, to be refused: no tape runs it
            found = e.subs(Z, t)
        else:
            found = Tape([e], [Z]).run([np.array([t])], Arrays())[0][0]
        assert float(found) == pytest.approx(FORMULAS[name](t), rel=1e-14)


NOT_ANALYTIC = {
    "relu": "at z = 0, where phi' jumps.*homogeneous of degree 1.*model condition fails",
    "abs(z)": "at z = 0, where phi' jumps.*homogeneous of degree 1",
    "max(z, z/10)": "at z = 0, where phi' jumps.*homogeneous of degree 1",
    "max(z, 0)**2": "at z = 0, where phi'' jumps.*homogeneous of degree 2: t phi' = 2 phi",
    "max(z, 1/2)": "at z = 1/2, where phi' jumps; the conditions need phi''$",
    "max(3*z, 1)": "at z = 1/3, where phi' jumps",
    "min(max(z, -1), 1)": "branches meet",
    "sqrt((z - 1/3)**2)": "at z = 1/3, where phi' jumps",
    "(z**2)**(3/2)": "at z = 0, where phi''' jumps",
    "sign(z)": "at z = 0, where phi jumps",
    "1/(z - 0.123456789)": "near z = 0.123",
    "log(1 - z)": "near z = 1$",
    "log(z)": "near z = 0$",
    "sqrt(z)": "near z = 0$",
    "tan(z)": "near z = -?1.571",
    "z**(1/3)": "near z = 0$",
    "exp(exp(exp(exp(exp(z)))))": "not finite",
    "3": "constant",
    "z - z": "constant",
    "sin(z)**2 + cos(z)**2": "constant",
}


@pytest.mark.parametrize("text", NOT_ANALYTIC)
def test_activations_that_are_refused(text):
    with pytest.raises(ValueError, match=NOT_ANALYTIC[text]):
        engine.verdict(text, dim=1)


def test_a_pole_outside_the_reach_of_the_atoms_is_allowed():
    near = [{"M": [[1]], "a": [2]}]
    far = [{"M": [[1]], "a": [9]}]
    assert engine.verdict("1/(7 - z)", dim=1, atoms=near).strongly_identifiable is not None
    with pytest.raises(ValueError, match="near z = 7"):
        engine.verdict("1/(7 - z)", dim=1, atoms=far)


@pytest.mark.parametrize(
    "text",
    [
        "mish",
        "atan(z)",
        "z*sigmoid(1.702*z)",
        "log(cosh(z))",
        "z*exp(-z**2)",
        "asinh(z)",
        "1/(1 + z**2)",
        "sqrt(1 + z**2)",
        "log(1 + z**2)",
        "exp(sin(z))",
        "sin(z) + cos(2*z)",
        "erfc(z)",
    ],
)
@pytest.mark.parametrize("condition", ["listed", "sharp"])
def test_activations_that_nobody_listed_are_decided(text, condition):
    v = engine.verdict(text, condition=condition)
    assert v.strongly_identifiable is not None
    assert engine.recheck(v.certificate.to_json())
    assert all(r.proved for r in v.relations)
    assert (engine.ode_test(text, condition).satisfied is False) is v.strongly_identifiable


# ---- the command -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["sigmoid(z + 1)", "--dim", "1"], 0),
        (["z*(1+erf(z/sqrt(2)))/2", "--dim", "1"], 1),
        (["z*(1+erf(z/sqrt(2)))/2", "--dim", "1", "--condition", "sharp"], 0),
        (["tanh", "--dim", "1", "--condition", "model"], 0),
        (["tanh", "--dim", "1", "--setting", "II"], 1),
        (["exp(asinh(z)) - sqrt(1 + z**2)", "--dim", "1"], 3),
        (["relu"], 2),
        (["import os"], 2),
        (["tanh", "--dim", "9"], 2),
        (["tanh", "--atoms", "no such file"], 2),
    ],
)
def test_exit_status(arguments, status, capsys):
    assert main(arguments) == status
    out, err = capsys.readouterr()
    assert err.startswith("error: ") is (status == 2) and bool(out) is (status != 2)
    if status in (0, 1, 3):
        word = {0: "yes", 1: "no", 3: "undecided"}[status]
        assert f"strongly identifiable: {word}" in out


def test_report_says_what_a_reader_needs(capsys):
    main(["gelu"])
    out = capsys.readouterr().out
    assert "42 listed, 36 distinct, 34 independent" in out
    assert "(2 - t^2) phi + (-2 t + t^3) phi' + t^2 phi'' = 0" in out
    assert "proved 2" in out and "harmless" in out and "34 x 34 minor" in out
    assert "no split of atoms can use the relations" in out


def test_json_holds_a_certificate_that_verifies(capsys):
    assert main(["gelu", "--dim", "1", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["strongly_identifiable"] is False and data["rank"] == 10
    assert engine.recheck(data["certificate"])
    assert all(r["proved"] for r in data["relations"])


def test_atoms_from_a_file_and_from_standard_input(tmp_path, monkeypatch, capsys):
    atoms = [{"M": [[1]], "a": ["1/2"]}, {"M": [[1]], "a": ["-1/2"]}]
    path = tmp_path / "atoms.json"
    path.write_text(json.dumps(atoms), encoding="utf8")
    assert main(["sigmoid", "--dim", "1", "--atoms", str(path)]) == 1
    assert main(["sigmoid(z+1)", "--dim", "1", "--atoms", str(path)]) == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(atoms)))
    assert main(["sigmoid", "--dim", "1", "--atoms", "-"]) == 1
    path.write_text("[{", encoding="utf8")
    assert main(["sigmoid", "--dim", "1", "--atoms", str(path)]) == 2
    assert "expected JSON" in capsys.readouterr().err


def test_control_c_stops_the_command(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("hmoe_lib.identifiability.__main__.verdict", interrupted)
    assert main(["gelu"]) == 130
    assert capsys.readouterr() == ("", "stopped\n")


def test_the_module_runs():
    command = [sys.executable, "-W", "error", "-m", "hmoe_lib.identifiability", "z", "--dim", "1"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1 and result.stderr == ""
    assert "strongly identifiable: no" in result.stdout


# ---- atoms -----------------------------------------------------------------------------------


BAD_ATOMS = [
    ([], "non-empty list"),
    ("atoms", "non-empty list"),
    ([{"M": [[1]]}], "expected M and a"),
    ([{"M": [[1, 2]], "a": [1]}], "1 x 1 matrix"),
    ([{"M": [[1]], "a": [1, 2]}], "expected 1 entries"),
    ([{"M": [["x"]], "a": [1]}], "finite number"),
    ([{"M": [[1]], "a": [float("nan")]}], "finite number"),
    ([{"M": [[1]], "a": ["1/0"]}], "finite number"),
    ([{"M": [[1]], "a": [1]}, {"M": [[1]], "a": [1]}], "different"),
    ([{"M": 3, "a": [1]}], "non-empty list"),
]


@pytest.mark.parametrize(("atoms", "message"), BAD_ATOMS)
def test_bad_atoms(atoms, message):
    with pytest.raises(ValueError, match=message):
        read_atoms(atoms, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"omega": [[1, 1]]}, "that agree"),
        ({"M": [[[[1]], [[2]]]]}, "pinned"),
        ({"M": [[[[1]]]]}, "that agree"),
        ({"a": [[[[1]]]]}, "that agree"),
        ({"a": [[[[1, 2]], [[1, 2]]]]}, "that agree"),
    ],
)
def test_bad_truths(change, message):
    good = {"omega": [[1]], "M": [[[[1]], [[0]]]], "a": [[[[1]], [[2]]]]}
    assert read_truth(good, 1).shape == (1, 2, 1, 1)
    with pytest.raises(ValueError, match=message):
        read_truth(good | change, 1)


def test_wrong_names_are_told():
    with pytest.raises(ValueError, match="condition: expected one of"):
        engine.verdict("tanh", condition="type-1")
    with pytest.raises(ValueError, match="setting: expected one of"):
        engine.verdict("tanh", setting="1")
    with pytest.raises(ValueError, match="dim: expected"):
        engine.verdict("tanh", dim=0)
    with pytest.raises(ValueError, match="whole truth"):
        engine.verdict("tanh", condition="model", atoms=[{"M": [[1, 0], [0, 1]], "a": [1, 1]}])
    with pytest.raises(ValueError, match="condition: expected one of"):
        engine.ode_test("tanh", "type-1")
    with pytest.raises(ValueError, match="not finite at one of the atoms"):
        engine.verdict("sinc(z)", dim=1, atoms=[{"M": [[1]], "a": [0]}])


def test_no_warning_is_raised_by_a_reader_s_activation():
    x = sympy.Symbol("x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        phi = Activation.from_sympy(x / (1 + sympy.exp(-x)), name="swish")
        assert engine.verdict(phi, dim=1).strongly_identifiable is True
