"""Grade a folder of submissions: in parallel, with progress, resumable, a line for every file.

`python -m classroom.grade COURSE SUBMISSIONS [--jobs 2]`. Every submission is autograded by
nbgrader in a process of its own, so that nothing a student wrote can stop the batch.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

from nbgrader.api import MissingEntry

from classroom.collect import Entry, collect
from classroom.course import Course, forget

LONGEST = 900  # seconds of one submission, all included, before its process is ended
COLUMNS = ("student", "assignment", "automatic", "automatic_max", "written", "written_max",
           "total", "max", "file", "note")  # fmt: skip


def record_file(course: Course, entry: Entry) -> Path:
    return course.root / "graded" / f"{entry.student}--{entry.assignment}.json"


def is_graded(course: Course, entry: Entry) -> bool:
    """Whether this very submission was graded before, so that a stopped batch goes on."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        record = json.loads(record_file(course, entry).read_text(encoding="utf8"))
        return record["digest"] == entry.digest and record["seed"] == course.seed
    return False


def grade_one(course: Course, entry: Entry) -> str:
    """Autograde in a process of its own; return "" or why it did not work."""
    forget(course, entry.student, entry.assignment)
    command = [sys.executable, "-m", "classroom.grade", str(course.root), "--one", entry.student,
               entry.assignment]  # fmt: skip
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYTHONWARNINGS": "ignore",
    }
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        output = f"the grading took more than {LONGEST} seconds"
        process.returncode = 1
    except BaseException:
        _end(process)
        raise
    _end(process)
    if process.returncode:
        return (output.strip().splitlines() or ["the grader stopped"])[-1][:300]
    record = {"digest": entry.digest, "seed": course.seed}
    record_file(course, entry).parent.mkdir(exist_ok=True)
    record_file(course, entry).write_text(json.dumps(record), encoding="utf8")
    return ""


def _end(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def one(course: Course, student: str, assignment: str) -> None:
    """nbgrader's autograde and feedback for one submission, in this process."""
    for step in (course.api.autograde, course.api.generate_feedback):
        result = step(assignment, student, force=True)
        if not result["success"]:
            print(result.get("log", ""), result.get("error", ""), file=sys.stderr)
            raise SystemExit(f"nbgrader: {_cause(result)}")


def _cause(result: dict) -> str:
    lines = (result.get("error") or result.get("log") or "no reason given").strip().splitlines()
    return lines[-1].strip()


def grade_all(course: Course, entries: list[Entry], jobs: int, say=print) -> None:
    """Grade what is not graded yet, and say how far it is."""
    ready = [entry for entry in entries if not entry.reason]
    waiting = [entry for entry in ready if not is_graded(course, entry)]
    say(f"{len(entries)} files, {len(ready)} to grade, {len(ready) - len(waiting)} graded before")
    begin, pool = time.monotonic(), ThreadPoolExecutor(max_workers=jobs)
    try:
        running = {pool.submit(grade_one, course, entry): entry for entry in waiting}
        for count, done in enumerate(as_completed(running), 1):
            entry = running[done]
            entry.reason = done.result()
            outcome = f"not graded: {entry.reason}" if entry.reason else points(course, entry)
            so_far = f"{count}/{len(waiting)}, {time.monotonic() - begin:.0f} s"
            say(f"[{so_far}] {entry.who}, {entry.assignment}: {outcome}")
    finally:
        pool.shutdown(cancel_futures=True)


def scores(course: Course, entry: Entry) -> dict:
    """Automatic and written points from nbgrader's gradebook; written ones may be open."""
    found = {"automatic": 0.0, "automatic_max": 0.0, "written": 0.0, "written_max": 0.0, "open": 0}
    with course.gradebook() as gradebook:
        notebook = gradebook.find_submission_notebook(
            entry.assignment, entry.assignment, entry.student
        )
        for grade in notebook.grades:
            kind = "written" if grade.cell.cell_type == "markdown" else "automatic"
            found[kind] += grade.score or 0.0
            found[f"{kind}_max"] += grade.max_score
            found["open"] += bool(grade.needs_manual_grade)
    return found


def points(course: Course, entry: Entry) -> str:
    found = scores(course, entry)
    text = f"{found['automatic']:g} of {found['automatic_max']:g} automatic points"
    return text + (f", {found['open']} written answers to read" if found["open"] else "")


def rows(course: Course, entries: list[Entry]) -> list[dict]:
    """One row a file; a file without a mark has its reason."""
    table = []
    for entry in entries:
        row = {"student": entry.who, "assignment": entry.assignment, "file": entry.file,
               "note": f"not graded: {entry.reason}" if entry.reason else entry.note}  # fmt: skip
        if not entry.reason:
            try:
                found = scores(course, entry)
            except MissingEntry:
                row["note"] = "not graded: nothing in the gradebook"
            else:
                row |= {k: found[k] for k in COLUMNS if k in found}
                row["total"] = found["automatic"] + found["written"]
                row["max"] = found["automatic_max"] + found["written_max"]
                if found["open"]:
                    row["note"] = "; ".join(filter(None, [row["note"], "written answers to read"]))
        table.append(row)
    return table


def apply_written(course: Course, table: Path) -> int:
    """Enter points for written answers from a CSV: student, assignment, cell, points, comment."""
    from classroom.collect import student_id

    count = 0
    with table.open(encoding="utf-8-sig", newline="") as lines, course.gradebook() as gradebook:
        for line in csv.DictReader(lines):
            place = (line.get("cell") or "written", line["assignment"], line["assignment"],
                     student_id(line["student"]))  # fmt: skip
            grade = gradebook.find_grade(*place)
            points = float(line["points"])
            if not 0 <= points <= grade.max_score:
                allowed = f"points from 0 to {grade.max_score:g}"
                raise SystemExit(f"{table}: {line['student']}: {allowed}, got {points:g}")
            grade.manual_score, grade.needs_manual_grade = points, False
            if line.get("comment"):
                gradebook.find_comment(*place).manual_comment = line["comment"]
            count += 1
        gradebook.db.commit()
    return count


def write_report(course: Course, entries: list[Entry]) -> Path:
    path = course.root / "grades.csv"
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows(course, entries))
    (course.root / "entries.json").write_text(
        json.dumps([asdict(entry) for entry in entries], indent=1), encoding="utf8"
    )
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("course", type=Path)
    parser.add_argument("submissions", type=Path, nargs="?")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--written", type=Path, help="CSV with points of written answers")
    parser.add_argument("--one", nargs=2, metavar=("STUDENT", "ASSIGNMENT"))
    options = parser.parse_args()
    course = Course(options.course)
    if not course.exists():
        raise SystemExit(
            f"{course.root} is no course yet; run: make release COURSE={options.course}"
        )
    if options.one:
        return one(course, *options.one)
    entries = collect(course, options.submissions)
    grade_all(course, entries, options.jobs, say=lambda line: print(line, flush=True))
    if options.written:
        print(f"{apply_written(course, options.written)} written answers entered")
        for entry in entries:
            if not entry.reason:
                course.api.generate_feedback(entry.assignment, entry.student, force=True)
    print(f"Marks: {write_report(course, entries)}")
    print(f"Feedback pages: {course.root / 'feedback'}")


if __name__ == "__main__":
    main()
