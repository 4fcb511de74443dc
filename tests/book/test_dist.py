"""What `make dist` makes: packages that hold what they should, a zip that runs, sums that fit."""

import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import make_dist
import notebooks_zip
import pytest
import toc

import hmoe_lib

VERSION = hmoe_lib.__version__
# Written by the build itself.
ADDED = {"PKG-INFO", "setup.cfg"}


def tracked() -> list[str]:
    """Files of the next commit; only a git clone knows them."""
    try:
        listed = make_dist.git(
            toc.ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z"
        )
    except (make_dist.NotReadyError, FileNotFoundError) as error:
        if "HMOE_REQUIRE_SITE" in os.environ:
            raise
        pytest.skip(f"packages are built from a git clone, and this is none: {error}")
    return [name for name in listed.decode().split("\0") if (toc.ROOT / name).is_file()]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Names of the files in wheel and source archive, and the wheel's metadata."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("out")
    for name in tracked():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes((toc.ROOT / name).read_bytes())
    make_dist.build_packages(tree, out, 1_800_000_000)
    with zipfile.ZipFile(out / f"hmoe_lib-{VERSION}-py3-none-any.whl") as wheel:
        in_wheel = set(wheel.namelist())
        about = wheel.read(f"hmoe_lib-{VERSION}.dist-info/METADATA").decode()
    with tarfile.open(out / f"hmoe_lib-{VERSION}.tar.gz") as archive:
        files = [entry for entry in archive.getmembers() if entry.isfile()]
    assert {entry.mtime for entry in files} == {1_800_000_000}
    in_archive = {entry.name.partition("/")[2] for entry in files}
    return in_wheel, in_archive, message_from_string(about)


def wrong_in_wheel(names: set[str], files: list[str]) -> set[str]:
    """What the wheel lacks of the library, and what it has besides it."""
    library = {name for name in files if name.startswith("hmoe_lib/")}
    return library ^ {name for name in names if ".dist-info/" not in name}


def wrong_in_archive(names: set[str], files: list[str]) -> set[str]:
    """The source archive is the tree."""
    return set(files) ^ {name for name in names - ADDED if ".egg-info/" not in name}


def test_the_wheel_is_the_library_and_the_archive_is_the_tree(built):
    in_wheel, in_archive, _ = built
    assert wrong_in_wheel(in_wheel, tracked()) == set()
    assert wrong_in_archive(in_archive, tracked()) == set()


def test_what_is_missing_and_what_is_too_much_is_found(built):
    """Negative control: a style sheet forgotten, a test and a stale module packed along."""
    in_wheel, in_archive, _ = built
    assert wrong_in_wheel(in_wheel - {"hmoe_lib/book.mplstyle"}, tracked())
    assert wrong_in_wheel(in_wheel | {"tests/checks.py"}, tracked())
    assert wrong_in_archive(in_archive - {"book/results/figure1.npz"}, tracked())
    assert wrong_in_archive(in_archive | {"build/lib/hmoe_lib/old.py"}, tracked())


def test_the_metadata(built):
    about = built[2]
    assert about["Version"] == VERSION and about["License-Expression"] == "BSD-3-Clause"
    assert about["Author"] and about["Description-Content-Type"] == "text/markdown"
    pythons = [c for c in about.get_all("Classifier") if " :: 3." in c]
    assert [p.rpartition(" ")[2] for p in pythons] == ["3.11", "3.12", "3.13"]
    assert about["Requires-Python"] == ">=3.11"


def test_the_version_is_the_same_wherever_it_is_written():
    citation = (toc.ROOT / "CITATION.cff").read_text(encoding="utf8")
    changes = (toc.ROOT / "CHANGELOG.md").read_text(encoding="utf8")
    assert f"\nversion: {VERSION}\n" in citation
    released = citation.partition("\ndate-released: ")[2].split("\n")[0]
    assert changes.partition("\n## ")[2].split("\n")[0] == f"{VERSION} ({released})"


# ---- the notebooks to take along --------------------------------------------------------------


def test_the_zip_has_what_its_notebooks_ask_for():
    names = notebooks_zip.contents(toc.ROOT).keys()
    notebooks = {path.relative_to(toc.ROOT).as_posix() for path in toc.notebooks()}
    results = {f"book/results/{p.name}" for p in (toc.ROOT / "book/results").iterdir()}
    data = {p.relative_to(toc.ROOT).as_posix() for p in (toc.ROOT / "book").glob("*/data/*")}
    library = {p.relative_to(toc.ROOT).as_posix() for p in (toc.ROOT / "hmoe_lib").rglob("*.py")}
    assert {n for n in names if n.endswith(".ipynb")} == notebooks
    assert names >= results | data | library | {"hmoe_lib/book.mplstyle", "pyproject.toml"}
    assert not {n for n in names if n.startswith(("book/assignments", "tests"))}


def test_the_zip_pins_what_it_requires():
    files = notebooks_zip.contents(toc.ROOT)
    pinned = {row.partition("==")[0] for row in files["constraints.txt"].decode().split()}
    rows = files["requirements.txt"].decode().splitlines()
    wanted = {row for row in rows if row and not row.startswith(("#", "-"))}
    assert wanted == {"ipykernel", "jupyterlab", "nbclient"} and wanted <= pinned
    assert len(pinned) > 150


def test_the_library_imports_from_the_unpacked_zip(tmp_path):
    notebooks_zip.write_zip(tmp_path / "a.zip", notebooks_zip.contents(toc.ROOT))
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        archive.extractall(tmp_path)
    code = "import hmoe_lib.plots, hmoe_lib.experiments as e; print(e.__file__, e.load('heads', "
    code += "'book/results').config.name)"
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / notebooks_zip.TOP,
                         env=settings, capture_output=True, text=True)  # fmt: skip
    assert run.stdout.split()[1:] == ["heads"], run.stderr
    assert Path(run.stdout.split()[0]).is_relative_to(tmp_path)


# ---- the command ------------------------------------------------------------------------------


@pytest.fixture
def clone(tmp_path):
    """A small clone with a site that was built from its commit."""
    files = {
        "hmoe_lib/__init__.py": '__version__ = "7.0"\n',
        "book/a/page.md": "# A\n",
        "book/a/page.ipynb": "{}",
        "pyproject.toml": "",
        ".gitignore": "_build\ndist\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    commit(tmp_path, "init", "-q")
    site = tmp_path / "_build/html"
    (site / "_sources/book/a").mkdir(parents=True)
    (site / "index.html").write_text("home")
    (site / "_sources/book/a/page.md").write_text("# A\n")
    notebooks_zip.write_zip(site / "notebooks.zip", notebooks_zip.contents(tmp_path))
    return tmp_path


def commit(root, *first):
    if first:
        make_dist.git(root, *first)
    make_dist.git(root, "add", ".")
    make_dist.git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all")


@pytest.fixture
def quick(monkeypatch):
    """Packages are tried above."""

    def packages(tree, folder, time):
        (folder / f"hmoe_lib-{make_dist.version(tree)}.tar.gz").write_bytes(str(time).encode())

    monkeypatch.setattr(make_dist, "build_packages", packages)


def check_sums(dist):
    rows = (dist / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (row.split("  ") for row in rows)}
    found = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in dist.iterdir()}
    del found["SHA256SUMS"]
    assert found == sums


def test_it_makes_all_and_again_the_same(clone, quick, capsys):
    dist = clone / "dist"
    dist.mkdir()
    (dist / "hmoe_lib-6.0.tar.gz").write_text("of an earlier version")
    make_dist.make(clone, dist)
    assert "No PDF among them" in capsys.readouterr().out
    paper = clone / "_build/latex/gated-attention.pdf"
    paper.parent.mkdir()
    paper.write_text("paper")
    make_dist.make(clone, dist)
    check_sums(dist)
    first = {path.name: path.read_bytes() for path in dist.iterdir()}
    assert set(first) == {
        "SHA256SUMS", "gated-attention-7.0-notebooks.zip", "gated-attention-7.0-site.zip",
        "gated-attention-7.0.pdf", "hmoe_lib-7.0.tar.gz",
    }  # fmt: skip
    make_dist.make(clone, dist)
    assert {path.name: path.read_bytes() for path in dist.iterdir()} == first
    (dist / "gated-attention-7.0.pdf").write_text("other")
    with pytest.raises(AssertionError):  # negative control
        check_sums(dist)


def test_stopped_in_the_middle_it_is_repaired_by_the_next_call(clone, quick, monkeypatch):
    dist = clone / "dist"
    make_dist.make(clone, dist)
    moves = []

    def stopped(old, new):
        moves.append(new)
        if len(moves) == 2:
            raise KeyboardInterrupt
        os.rename(old, new)

    with monkeypatch.context() as patched:
        patched.setattr(make_dist.os, "replace", stopped)
        with pytest.raises(KeyboardInterrupt):
            make_dist.make(clone, dist)
    assert not (dist / "SHA256SUMS").exists()
    make_dist.make(clone, dist)
    check_sums(dist)
    assert not list(clone.glob(".dist-*"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda root: (root / "_build/html/notebooks.zip").unlink(), "Run `make book` first"),
        (lambda root: (root / "pyproject.toml").write_text("x"), "Commit or take back first"),
        (lambda root: (root / ".git/HEAD").unlink(), "made from a commit in git, which says"),
    ],
)
def test_what_has_to_be_done_first_is_said(clone, quick, change, message):
    change(clone)
    with pytest.raises(make_dist.NotReadyError, match=message):
        make_dist.make(clone, clone / "dist")
    assert not (clone / "dist").exists()


@pytest.mark.parametrize("name", ["book/a/page.md", "book/a/page.ipynb", "hmoe_lib/new.py"])
def test_a_site_of_another_commit_is_refused(clone, quick, name):
    (clone / name).write_text("changed")
    commit(clone)
    with pytest.raises(make_dist.NotReadyError, match=f"not that of the last commit: {name}"):
        make_dist.make(clone, clone / "dist")


def test_an_old_pdf_is_refused(clone, quick):
    paper = clone / "_build/latex/gated-attention.pdf"
    paper.parent.mkdir()
    paper.write_text("paper")
    os.utime(paper, (0, 0))
    with pytest.raises(make_dist.NotReadyError, match="The PDF is older"):
        make_dist.make(clone, clone / "dist")
