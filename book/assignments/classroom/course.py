"""A course: one folder with nbgrader's layout, made by `make release`, used by `make grade`."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from classroom import student_version as sv

# nbgrader calls the program `alembic` of its own environment.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])

SEED_FILE = "seed.json"
CONFIG = """# Loads the configuration of the book's assignments, so nbgrader's commands work here.
import sys

sys.path.insert(0, {folder!r})
load_subconfig("nbgrader_config.py", path={folder!r})
c = get_config()
c.CourseDirectory.root = {root!r}
c.CourseDirectory.db_url = {db!r}
c.ConfinedKernel.course = {root!r}
"""


class Course:
    """Where everything of one class lies."""

    def __init__(self, root: Path):
        self.root = Path(root).resolve()

    @property
    def config(self) -> Config:
        loader = PyFileConfigLoader("nbgrader_config.py", path=str(self.root))
        return loader.load_config()

    @property
    def api(self) -> NbGraderAPI:
        config = self.config
        return NbGraderAPI(config=config)

    @property
    def db_url(self) -> str:
        # Two graders write at the same time; sqlite makes one wait.
        return f"sqlite:///{self.root / 'gradebook.db'}?timeout=120"

    def gradebook(self) -> Gradebook:
        return Gradebook(self.db_url, "gated-attention")

    @property
    def assignments(self) -> list[str]:
        return sorted(path.name for path in (self.root / "release").glob("*") if path.is_dir())

    @property
    def seed(self) -> int | None:
        return json.loads((self.root / SEED_FILE).read_text(encoding="utf8"))["seed"]

    def released(self, assignment: str) -> nbformat.NotebookNode:
        path = self.root / "release" / assignment / f"{assignment}.ipynb"
        return nbformat.read(path, as_version=4)

    def exists(self) -> bool:
        return (self.root / "gradebook.db").is_file() and bool(self.assignments)


def release(course: Course, seed: int | None = None, names: list[str] | None = None) -> list[str]:
    """Write the students' versions and zips of all assignments; return what was done, in lines."""
    if course.exists() and (course.root / "submitted").exists() and seed != course.seed:
        raise SystemExit(
            f"{course.root} holds submissions for seed {course.seed}. Another class gets another "
            "folder: make release COURSE=... SEED=..."
        )
    course.root.mkdir(parents=True, exist_ok=True)
    texts = CONFIG.format(folder=str(sv.ASSIGNMENTS), root=str(course.root), db=course.db_url)
    (course.root / "nbgrader_config.py").write_text(texts, encoding="utf8")
    (course.root / SEED_FILE).write_text(json.dumps({"seed": seed}), encoding="utf8")
    lines = []
    for name, path in sv.sources().items():
        if names and name not in names:
            continue
        nb = sv.with_seed(json.loads(path.read_text(encoding="utf8")), seed)
        target = course.root / "source" / name
        target.mkdir(parents=True, exist_ok=True)
        (target / path.name).write_text(json.dumps(nb, indent=1), encoding="utf8")
        result = course.api.generate_assignment(name, force=True, create=True)
        if not result["success"]:
            raise SystemExit(f"nbgrader could not release {name}:\n{result['log']}")
        text = (course.root / "release" / name / path.name).read_text(encoding="utf8")
        zipped = course.root / "students" / f"{name}.zip"
        zipped.parent.mkdir(exist_ok=True)
        zipped.write_bytes(sv.bundle(name, text))
        lines.append(f"{name}: {zipped}")
    return lines


def forget(course: Course, student: str, assignment: str) -> None:
    """Remove what an earlier grading of this submission left."""
    for step in ("autograded", "feedback"):
        shutil.rmtree(course.root / step / student / assignment, ignore_errors=True)


def main() -> None:
    """`python -m classroom.course COURSE [SEED]`"""
    course, seed = Course(Path(sys.argv[1])), [int(s) for s in sys.argv[2:] if s]
    for line in release(course, seed[0] if seed else None):
        print(line)
    print(f"Give each zip to the students. Then: make grade COURSE={sys.argv[1]} SUBMISSIONS=...")


if __name__ == "__main__":
    main()
