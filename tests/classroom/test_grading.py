"""A whole batch: every submission of the fixed set gets its mark or its reason, and no more."""

import csv
import json
import shutil
import socket
import sys
import threading

import nbformat
import pytest
import submissions as fixed
from classroom.student_version import ROOT

pytestmark = pytest.mark.needs_nbgrader
SEED = 11
# Shorter than a class has them, to spend less time on endless loops.
LIMITS = """
c.Examine.timeout, c.Examine.call_seconds = 6, 4
"""


class Graded:
    """A course with the fixed set, graded once for all tests of this file."""

    def __init__(self, folder):
        from classroom import collect, course, grade

        self.course, self.handed_in = course.Course(folder / "course"), folder / "handed in"
        course.release(self.course, SEED)
        with (self.course.root / "nbgrader_config.py").open("a", encoding="utf8") as config:
            config.write(LIMITS)
        name = f"{fixed.ASSIGNMENT}/{fixed.ASSIGNMENT}.ipynb"
        released = json.loads((self.course.root / "release" / name).read_text(encoding="utf8"))
        solved = json.loads((self.course.root / "source" / name).read_text(encoding="utf8"))
        self.make = fixed.Maker(released, solved)
        with listener() as port:
            network = self.make.notebook(filled=False, first=fixed.NETWORK.format(port=port))
            places = [str(self.course.root), str(ROOT / "book" / "assignments"), "."]
            self.set = [
                *fixed.broken(self.make),
                *fixed.mistakes(self.make),
                *fixed.hostile(self.make, places),
                fixed.Submission("network.ipynb", fixed.packed(network), 0),
                *self.solved_others(),
            ]
            fixed.write(self.set, self.handed_in)
            self.said = []
            self.entries = collect.collect(self.course, self.handed_in)
            grade.grade_all(self.course, self.entries, jobs=2, say=self.said.append)
        self.report = grade.write_report(self.course, self.entries)
        with self.report.open(encoding="utf-8-sig", newline="") as lines:
            self.rows = {row["file"]: row for row in csv.DictReader(lines)}

    def solved_others(self):
        """The solutions of the other assignments and of the quizzes: full automatic marks."""
        for name in self.course.assignments:
            path = self.course.root / "source" / name / f"{name}.ipynb"
            nb = json.loads(path.read_text(encoding="utf8"))
            metas = [c["metadata"]["nbgrader"] for c in nb["cells"] if c["cell_type"] == "code"
                     and c["metadata"].get("nbgrader", {}).get("grade")]  # fmt: skip
            if name != fixed.ASSIGNMENT:
                points = sum(meta["points"] for meta in metas)
                yield fixed.Submission(f"solved {name}.ipynb", fixed.packed(nb), points)

    def autograded(self, file):
        entry = next(entry for entry in self.entries if entry.file == file)
        folder = self.course.root / "autograded" / entry.student / entry.assignment
        return nbformat.read(folder / f"{entry.assignment}.ipynb", as_version=4)


class listener:  # noqa: N801
    """A server on this machine that student code must not reach."""

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.serve, daemon=True).start()
        return self.socket.getsockname()[1]

    def serve(self):
        try:
            while True:
                self.socket.accept()[0].close()
        except OSError:
            return

    def __exit__(self, *_):
        self.socket.close()


@pytest.fixture(scope="session")
def graded(tmp_path_factory):
    return Graded(tmp_path_factory.mktemp("class"))


def test_every_file_of_the_fixed_set_gets_its_mark_or_its_reason(graded):
    wrong = {}
    for item in graded.set:
        row = graded.rows[item.file]
        if item.reason:
            ok = not row["automatic"] and item.reason in row["note"]
        else:
            ok = row["automatic"] and float(row["automatic"]) == item.points
            ok = ok and item.note in row["note"]
        if not ok:
            wrong[item.file] = (item.points, item.reason, row["automatic"], row["note"])
    assert wrong == {}
    assert set(graded.rows) == {item.file for item in graded.set}
    assert len(graded.set) > 40, "the guide says so"


def test_no_submission_found_what_it_looked_for(graded):
    if not sys.platform.startswith("linux"):
        pytest.skip("confinement of files and network needs Linux; see the guide")
    looked = [i.file for i in graded.set if i.points is not None and b"FOUND" in i.content]
    assert len(looked) == 4
    cells = {file: graded.autograded(file).cells for file in looked}
    outputs = {
        file: [out.get("text", "") for cell in found for out in cell.get("outputs", ())]
        for file, found in cells.items()
    }
    assert all(any(texts) for texts in outputs.values()), "a search printed nothing"
    assert [f for f, texts in outputs.items() if any("FOUND" in text for text in texts)] == []


def test_output_is_bounded(graded):
    for name in ("floods.ipynb", "50 MB stored.ipynb"):
        size = len(nbformat.writes(graded.autograded(name)))
        assert size < 1_000_000, name


def test_progress_is_said_for_every_submission(graded):
    ready = [item for item in graded.set if item.points is not None]
    assert graded.said[0] == f"{len(graded.set)} files, {len(ready)} to grade, 0 graded before"
    assert len(graded.said) == 1 + len(ready)
    assert graded.said[-1].startswith(f"[{len(ready)}/{len(ready)}, ")


def test_everyone_graded_has_a_feedback_page_that_says_why(graded):
    for entry in graded.entries:
        page = graded.course.root / "feedback" / entry.student / entry.assignment
        assert entry.reason or (page / f"{entry.assignment}.html").is_file(), entry.file
    entry = next(e for e in graded.entries if e.who == "missing scale")
    folder = graded.course.root / "feedback" / entry.student / entry.assignment
    text = (folder / f"{entry.assignment}.html").read_text(encoding="utf8")
    assert "The smallest input I found" in text and "the factor 1/sqrt(d_k)" in text


def test_a_second_call_grades_only_what_is_new(graded, monkeypatch):
    from classroom import collect, grade

    asked = []
    monkeypatch.setattr(grade, "grade_one", lambda course, entry: asked.append(entry.file) or "no")
    extra = graded.handed_in / "late.ipynb"
    extra.write_bytes(fixed.packed(graded.make.notebook()))
    try:
        entries = collect.collect(graded.course, graded.handed_in)
        said = []
        grade.grade_all(graded.course, entries, jobs=2, say=said.append)
    finally:
        extra.unlink()
    assert asked == ["late.ipynb"]
    assert said[0].endswith(f"{len(graded.said) - 1} graded before")


def test_written_points_are_entered_and_bounded(graded, tmp_path):
    from classroom import grade

    table = tmp_path / "written.csv"
    line = f"perfect,{fixed.ASSIGNMENT},written,{{}},Well argued.\n"
    head = "student,assignment,cell,points,comment\n"
    table.write_text(head + line.format(21), encoding="utf8")
    with pytest.raises(SystemExit, match="points from 0 to 20, got 21"):
        grade.apply_written(graded.course, table)
    table.write_text(head + line.format(17), encoding="utf8")
    assert grade.apply_written(graded.course, table) == 1
    row = next(r for r in grade.rows(graded.course, graded.entries) if r["student"] == "perfect")
    assert (row["automatic"], row["written"], row["total"], row["max"]) == (80, 17, 97, 100)


def test_sixty_submissions_take_less_than_ten_minutes_of_two_cores(graded):
    """Processor time of one perfect submission, kernel included, times sixty."""
    import resource

    from classroom import grade

    entry = next(entry for entry in graded.entries if entry.who == "perfect")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert grade.grade_one(graded.course, entry) == ""
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert 0.5 < seconds < 15, f"{seconds:.1f} s, so sixty take {30 * seconds / 60:.1f} minutes"


def test_the_students_names_in_a_test_are_found():
    from classroom.examiner import unknown_names

    source = (
        "import math\nfrom os import path as p\n"
        "def check(kappa, x):\n    y = loss(kappa)\n    return [v for v in y if v < x]\n"
        "for n in sizes:\n    assert check(kappa, n) or math.pi or p or draw(1)\n"
    )
    assert unknown_names(source, {"draw": 0}) == {"kappa", "loss", "sizes"}


def test_a_test_that_computes_for_ever_is_stopped():
    from classroom.examiner import TestTooLong, processor_limit

    with pytest.raises(TestTooLong, match=r"more than 0\.2 seconds"), processor_limit(0.2):
        while True:
            try:
                sum(range(1000))
            except Exception:
                raise AssertionError("a check would have caught it") from None


def test_the_examples_of_the_collector_run():
    import doctest

    from classroom import collect

    assert doctest.testmod(collect) == (0, 2)


def test_another_seed_needs_another_folder(graded):
    from classroom import course

    with pytest.raises(SystemExit, match="Another class gets another folder"):
        course.release(graded.course, SEED + 1)


def test_a_grader_that_is_ended_from_outside_stops_only_its_submission(graded, monkeypatch):
    """Negative control of the batch: a process that never returns gets a reason."""
    from classroom import grade

    monkeypatch.setattr(grade, "LONGEST", 0.05)
    entry = next(entry for entry in graded.entries if entry.who == "blank")
    assert "took more than" in grade.grade_one(graded.course, entry)
    shutil.rmtree(graded.course.root / "graded", ignore_errors=True)
