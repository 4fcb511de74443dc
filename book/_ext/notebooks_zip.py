"""The notebooks to take along: one zip with the library, all they read, and how to run them."""

import re
import zipfile
from pathlib import Path

TOP = "gated-attention"
# In the folders where their links and their code look for them.
PARTS = (
    "book/*/*.ipynb",
    "book/*/data/*",
    "book/results/*",
    "book/_static/*.png",
    "book/_static/*.svg",
    "hmoe_lib/**/*.py",
    "hmoe_lib/*.mplstyle",
    "pyproject.toml",
    "README.md",
    "CITATION.cff",
    "LICENSE",
    "LICENSE-TEXT",
)
PINS = ("requirements.txt", "requirements-classroom.txt")
REQUIREMENTS = """\
# What the notebooks need, and JupyterLab to open them in; constraints.txt says in which versions.
-c constraints.txt
-e .
ipykernel
jupyterlab
nbclient
"""
RUN = """\
The notebooks of "Why gated attention learns faster", with the library that they import.

You need Python 3.11 or later, and 700 MB. In this folder:

    python3 -m venv .venv
    .venv/bin/python -m pip install -r requirements.txt
    .venv/bin/jupyter lab book/welcome/index.ipynb

On Windows: py -3 -m venv .venv, and then .venv\\Scripts\\ in the place of .venv/bin/.

To run one without looking at it, and keep what it shows:

    .venv/bin/jupyter execute --inplace book/attention/the_rewrite.ipynb

Figures, tables and numbers appear below the cells. Boxes, citations and numbers in sentences are
typeset on the site of the book, and are text in braces here.
"""


def constraints(root: Path) -> str:
    """The exact versions of everything that the notebooks may pull in."""
    texts = [(root / name).read_text(encoding="utf8") for name in PINS if (root / name).is_file()]
    pins = re.findall(r"^[\w.-]+==\S+$", "\n".join(texts), re.MULTILINE)
    return "".join(f"{pin}\n" for pin in sorted(pins, key=str.lower))


def contents(root: Path) -> dict[str, bytes]:
    """Files of the zip by name."""
    paths = {path for part in PARTS for path in root.glob(part) if path.is_file()}
    found = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    written = {
        "RUN.txt": RUN,
        "requirements.txt": REQUIREMENTS,
        "constraints.txt": constraints(root),
    }
    return found | {name: text.encode() for name, text in written.items()}


def write_zip(path: Path, files: dict[str, bytes], top: str = TOP) -> None:
    """Write files in their order by name, with a fixed date: the same files, the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(f"{top}/{name}", (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name])
