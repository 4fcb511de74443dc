"""Read what students handed in, whatever it is, and bring it into nbgrader's layout.

A folder is one student with any number of files, a loose file is one student, a zip is opened.
Nothing is executed here. What cannot be read becomes an entry with a reason.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import unicodedata
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nbformat.v4 import new_code_cell, new_markdown_cell

from classroom.course import Course

LARGEST = 300_000_000  # bytes of one file
LARGEST_CELL = 100_000  # characters of one answer
ENCODINGS = ("utf-8-sig", "utf-16", "cp1252")


@dataclass
class Entry:
    """One file of one student: either ready to be graded, or with the reason why not."""

    who: str
    file: str
    student: str
    assignment: str = ""
    reason: str = ""
    note: str = ""
    digest: str = ""


def student_id(who: str) -> str:
    """Return a name that is safe as a folder and tells equal-looking names apart.

    Examples
    --------
    >>> student_id("ada")
    'ada'
    >>> student_id("José Pérez")
    'Jose_Perez-a51ad5'
    """
    plain = unicodedata.normalize("NFKD", who).encode("ascii", "ignore").decode()
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", plain).strip("_.") or "student"
    short = hashlib.sha256(who.encode(errors="surrogateescape")).hexdigest()[:6]
    return who if plain == who else f"{plain[:60]}-{short}"


def collect(course: Course, submissions: Path) -> list[Entry]:
    """Copy every readable submission to the course's `submitted` and return all entries."""
    if not submissions.is_dir():
        raise SystemExit(f"SUBMISSIONS: expected a folder, got {submissions}")
    released = {name: course.released(name) for name in course.assignments}
    entries, taken = [], {}
    for who, file, content in _files(submissions):
        entry = _read(course, released, who, file, content)
        key = (entry.student, entry.assignment)
        if not entry.reason and key in taken:
            entry.reason = f"a second notebook for {entry.assignment}; {taken[key]} was graded"
        elif not entry.reason:
            taken[key] = file
        entries.append(entry)
    if not entries:
        raise SystemExit(f"SUBMISSIONS: {submissions} holds no file")
    return entries


def _files(folder: Path) -> Iterator[tuple[str, str, bytes | str]]:
    """Yield student, file and content; a text instead of bytes is the reason why there is none."""
    for top in sorted(folder.iterdir()):
        if top.name.startswith((".", "__MACOSX")):
            continue
        who = top.name if top.is_dir() else top.stem
        paths = sorted(p for p in top.rglob("*") if p.is_file()) if top.is_dir() else [top]
        if not paths:
            yield who, "", "the folder is empty"
        for path in paths:
            if ".ipynb_checkpoints" in path.parts or path.name.startswith("."):
                continue
            content = _content(path)
            name = path.relative_to(folder).as_posix()
            if path.suffix == ".zip" and isinstance(content, bytes):
                yield from _unzipped(who, name, content)
            elif path.suffix == ".ipynb" or len(paths) == 1:
                yield who, name, content


def _content(path: Path) -> bytes | str:
    try:
        if path.stat().st_size > LARGEST:
            return f"the file has more than {LARGEST // 10**6} MB"
        return path.read_bytes()
    except OSError as error:
        return f"the file cannot be read ({error.strerror})"


def _unzipped(who: str, name: str, content: bytes) -> Iterator[tuple[str, str, bytes | str]]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            inside = [i for i in archive.infolist() if i.filename.endswith(".ipynb")
                      and "__MACOSX" not in i.filename]  # fmt: skip
            for item in inside:
                big = item.file_size > LARGEST
                yield (
                    who,
                    f"{name}/{item.filename}",
                    ("the unpacked file is too large" if big else archive.read(item)),
                )
            if not inside:
                yield who, name, "the zip holds no notebook"
    except (zipfile.BadZipFile, RuntimeError, OSError):
        yield who, name, "the zip cannot be opened"


def _read(course: Course, released: dict, who: str, file: str, content: bytes | str) -> Entry:
    entry = Entry(who, file, student_id(who))
    if isinstance(content, str):
        entry.reason = content
        return entry
    nb, entry.reason, entry.note = _parsed(content)
    if entry.reason:
        return entry
    ids = {_grade_id(cell) for cell in nb["cells"]} - {None}
    # Quizzes share the names of their cells, so the texts count as well.
    texts = {_source(cell) for cell in nb["cells"] if isinstance(cell, dict)}
    shared = {
        name: len(ids & _ids(release))
        and len(ids & _ids(release)) + 2 * len(texts & _texts(release))
        for name, release in released.items()
    }
    entry.assignment = max(shared, key=shared.get)
    if not shared[entry.assignment]:
        name = Path(file).stem
        entry.assignment = next((a for a in released if name.startswith(a)), "")
    if not entry.assignment:
        entry.reason = "none of the assignment's cells is in this notebook"
        return entry
    clean = rebuilt(released[entry.assignment], nb)
    text = json.dumps(clean, indent=1)
    entry.digest = hashlib.sha256(text.encode()).hexdigest()
    folder = course.root / "submitted" / entry.student / entry.assignment
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{entry.assignment}.ipynb").write_text(text, encoding="utf8")
    return entry


def _parsed(content: bytes) -> tuple[dict, str, str]:
    """Return the notebook, a reason why there is none, and a note."""
    for encoding in ENCODINGS:
        try:
            nb = json.loads(content.decode(encoding))
        except (UnicodeDecodeError, json.JSONDecodeError):
            continue
        except RecursionError:
            return {}, "the file is nested too deeply", ""
        cells = nb.get("cells") if isinstance(nb, dict) else None
        if not isinstance(cells, list):
            return {}, "the file is JSON, but not a notebook of version 4", ""
        note = "" if encoding == "utf-8-sig" else f"the file was written in {encoding}, not UTF-8"
        return nb, "", note
    if not content.strip():
        return {}, "the file is empty", ""
    return {}, "the file is not a notebook (no JSON)", ""


def rebuilt(release, submitted: dict) -> dict:
    """Return a sound notebook: cells and tests of the release, answers of the submission.

    Metadata, outputs and the text of locked cells are the release's. Of a cell that occurs twice
    the last one counts, as with nbgrader. Cells that a student added stay where they were.
    """
    original = {cell.metadata.nbgrader.grade_id: cell for cell in release.cells
                if cell.metadata.get("nbgrader", {}).get("grade_id")}  # fmt: skip
    cells = [cell for cell in submitted["cells"] if isinstance(cell, dict)]
    last = {_grade_id(cell): n for n, cell in enumerate(cells) if _grade_id(cell) in original}
    kept = []
    for n, cell in enumerate(cells):
        grade_id, source = _grade_id(cell), _source(cell)
        if last.get(grade_id) == n:
            same = json.loads(json.dumps(original[grade_id]))
            same["source"] = same["source"] if same["metadata"]["nbgrader"]["locked"] else source
            kept.append(same)
        elif cell.get("cell_type") == "code":
            kept.append(new_code_cell(source))
        elif cell.get("cell_type") == "markdown":
            kept.append(new_markdown_cell(source))
    setup = [c for c in release.cells if _is_setup(c) and c.metadata.nbgrader.grade_id not in last]
    kept[:0] = json.loads(json.dumps(setup))
    for number, cell in enumerate(kept):
        cell["id"] = f"cell-{number}"
    return {"cells": kept, "metadata": json.loads(json.dumps(release.metadata)), "nbformat": 4,
            "nbformat_minor": 5}  # fmt: skip


def _is_setup(cell) -> bool:
    meta = cell.metadata.get("nbgrader", {})
    return bool(meta.get("locked")) and not meta.get("grade")


def _grade_id(cell) -> str | None:
    if not isinstance(cell, dict):
        return None
    meta = cell.get("metadata")
    meta = meta.get("nbgrader") if isinstance(meta, dict) else None
    grade_id = meta.get("grade_id") if isinstance(meta, dict) else None
    return grade_id if isinstance(grade_id, str) else None


def _ids(release) -> set[str]:
    return {_grade_id(cell) for cell in release.cells} - {None, "setup", "written"}


def _texts(release) -> set[str]:
    return {cell.source for cell in release.cells}


def _source(cell: dict) -> str:
    source = cell.get("source", "")
    text = source if isinstance(source, str) else "".join(map(str, source))
    return text.encode("utf8", "replace").decode("utf8")[:LARGEST_CELL]
