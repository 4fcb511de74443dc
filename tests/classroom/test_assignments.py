"""The assignments themselves: points, rubrics, solutions for ten classes, and what students get."""

import ast
import json
import zipfile
from io import BytesIO

import pytest
import yaml
from classroom import student_version as sv

TOC = yaml.safe_load((sv.ROOT / "_toc.yml").read_text(encoding="utf8"))
PARTS = sum(part.get("numbered", False) for part in TOC["parts"])
SOURCES = sv.sources()
SEEDS = range(1, 11)
ASSIGNMENTS = [name for name in SOURCES if not name.startswith("quiz")]
QUIZZES = [name for name in SOURCES if name.startswith("quiz")]
each = pytest.mark.parametrize("name", SOURCES)


def load(name, seed=None):
    return sv.with_seed(json.loads(SOURCES[name].read_text(encoding="utf8")), seed)


def source(cell):
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


def kind(cell):
    """'test', 'setup', 'answer' or '' for what is not graded."""
    meta = cell["metadata"].get("nbgrader", {})
    if meta.get("solution"):
        return "answer"
    return ("test" if meta.get("grade") else "setup") if meta.get("locked") else ""


def test_there_are_five_assignments_and_a_quiz_for_each_part():
    assert len(ASSIGNMENTS) == 5
    assert len(QUIZZES) == PARTS


@each
def test_points_add_up_to_a_hundred(name):
    metas = [cell["metadata"].get("nbgrader", {}) for cell in load(name)["cells"]]
    assert sum(meta.get("points", 0) for meta in metas if meta.get("grade")) == 100
    ids = [meta["grade_id"] for meta in metas if meta]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", QUIZZES)
def test_a_quiz_has_five_questions(name):
    assert sum(kind(cell) == "test" for cell in load(name)["cells"]) == 5


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_an_assignment_says_what_it_wants(name):
    """Goals, prerequisites, hours, and a written answer whose rubric adds up to its points."""
    cells = load(name)["cells"]
    first = source(cells[0])
    for word in ("**Assignment", "100 points", "hours", "Needs the chapter", "Afterwards you can"):
        assert word in first, word
    at = next(n for n, cell in enumerate(cells) if cell["cell_type"] == "markdown" and kind(cell))
    points = cells[at]["metadata"]["nbgrader"]["points"]
    rows = [line.split("|")[1].strip() for line in source(cells[at - 1]).splitlines()
            if line.startswith("|")]  # fmt: skip
    assert sum(int(row) for row in rows if row.isdigit()) == points


@each
def test_every_test_has_a_visible_and_a_hidden_part(name):
    for cell in load(name)["cells"]:
        if kind(cell) == "test":
            visible, _, hidden = source(cell).partition("### BEGIN HIDDEN TESTS")
            assert visible.strip() and hidden.strip()
            ast.parse(visible)


def run(nb, skip=()):
    """Execute all code cells in one namespace; return the tests that failed."""
    scope, failed = {"__name__": "notebook"}, []
    for cell in nb["cells"]:
        if cell["cell_type"] != "code":
            continue
        grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
        try:
            exec(compile(source(cell), f"<{grade_id}>", "exec"), scope)
        except (AssertionError, NotImplementedError, NameError) as error:
            failed.append((grade_id, str(error)[:200]))
    return failed


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", SEEDS)
@each
def test_solutions_earn_all_points_for_ten_classes(name, seed):
    assert run(load(name, seed)) == []


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@each
def test_the_students_version_earns_nothing_as_it_is(name):
    nb = sv.student_version(load(name))
    tests = {c["metadata"]["nbgrader"]["grade_id"] for c in nb["cells"] if kind(c) == "test"}
    assert tests <= {grade_id for grade_id, _ in run(nb)}


@each
def test_a_seed_changes_the_numbers(name):
    one, two = (json.dumps(load(name, seed)) for seed in (1, 2))
    assert one.replace("SEED = 1", "") != one
    assert one.replace("SEED = 1", "SEED = 2") == two
    uses = [source(c) for c in load(name)["cells"] if kind(c) in ("test", "setup")]
    assert any("draw(" in text for text in uses)


@each
def test_students_get_no_solution_and_no_hidden_test(name):
    """Line by line: nothing of a solution, a hidden test or a model answer is left."""
    nb = load(name)
    secret = set()
    for cell in nb["cells"]:
        inside = False
        for line in source(cell).splitlines():
            if "### BEGIN" in line or "### END" in line:
                inside = "### BEGIN" in line
            elif inside and len(line.strip()) > 12:
                secret.add(line.strip())
    student = sv.student_version(nb)
    shown = {line.strip() for cell in student["cells"] for line in source(cell).splitlines()}
    # A line may also stand in a visible cell, such as the loop that task 4 of `rates` shows.
    visible = {line.strip() for cell in nb["cells"] for line in visible_lines(source(cell))}
    assert secret and (secret & shown) - visible == set()
    text = json.dumps(student)
    assert "BEGIN" not in text and "HIDDEN" not in text and "MARK SCHEME" not in text


def visible_lines(text):
    inside = False
    for line in text.splitlines():
        if "### BEGIN" in line or "### END" in line:
            inside = "### BEGIN" in line
        elif not inside:
            yield line


def test_a_leak_would_be_found(monkeypatch):
    """Negative control: without the stripper the check above fails."""
    monkeypatch.setattr(sv, "student_version", lambda nb: nb)
    with pytest.raises(AssertionError):
        test_students_get_no_solution_and_no_hidden_test(ASSIGNMENTS[0])


@pytest.mark.parametrize(
    "text",
    ["### BEGIN SOLUTION\nx = 1", "### BEGIN SOLUTION\n### BEGIN HIDDEN TESTS\n### END SOLUTION"],
)
def test_a_region_without_its_end_is_refused(text):
    with pytest.raises(ValueError, match="BEGIN"):
        sv._cleared(text, "code")


def test_the_zip_holds_all_that_a_student_needs(tmp_path):
    files = sv.write_downloads(tmp_path)
    assert {path.name for path in files} == {f"{n}.{s}" for n in SOURCES for s in ("ipynb", "zip")}
    before = {path: path.read_bytes() for path in files}
    sv.write_downloads(tmp_path)
    assert {path: path.read_bytes() for path in files} == before, "not the same zip twice"
    with zipfile.ZipFile(BytesIO((tmp_path / f"{ASSIGNMENTS[0]}.zip").read_bytes())) as archive:
        names, top = set(archive.namelist()), ASSIGNMENTS[0]
        assert {f"{top}/{ASSIGNMENTS[0]}.ipynb", f"{top}/requirements.txt"} <= names
        library = {f"{top}/hmoe_lib/{n}" for n in ("__init__.py", "book.mplstyle", "LICENSE")}
        assert library | {f"{top}/HOW-TO.md"} <= names
        assert not any("source" in n or "classroom" in n for n in names)
        pins = archive.read(f"{top}/requirements.txt").decode()
    assert "numpy==" in pins and "jupyterlab" in pins and "sphinx" not in pins.lower()


@pytest.mark.needs_nbgrader
@pytest.mark.parametrize("seed", [None, 5])
def test_the_stripper_and_nbgrader_agree(tmp_path, seed):
    """Two roads: the downloads of the site and what `make release` writes."""
    from classroom import course

    made = course.Course(tmp_path / "course")
    course.release(made, seed)
    assert made.assignments == sorted(SOURCES)
    for name in SOURCES:
        theirs = json.loads(json.dumps(made.released(name)))
        ours = json.loads(json.dumps(sv.student_version(load(name, seed))))
        assert [cell["source"] for cell in ours["cells"]] == [c["source"] for c in theirs["cells"]]
        assert ours["cells"] == theirs["cells"]
        zipped = (made.root / "students" / f"{name}.zip").read_bytes()
        with zipfile.ZipFile(BytesIO(zipped)) as archive:
            assert f"{name}/{name}.ipynb" in archive.namelist()
