"""What a release consists of, into dist/: `make dist`, after `make book` and `make pdf`.

Everything is made from the last commit, so that no changed or forgotten file of the folder gets in,
and the built site has to be that of the commit. The files move into dist/ when all of them are
there, and SHA256SUMS comes last: an interrupted call is repaired by the next one.
"""

import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from notebooks_zip import TOP, contents, write_zip

ROOT = Path(__file__).resolve().parents[2]
SUMS = "SHA256SUMS"
OURS = (SUMS, "hmoe_lib-*", f"{TOP}-*")  # the sums first: without them, dist/ is not finished


class NotReadyError(Exception):
    """Something has to be done first; the message says what."""


def git(root: Path, *arguments: str) -> bytes:
    run = subprocess.run(["git", *arguments], cwd=root, capture_output=True)
    if run.returncode:
        reason = run.stderr.decode(errors="replace").strip()
        raise NotReadyError(f"A release is made from a commit in git, which says: {reason}")
    return run.stdout


def export(root: Path, tree: Path) -> int:
    """Write the files of the last commit, which must be all there is; return its time."""
    changed = git(root, "status", "--porcelain", "--untracked-files=no").decode()
    if changed:
        raise NotReadyError(f"Commit or take back first:\n{changed.rstrip()}")
    git(root, "checkout-index", "--all", f"--prefix={tree}/")
    return int(git(root, "log", "-1", "--format=%ct"))


def version(tree: Path) -> str:
    text = (tree / "hmoe_lib/__init__.py").read_text(encoding="utf8")
    return re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)[1]


def build_packages(tree: Path, folder: Path, time: int) -> None:
    """Wheel and source archive, the same bytes at each call."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(tree)]
    settings = {**os.environ, "SOURCE_DATE_EPOCH": str(time)}
    run = subprocess.run(command, capture_output=True, text=True, env=settings)
    if run.returncode:
        raise NotReadyError(f"The packages cannot be built:\n{run.stdout}{run.stderr}")
    for path in folder.glob("*.tar.gz"):
        path.write_bytes(without_times(path.read_bytes(), time))


def without_times(archive: bytes, time: int) -> bytes:
    """The same tar.gz with one time and no owners: setuptools writes the hour of the build."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as old,
        gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=time) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for entry in sorted(old.getmembers(), key=lambda entry: entry.name):
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = time, 0, 0, "", ""
            entry.pax_headers = {}
            new.addfile(entry, old.extractfile(entry) if entry.isfile() else None)
    return packed.getvalue()


def site_files(root: Path, tree: Path) -> dict[str, bytes]:
    """The built site; it must show the notebooks, the library and the pages of the commit."""
    site = root / "_build" / "html"
    if not (site / "notebooks.zip").is_file():  # written after all pages
        raise NotReadyError("There is no finished site in _build/html. Run `make book` first.")
    with zipfile.ZipFile(site / "notebooks.zip") as archive:
        shown = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    sources = site / "_sources"
    shown |= {p.relative_to(sources).as_posix(): p.read_bytes() for p in sources.rglob("*.md")}
    wanted = contents(tree)
    wanted |= {p.relative_to(tree).as_posix(): p.read_bytes() for p in tree.glob("book/**/*.md")}
    stale = sorted(name for name, content in shown.items() if wanted.get(name) != content)
    stale += sorted(contents(tree).keys() - shown.keys())
    if stale:
        raise NotReadyError(
            f"The site in _build/html is not that of the last commit: {', '.join(stale[:5])}"
            f"{' and others' if len(stale) > 5 else ''}. Run `make book` first."
        )
    return {p.relative_to(site).as_posix(): p.read_bytes() for p in site.rglob("*") if p.is_file()}


def add_paper(root: Path, path: Path, time: int) -> None:
    paper = root / "_build" / "latex" / "gated-attention.pdf"
    if not paper.is_file():
        print("No PDF among them: there is none in _build/latex. `make pdf` sets it.")
        return
    if paper.stat().st_mtime < time:
        raise NotReadyError("The PDF is older than the last commit. Run `make pdf`, or remove it.")
    path.write_bytes(paper.read_bytes())


def put(folder: Path, dist: Path) -> None:
    """Move the files into dist/, in the place of those of an earlier call."""
    dist.mkdir(exist_ok=True)
    for pattern in OURS:
        for old in dist.glob(pattern):
            old.unlink()
    made = sorted(folder.iterdir())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made]
    for path in made:
        print(f"{path.stat().st_size / 1e6:8.1f} MB  {path.name}")
        os.replace(path, dist / path.name)
    (folder / SUMS).write_text("".join(sums), encoding="utf8")
    os.replace(folder / SUMS, dist / SUMS)


def make(root: Path, dist: Path) -> None:
    dist.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".dist-", dir=dist.parent) as place:
        tree, folder = Path(place, "tree"), Path(place, "made")
        folder.mkdir()
        time = export(root, tree)
        name = f"{TOP}-{version(tree)}"
        write_zip(folder / f"{name}-site.zip", site_files(root, tree), f"{name}-site")
        write_zip(folder / f"{name}-notebooks.zip", contents(tree))
        add_paper(root, folder / f"{name}.pdf", time)
        build_packages(tree, folder, time)
        put(folder, dist)
    print(f"All of it is in {dist}; there, `sha256sum -c {SUMS}` checks a copy.")


def main() -> int:
    try:
        make(ROOT, ROOT / "dist")
    except NotReadyError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
