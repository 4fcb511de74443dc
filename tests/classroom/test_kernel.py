"""The parts of the grader that need neither nbgrader nor a notebook: messages and confinement."""

import os
import subprocess
import sys

import numpy as np
import pytest
from classroom import kernel, messages

import hmoe_lib as hl

VALUES = [
    None,
    True,
    3,
    -0.1,
    float("inf"),
    "Zoë",
    np.arange(6).reshape(2, 3),
    np.array([[0.1, -np.pi]]),
    np.zeros((2, 0)),
    [1, [2.5, "x"]],
    (1, 2),
    {"a": np.eye(2), 3: None},
]


def same(one, two):
    if isinstance(one, np.ndarray):
        return one.dtype == two.dtype and np.array_equal(one, two)
    if isinstance(one, list | tuple):
        return type(one) is type(two) and all(map(same, one, two))
    if isinstance(one, dict):
        return list(one) == list(two) and all(same(one[key], two[key]) for key in one)
    return type(one) is type(two) and one == two


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_what_is_sent_arrives(value):
    assert same(value, messages.decode(messages.encode(value)))


def test_numpy_scalars_and_measures_arrive():
    assert messages.decode(messages.encode(np.float64(0.1))) == 0.1
    assert messages.decode(messages.encode(np.int64(3))) == 3
    truth = hl.experiments.TRUTH_VALUE
    assert messages.decode(messages.encode(truth)) == truth


def test_a_symbolic_result_arrives_as_text():
    import sympy

    assert messages.decode(messages.encode(sympy.Symbol("x") ** 2)) == "x**2"


@pytest.mark.parametrize("value", [object(), len, {1, 2}, np.array([object()]), 1j])
def test_other_things_are_refused_in_words(value):
    with pytest.raises(TypeError, match="cannot be handed in, only numbers"):
        messages.encode(value)


class Equal(float):
    def __eq__(self, other):
        return True

    __hash__ = float.__hash__


def test_a_number_that_equals_everything_loses_that():
    assert messages.decode(messages.encode(Equal(2.0))) != 1.0


@pytest.mark.parametrize(
    "reply",
    [
        {"array": "AAAA", "dtype": "|O", "shape": [1]},
        {"array": "AAAA", "dtype": "<f8", "shape": [-5]},
        {"float": "__import__('os')"},
        {"code": "1 + 1"},
    ],
)
def test_a_forged_reply_is_an_error_and_runs_nothing(reply):
    with pytest.raises((ValueError, TypeError)):
        messages.decode(reply)


def confined(code, tmp_path, prepare="kernel.confine(Path('.').resolve())"):
    """Run code in a fresh process that has confined itself to an empty folder."""
    start = f"from pathlib import Path\nfrom classroom import kernel\n{prepare}\n{code}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", start], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    return run.stdout.strip(), run.stderr


LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")
READ = "from pathlib import Path\ntry:\n    print(len(Path({!r}).read_text()))\n"
READ += "except PermissionError:\n    print('refused')"


@LINUX
def test_landlock_hides_what_lies_outside(tmp_path):
    home, outside = tmp_path / "sandbox", tmp_path / "gradebook.db"
    home.mkdir()
    outside.write_text("secret", encoding="utf8")
    (home / "own.txt").write_text("own", encoding="utf8")
    in_force, _ = confined("print(kernel.measures())", home)
    if "files" not in in_force:
        pytest.skip("this kernel has no Landlock: files are only watched; see the guide")
    assert confined(READ.format(str(outside)), home)[0] == "refused"
    assert confined(READ.format(str(home / "own.txt")), home)[0] == "3"
    assert confined(READ.format(str(outside)), home, prepare="")[0] == "6", "no negative control"
    assert confined("import sympy, hmoe_lib.plots; print('ok')", home, "import hmoe_lib\n"
                    "kernel.confine(Path('.').resolve())")[0] == "ok"  # fmt: skip


def test_without_landlock_python_itself_refuses_the_course(tmp_path):
    secret = tmp_path / "course" / "gradebook.db"
    secret.parent.mkdir()
    secret.write_text("secret", encoding="utf8")
    watch = f"kernel.watch([{str(secret.parent)!r}])"
    assert confined(READ.format(str(secret)), tmp_path, watch)[0] == "refused"
    assert confined(READ.format(str(secret)), tmp_path, "")[0] == "6"


@LINUX
def test_the_network_is_left(tmp_path):
    code = """
import socket
print(socket.if_nameindex() if 'no network' in kernel.measures() else 'not possible here')
"""
    out, _ = confined(code, tmp_path, "kernel.leave_network()")
    if out == "not possible here":
        pytest.skip("no network namespace without privileges here; see the guide")
    assert [name for _, name in eval(out)] == ["lo"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs the superuser")
def test_the_superuser_is_given_up(tmp_path):
    code = "import os\nprint(os.getuid(), os.getgid(), os.getgroups())\ntry:\n    os.setuid(0)\n"
    code += "except PermissionError:\n    print('for good')"
    out, _ = confined(code, tmp_path, "kernel.become('10001', Path('.').resolve())")
    assert out.splitlines() == ["10001 10001 []", "for good"]
    out, _ = confined("import os\nprint(os.getuid())", tmp_path, "kernel.become('', Path('.'))")
    assert out == "0"


@pytest.mark.skipif(sys.platform == "win32", reason="limits need POSIX")
def test_memory_is_bounded(tmp_path):
    code = "try:\n    bytearray(3 << 30)\nexcept MemoryError:\n    print('bounded')"
    assert confined(code, tmp_path, "kernel.limit(2000, 60)")[0] == "bounded"
    assert kernel.measures() == []
