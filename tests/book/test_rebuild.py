"""When the book executes its notebooks again, and what makes its build fail.

The tiny book below has the configuration and the extension of the real one, and a library of one
line. Its notebook leaves a mark at each execution.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import toc
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

LIBRARY = 'NUMBER = "number {}"\n'
CODE = """\
from pathlib import Path
from hmoe_lib.tiny import NUMBER
with open("marks", "a") as marks: marks.write("x")
print(NUMBER)"""


class Book:
    def __init__(self, root: Path):
        self.root = root
        for name in ("_config.yml", "requirements.txt"):
            shutil.copy(toc.ROOT / name, root / name)
        for name in ("_ext", "_templates"):
            shutil.copytree(toc.ROOT / "book" / name, root / "book" / name)
        for name in ("book.css", "favicon.svg"):
            self.write(f"book/_static/{name}", (toc.ROOT / "book/_static" / name).read_text())
        self.write("_toc.yml", "format: jb-book\nroot: book/page\n")
        self.write("book/references.bib", "")
        self.write("hmoe_lib/__init__.py", "")
        self.write("hmoe_lib/tiny.py", LIBRARY.format(1))
        self.notebook(CODE)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf8")

    def notebook(self, code: str, text: str = "# Page") -> None:
        nb = new_notebook(cells=[new_markdown_cell(text, id="a"), new_code_cell(code, id="b")])
        nb.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
        self.write("book/page.ipynb", nbformat.writes(nb))

    def config(self, change) -> None:
        config = yaml.safe_load((self.root / "_config.yml").read_text(encoding="utf8"))
        change(config)
        self.write("_config.yml", yaml.safe_dump(config))

    def build(self):
        """The strict build of the Makefile; the tiny library shadows the installed one."""
        program = Path(sys.executable).with_name("jupyter-book")
        return subprocess.run(
            [str(program), "build", ".", "-W", "-n", "--keep-going"],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(self.root)},
            capture_output=True,
            text=True,
        )

    @property
    def executions(self) -> int:
        return len((self.root / "book/marks").read_text())

    @property
    def html(self) -> str:
        return (self.root / "_build/html/book/page.html").read_text(encoding="utf8")


@pytest.fixture
def book(tmp_path):
    return Book(tmp_path)


def succeeded(build) -> bool:
    assert "Traceback" not in build.stdout, build.stdout + build.stderr
    return build.returncode == 0


def test_a_change_of_the_library_executes_again_and_nothing_else_does(book):
    assert succeeded(book.build())
    assert book.executions == 1 and "number 1" in book.html

    assert succeeded(book.build())
    assert book.executions == 1, "an unchanged tree was executed again"

    book.notebook(CODE, text="# Page\n\nMore words.")
    assert succeeded(book.build())
    assert book.executions == 1 and "More words" in book.html, "new words are no reason to execute"

    book.write("book/_static/book.css", "/* another style */")
    assert succeeded(book.build())
    assert "another style" in (book.root / "_build/html/_static/book.css").read_text()
    assert book.executions == 1, "a new style is no reason to execute"

    book.write("hmoe_lib/tiny.py", LIBRARY.format(2))
    assert succeeded(book.build())
    assert book.executions == 2 and "number 2" in book.html and "number 1" not in book.html

    book.write("book/results/stored.json", "{}")
    assert succeeded(book.build())
    assert book.executions == 3, "a new stored result was not seen"


def test_without_the_extension_the_old_number_stays(book):
    """The control: it is the extension that makes the test above pass."""
    book.config(lambda config: config["sphinx"]["local_extensions"].pop("hmoe_book"))
    book.config(lambda config: config.pop("launch_buttons"))
    assert succeeded(book.build())
    book.write("hmoe_lib/tiny.py", LIBRARY.format(2))
    assert succeeded(book.build())
    assert book.executions == 1 and "number 1" in book.html


@pytest.mark.parametrize(
    ("code", "text", "reason"),
    [
        ("raise RuntimeError('the cell broke')", "# Page", "the cell broke"),
        ("import warnings; warnings.warn('look here')", "# Page", "stderr"),
        ("x = 1", "# Page\n\nSee {ref}`nowhere`.", "nowhere"),
        ("x = 1", "# Page\n\nSee {cite}`nobody2000`.", "nobody2000"),
        ("x = 1", "# Page\n\n[A page](missing.md)", "missing.md"),
    ],
    ids=["raising cell", "warning cell", "broken reference", "broken citation", "broken link"],
)
def test_a_broken_page_fails_the_build(book, code, text, reason):
    book.notebook(code, text)
    build = book.build()
    assert build.returncode != 0
    assert reason in build.stdout + build.stderr
    assert "What this build warned of (1):" in build.stdout


def test_a_broken_page_fails_the_next_build_too(book):
    book.notebook(CODE, "# Page\n\nSee {ref}`nowhere`.")
    assert book.build().returncode != 0
    assert book.build().returncode != 0
    assert book.executions == 1


def test_launch_buttons_appear_with_the_public_address(book):
    assert succeeded(book.build())
    assert "mybinder.org" not in book.html

    book.config(lambda config: config["repository"].update(url="https://github.com/me/gates"))
    assert succeeded(book.build())
    notebook = "book/page.ipynb"
    assert f"https://mybinder.org/v2/gh/me/gates/main?urlpath=lab/tree/{notebook}" in book.html
    assert f"https://colab.research.google.com/github/me/gates/blob/main/{notebook}" in book.html
