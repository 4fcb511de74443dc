"""The students' version of a notebook without nbgrader, for the downloads of the site.

`make book` has to work where nbgrader is not installed. The rules are nbgrader's own: regions of
solutions become a stub, regions of hidden tests and marking schemes vanish, locked cells cannot be
edited. A test compares the result with nbgrader's, cell by cell.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import re
import zipfile
from pathlib import Path

ASSIGNMENTS = Path(__file__).resolve().parents[1]
SOURCE = ASSIGNMENTS / "source"
ROOT = ASSIGNMENTS.parents[1]
CODE_STUB = "# YOUR CODE HERE\nraise NotImplementedError()"
TEXT_STUB = "YOUR ANSWER HERE"
SEED = re.compile(r"^SEED = \d+$", re.MULTILINE)
REGIONS = {"SOLUTION": True, "HIDDEN TESTS": False, "MARK SCHEME": False}
LIBRARY = ("joblib", "matplotlib", "numpy", "python-flint", "scipy", "sympy", "threadpoolctl",
           "tqdm")  # fmt: skip
HOW_TO = """# How to work on this assignment

1. Install Python 3.11 or later. Open a terminal in this folder.
2. Make an environment and install what is needed (once, about 700 MB):
   `python -m venv env`, then `env/bin/python -m pip install -r requirements.txt`
   (Windows: `py -m venv env`, then `env\\Scripts\\python -m pip install -r requirements.txt`).
3. Start: `env/bin/jupyter lab` (Windows: `env\\Scripts\\jupyter lab`) and open the notebook.
   On Colab: upload the notebook and the folder `hmoe_lib`, then run it.
4. Replace `raise NotImplementedError()` by your code and YOUR ANSWER HERE by your text. You may
   add cells. Cells with points hold the tests; they are locked, and an edited one is restored.
5. Run all cells from the top (Kernel, Restart and run all). A test cell without an error is a test
   passed; when it fails it shows the smallest input that it found, what was expected, what you got.
   Some tests are hidden: they use other inputs. A function that is right passes them.
6. Hand in the `.ipynb` file, nothing else, under the name it has. Check that it opens.

Your functions may return numbers, arrays, text, lists, tuples, dictionaries and measures. When it
is graded, your notebook has no network, sees no other files, has 3 GB of memory, 20 seconds a cell.
"""


def with_seed(nb: dict, seed: int | None) -> dict:
    """Return the notebook with another class seed in its setup cell."""
    nb = copy.deepcopy(nb)
    if seed is not None:
        for cell in nb["cells"]:
            if cell["cell_type"] == "code":
                cell["source"] = SEED.sub(f"SEED = {int(seed)}", _text(cell))
    return nb


def student_version(nb: dict) -> dict:
    """Return the notebook without solutions, hidden tests, marking schemes and outputs."""
    nb = copy.deepcopy(nb)
    for cell in nb["cells"]:
        meta = cell["metadata"].get("nbgrader", {})
        text, replaced = _cleared(_text(cell), cell["cell_type"])
        if meta.get("solution") and not replaced:
            text = CODE_STUB if cell["cell_type"] == "code" else TEXT_STUB
        cell["source"] = text
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
        if meta.get("grade") or meta.get("solution") or meta.get("locked"):
            meta["checksum"] = checksum(cell)
            meta["cell_type"] = cell["cell_type"]
            cell["metadata"]["deletable"] = False
        if meta.get("locked"):
            cell["metadata"]["editable"] = False
    return nb


def checksum(cell: dict) -> str:
    """nbgrader's checksum of a cell."""
    meta = cell["metadata"]["nbgrader"]
    kinds = [str(bool(meta.get(key))) for key in ("grade", "solution", "locked")]
    parts = [_text(cell), cell["cell_type"], *kinds, meta["grade_id"]]
    if meta.get("grade"):
        parts.append(str(float(meta["points"])))
    return hashlib.md5("".join(parts).encode()).hexdigest()


def _text(cell: dict) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def _cleared(text: str, cell_type: str) -> tuple[str, bool]:
    """Take the regions out; say whether a solution was among them."""
    kept, region, replaced = [], None, False
    for line in text.split("\n"):
        begin = next((name for name in REGIONS if f"BEGIN {name}" in line), None)
        if begin:
            if region:
                raise ValueError(f"BEGIN {begin} inside {region}")
            region = begin
            if REGIONS[begin]:
                indent = re.match(r"\s*", line)[0]
                stub = CODE_STUB if cell_type == "code" else TEXT_STUB
                kept += [indent + part for part in stub.split("\n")]
                replaced = True
        elif region and f"END {region}" in line:
            region = None
        elif not region:
            kept.append(line)
    if region:
        raise ValueError(f"BEGIN {region} has no END")
    return "\n".join(kept), replaced


def requirements() -> str:
    """The students' requirements: the book's pins of what the library needs, and JupyterLab."""
    pins = (ROOT / "requirements.txt").read_text(encoding="utf8").splitlines()
    lines = [pin for pin in pins if pin.split("==")[0] in LIBRARY]
    return "\n".join([*lines, "jupyterlab>=4", "ipykernel>=6"]) + "\n"


def bundle(name: str, notebook: str) -> bytes:
    """Return a zip with one folder: notebook, requirements, how-to, and the library itself.

    The library goes along because it is not on PyPI; a notebook finds it in its own folder.
    """
    files = {f"{name}.ipynb": notebook.encode(), "requirements.txt": requirements().encode(),
             "HOW-TO.md": HOW_TO.encode()}  # fmt: skip
    for path in sorted((ROOT / "hmoe_lib").rglob("*")):
        if path.suffix in (".py", ".mplstyle"):
            files[path.relative_to(ROOT).as_posix()] = path.read_bytes()
    files["hmoe_lib/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            # A fixed date: the same files give the same zip.
            item = zipfile.ZipInfo(f"{name}/{path}", (2026, 1, 1, 0, 0, 0))
            archive.writestr(item, content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def sources() -> dict[str, Path]:
    """The source notebooks by assignment."""
    return {path.stem: path for path in sorted(SOURCE.glob("*/*.ipynb"))}


def write_downloads(folder: Path) -> list[Path]:
    """Write the students' notebooks and a zip of each; called by the build of the book."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, path in sources().items():
        nb = student_version(json.loads(path.read_text(encoding="utf8")))
        text = json.dumps(nb, indent=1, ensure_ascii=False) + "\n"
        for file, content in [
            (folder / f"{name}.ipynb", text.encode()),
            (folder / f"{name}.zip", bundle(name, text)),
        ]:
            if not file.is_file() or file.read_bytes() != content:
                file.write_bytes(content)
            written.append(file)
    return written
