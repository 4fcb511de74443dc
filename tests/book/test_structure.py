"""The rules, applied to every page of the book."""

import hashlib

import nbformat
import pytest
import rules
import toc

SOURCES = [
    path
    for pattern in ("*", "book/**/*", "hmoe_lib/**/*", "tests/**/*", ".ci/*")
    for path in sorted(toc.ROOT.glob(pattern))
    if path.suffix in (".md", ".ipynb", ".py", ".toml", ".txt", ".yml", ".cff", ".bib", ".css", "")
    and path.is_file()
    and path.name != ".git"  # in a worktree a file of git's own that points to the clone
]


def name(path):
    return path.relative_to(toc.ROOT).as_posix()


def page_text(path):
    """What the reader sees as text: a page's Markdown."""
    if path.suffix != ".ipynb":
        return path.read_text(encoding="utf8")
    nb = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    return "\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")


@pytest.mark.parametrize("rule", rules.NOTEBOOK_RULES)
@pytest.mark.parametrize("path", toc.notebooks(), ids=name)
def test_notebook(path, rule):
    assert rule(nbformat.read(path, as_version=nbformat.NO_CONVERT)) == []


@pytest.mark.parametrize("path", toc.pages(), ids=name)
def test_every_exercise_has_a_solution(path):
    assert rules.unsolved_exercises(page_text(path)) == []


@pytest.mark.parametrize(
    "path", [p for p in toc.notebooks() if p.parent.name != "welcome"], ids=name
)
def test_every_chapter_has_exercises_with_tested_solutions(path):
    nb = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    assert rules.too_few_exercises(nb) == []


@pytest.mark.parametrize(
    "path", [p for p in toc.notebooks() if p.parent.name != "welcome"], ids=name
)
def test_every_chapter_says_enough_minutes(path):
    assert rules.short_time(nbformat.read(path, as_version=nbformat.NO_CONVERT)) == []


def test_toc_and_files_agree():
    assert rules.toc_gaps(toc.ROOT) == []


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_no_absolute_path(path):
    assert rules.absolute_paths(path.read_text(encoding="utf8")) == []


def test_the_library_page_names_every_module():
    page = (toc.ROOT / "book/appendices/library.md").read_text(encoding="utf8")
    modules = {path.stem for path in (toc.ROOT / "hmoe_lib").glob("*") if public(path)}
    assert modules, "no module found"
    forgotten = {m for m in modules if f"automodule:: hmoe_lib.{m}\n" not in page}
    assert forgotten == set(), "give each a section in book/appendices/library.md"


def public(path):
    package = path.is_dir() and (path / "__init__.py").is_file()
    return package or (path.suffix == ".py" and not path.stem.startswith("_"))


@pytest.mark.parametrize("name", ["mathjax", "fonts"])
def test_what_is_vendored_is_the_recorded(name):
    folder = toc.ROOT / "book/_static" / name
    rows = (folder / "SHA256SUMS").read_text(encoding="utf8").splitlines()
    recorded = {path: digest for digest, path in (row.split("  ") for row in rows)}
    found = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "SHA256SUMS"
    }
    assert found == recorded
