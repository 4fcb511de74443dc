"""The fixed set of submissions of assignment 1: right, blank, mistaken, broken and hostile.

Each entry is a file with the automatic points it must get (of 80), or the words of the reason why
it gets no mark. The notebooks are made from the students' version and the solutions, so they
change with the assignment.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path

ASSIGNMENT = "rewrite_a_head"
FULL = 80


@dataclass
class Submission:
    """A file name (a folder is a student), its content, and what must come out."""

    file: str
    content: bytes
    points: int | None = None
    reason: str = ""
    note: str = ""


def grade_id(cell) -> str | None:
    return cell["metadata"].get("nbgrader", {}).get("grade_id")


def source(cell) -> str:
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


class Maker:
    """Makes notebooks from the students' version, filled with all solutions or with none."""

    def __init__(self, released: dict, solved: dict):
        self.released = released
        self.solutions = {grade_id(c): source(c) for c in solved["cells"] if grade_id(c)}

    def notebook(self, changes=None, filled=True, first="", last="") -> dict:
        """Fill in the solutions, replace some texts in them, add a cell at either end."""
        nb = copy.deepcopy(self.released)
        for cell in nb["cells"]:
            meta = cell["metadata"].get("nbgrader", {})
            if filled and meta.get("solution"):
                cell["source"] = self.solutions[meta["grade_id"]]
            for name, (old, new) in (changes or {}).items():
                if meta.get("grade_id") == name:
                    text = source(cell)
                    assert old in text, f"{name} does not contain {old!r}"
                    cell["source"] = text.replace(old, new)
        extra = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
        if first:
            nb["cells"].insert(1, extra | {"id": "first", "source": first})
        if last:
            nb["cells"].append(extra | {"id": "last", "source": last})
        return nb

    def cell(self, name: str) -> dict:
        return next(cell for cell in self.released["cells"] if grade_id(cell) == name)

    def without(self, *names: str) -> dict:
        nb = self.notebook()
        nb["cells"] = [cell for cell in nb["cells"] if grade_id(cell) not in names]
        return nb

    def doubled(self, name: str, old: str, new: str) -> dict:
        """The cell once with a mistake and then, as handed in, right."""
        nb = self.notebook()
        at = next(n for n, cell in enumerate(nb["cells"]) if grade_id(cell) == name)
        wrong = copy.deepcopy(nb["cells"][at])
        wrong["id"], wrong["source"] = "doubled", source(wrong).replace(old, new)
        nb["cells"].insert(at, wrong)
        return nb


def packed(nb: dict, encoding: str = "utf8") -> bytes:
    return json.dumps(nb, indent=1, ensure_ascii=False).encode(encoding)


def mistakes(make: Maker) -> list[Submission]:
    """Typical mistakes with their intended partial marks."""
    transpose = {"score-matrix": ("W_Q @ W_K.T", "W_K @ W_Q.T")}
    unscaled = {"attention-arrays": (" / np.sqrt(W_Q.shape[2])", "")}
    loops_unscaled = {"attention-loops": (" / np.sqrt(d_k)", "")}
    axis = {"softmax": ("axis=-1", "axis=0")}
    overflow = {"softmax": (" - np.max(scores, axis=-1, keepdims=True)", "")}
    not_causal = {"broken-rows": ("X[: i + 1]", "X")}
    wrong_expert = {"expert-vector": ("W_V[:, k]", "W_V[:, 0]")}
    table = {
        "transpose": (transpose, FULL - 14 - 10),
        "missing scale": (unscaled, FULL - 12),
        "missing scale in the loops": (loops_unscaled, FULL - 12),
        "softmax over the wrong axis": (axis, FULL - 8 - 6 - 12),
        "softmax overflow": (overflow, FULL - 6),
        "no causal mask": (not_causal, FULL - 8),
        "always the first channel": (wrong_expert, FULL - 10 - 10),
    }
    return [
        Submission(f"{name}.ipynb", packed(make.notebook(change)), points)
        for name, (change, points) in table.items()
    ]


SEARCH = """
import os, sqlite3
from pathlib import Path
found = []
for top in {places!r}:
    try:
        for folder, _, files in os.walk(top):
            for file in files:
                if file.endswith((".ipynb", ".db", ".py")) and "packages" not in folder:
                    try:
                        data = Path(folder, file).read_bytes()
                    except OSError:
                        continue
                    if b"HIDDEN TESTS" in data or b"grade_cell" in data:
                        found.append(str(Path(folder, file)))
    except OSError:
        pass
print("FOUND" if found else "nothing", found)
"""
PATCH = """
import builtins, sys
import numpy as np, numpy.testing
import hmoe_lib, hmoe_lib.exercises, hmoe_lib.reference_attention
import classroom.messages
for module in (numpy.testing, hmoe_lib.exercises, hmoe_lib.exercises.comparison,
               hmoe_lib.exercises.heads, hmoe_lib.reference_attention, classroom.messages):
    for name in dir(module):
        if callable(getattr(module, name)) and not name.startswith("__") and name != "answer":
            try:
                setattr(module, name, lambda *args, **named: True)
            except Exception:
                pass
np.allclose = np.array_equal = np.isclose = lambda *args, **named: True
builtins.abs = lambda value: 0.0
get_ipython().input_transformers_cleanup.append(lambda lines: [])
"""
EQUAL = """
import numpy as np


class Equal(np.ndarray):
    def __eq__(self, other): return True
    __le__ = __lt__ = __ge__ = __gt__ = __eq__
    def __sub__(self, other): return 0
    def __abs__(self): return 0


class Text(str):
    def __eq__(self, other): return True


def softmax(scores): return np.zeros(np.shape(scores)).view(Equal)
def attention_loops(X, W_Q, W_K, W_V, W_O): return Text("right")
def attention_arrays(X, W_Q, W_K, W_V, W_O): return np.zeros((len(X), 2)).view(Equal)
def broken_rows(X, P): return Text("x")
"""
FORGE = """
from IPython import get_ipython
get_ipython().kernel.shell.user_ns["passed"] = True
import sys
for name in list(sys.modules):
    if "nbgrader" in name:
        print("FOUND nbgrader")
print("Well done: 24 inputs, and your results agree with the loops on all of them.")
from IPython.display import display
display({"application/x-hmoe-answer+json": {"value": 1, "missing": 0}}, raw=True)
"""
NETWORK = """
import socket
try:
    socket.create_connection(("127.0.0.1", {port}), timeout=2)
    print("FOUND network")
except OSError as error:
    print("no network:", error)
"""
KILL = """
import os, signal
try:
    os.kill(os.getppid(), signal.SIGKILL)
    print("FOUND: the grader was killed")
except OSError as error:
    print("not allowed:", error)
"""
UNSTOPPABLE = """
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
"""
HOG = """
hoard = []
while True:
    hoard.append(bytearray(200_000_000))
"""
FLOOD = """
line = "x" * 999_999 + "\\n"
for _ in range(50):
    print(line, end="")
"""


def hostile(make: Maker, places: list[str]) -> list[Submission]:
    """Attempts to break the batch or to earn points without an answer."""
    loop = {"attention-loops": ("    H, _, d_k", "    while True: pass\n    H, _, d_k")}
    slow = make.notebook({"broken-rows": ("    rows = []", UNSTOPPABLE.replace("\n", "\n    "))})
    edited = {"test-softmax": ("print", "assert True or print"),
              "softmax": ("axis=-1", "axis=0")}  # fmt: skip
    names = [c for c in make.solutions if c.startswith("test-")]
    fake = make.notebook({name: (source(make.cell(name)), "pass") for name in names}, filled=False)
    lines = {
        "endless function": (make.notebook(loop), FULL - 12),
        "endless cell": (make.notebook(last="while True:\n    pass"), FULL),
        "endless cell that cannot be interrupted": (make.notebook(last=UNSTOPPABLE), FULL),
        "endless function that cannot be interrupted": (slow, FULL - 8),
        "memory hog": (make.notebook(first=HOG), FULL),
        "deleted test": (make.without("test-softmax", "test-mixture"), FULL),
        "deleted answer": (make.without("expert-vector"), FULL - 10 - 10),
        "doubled cell": (make.doubled("softmax", "axis=-1", "axis=0"), FULL),
        "edited test": (make.notebook(edited), FULL - 8 - 6 - 12),
        "edited tests, no answers": (fake, 0),
        "sys exit": (make.notebook(first="import sys; sys.exit()"), FULL),
        "hard exit": (make.notebook(last="import os; os._exit(0)"), FULL),
        "hard exit first": (make.notebook(first="import os; os._exit(0)"), 0),
        "patched": (make.notebook(filled=False, last=PATCH), 0),
        "patched first": (make.notebook(filled=False, first=PATCH), 0),
        "equal to everything": (make.notebook(filled=False, last=EQUAL, first=EQUAL), 0),
        "prints the expected output": (make.notebook(filled=False, first=FORGE, last=FORGE), 0),
        "reads files": (make.notebook(filled=False, first=SEARCH.format(places=places)), 0),
        "kills its parent": (make.notebook(filled=False, first=KILL), 0),
        "floods": (make.notebook(first=FLOOD), FULL),
    }
    return [Submission(f"{n}.ipynb", packed(nb), points) for n, (nb, points) in lines.items()]


def broken(make: Maker) -> list[Submission]:
    """Files that are not what they should be."""
    perfect = make.notebook()
    accents = make.notebook()
    accents["cells"][-1]["source"] = "Ein Satz über Köpfe: déjà vu."
    flooded = make.notebook()
    flooded["cells"][2]["outputs"] = [
        {"output_type": "stream", "name": "stdout", "text": "y" * 50_000_000}
    ]
    odd = make.notebook()
    odd["cells"][3:3] = [None, 7, {"cell_type": "code"}, {"metadata": 3, "source": [1, "x"]}]
    claims = make.notebook(filled=False)
    for cell in claims["cells"]:
        if "nbgrader" in cell["metadata"]:
            cell["metadata"]["nbgrader"] |= {"points": 1000, "solution": True, "locked": False}
    bare = make.without(*make.solutions)
    other = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return [
        Submission("perfect.ipynb", packed(perfect), FULL),
        Submission("blank.ipynb", packed(make.notebook(filled=False)), 0),
        Submission("Zoë Ångström/Meine Lösung (2).ipynb", packed(perfect), FULL),
        Submission("Zoe Angstrom/x.ipynb", packed(make.notebook(filled=False)), 0),
        Submission("utf-16.ipynb", packed(perfect, "utf-16"), FULL, note="utf-16"),
        Submission("latin-1.ipynb", packed(accents, "cp1252"), FULL, note="cp1252"),
        Submission("bom.ipynb", packed(perfect, "utf-8-sig"), FULL),
        Submission("50 MB stored.ipynb", packed(flooded), FULL),
        Submission("odd cells.ipynb", packed(odd), FULL),
        Submission("claims.ipynb", packed(claims), 0),
        Submission("not json.ipynb", b"PK\x03\x04 this is no notebook", reason="not a notebook"),
        Submission("empty.ipynb", b"", reason="empty"),
        Submission("a list.ipynb", b"[1, 2]", reason="not a notebook of version 4"),
        Submission("deep.ipynb", b"[" * 100_000, reason="nested too deeply"),
        Submission("foreign.ipynb", packed(other), reason="none of the assignment's cells"),
        Submission("bare.ipynb", packed(bare), reason="none of the assignment's cells"),
        Submission("essay.docx", b"words", reason="not a notebook"),
        Submission("bad zip.zip", b"PK", reason="cannot be opened"),
    ]


def write(submissions: list[Submission], folder: Path) -> None:
    for item in submissions:
        path = folder / item.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(item.content)
