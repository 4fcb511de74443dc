"""The cell that makes a notebook self-sufficient, and the links that open one elsewhere."""

import json
import re
import subprocess
import sys
from types import SimpleNamespace

import build_lite
import hmoe_site
import launch_cells
import pytest
import toc

NOTEBOOKS = toc.notebooks()


def cells(path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf8"))["cells"]


# With `make launch-cells` the book as a whole changes over; no notebook may lag behind.
ADOPTED = any(launch_cells.is_launch(entry) for path in NOTEBOOKS for entry in cells(path))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_has_the_launch_cell_or_none_has(path):
    if ADOPTED:
        first = next(entry for entry in cells(path) if entry["cell_type"] == "code")
        assert "".join(first["source"]) == launch_cells.source(), "run `make launch-cells`"
        assert first["metadata"]["tags"] == ["remove-cell"]


def test_the_cell_is_written_once_and_renewed(tmp_path):
    before = [{"cell_type": "markdown"}, {"cell_type": "code", "id": "a"}, {"cell_type": "code"}]
    once = launch_cells.with_launch(before)
    assert [entry.get("id") for entry in once] == [None, "launch", "a", None]
    assert launch_cells.with_launch(once) == once
    (tmp_path / "_config.yml").write_text("repository: {url: https://x.org/r, branch: b}")
    renewed = launch_cells.with_launch(once, tmp_path)
    assert len(renewed) == len(once) and '"https://x.org/r", "b"' in "".join(renewed[1]["source"])


def test_in_the_browser_the_wheel_takes_its_place():
    nb = {"cells": launch_cells.with_launch([{"cell_type": "markdown"}, {"cell_type": "code"}])}
    cells = build_lite.for_the_browser(nb)["cells"]
    assert [entry["cell_type"] for entry in cells] == ["markdown", "code", "code"]
    assert cells[1]["source"][0].startswith("%pip install -q hmoe-lib")


def run(code: str, folder, search_path: str):
    program = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path += {[search_path]}\n{code}"]
    return subprocess.run(program, cwd=folder, capture_output=True, text=True)


def test_the_cell_does_nothing_where_the_library_is(tmp_path):
    assert run(launch_cells.source(), tmp_path, str(toc.ROOT)).stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_the_cell_fetches_the_library_where_it_is_missing(tmp_path):
    """From a repository on this machine, with pip's part written down instead of done."""
    repository = tmp_path / "repository"
    (repository / "hmoe_lib").mkdir(parents=True)
    (repository / "hmoe_lib/__init__.py").write_text("found = True")
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "all"], check=True)
    code = launch_cells.SOURCE.format(url=repository.as_uri(), branch="main")
    code = code.replace("subprocess.run(pip, check=True)", "print(pip[1:4])")
    found = run(f"{code}\nimport hmoe_lib; print(hmoe_lib.found)", tmp_path, "nowhere")
    assert found.stdout.splitlines() == [
        f"hmoe_lib is missing here. Installing it from {repository.as_uri()}: a minute, once.",
        "['-m', 'pip', 'install']",
        "True",
    ], found.stderr


def test_without_an_address_the_cell_says_so(tmp_path):
    found = run(launch_cells.SOURCE.format(url="", branch="main"), tmp_path, "nowhere")
    assert "names no repository" in found.stderr


def config(url="", baseurl=""):
    return SimpleNamespace(html_baseurl=baseurl, html_theme_options={"repository_url": url})


@pytest.mark.parametrize(
    ("url", "baseurl", "address"),
    [
        ("", "", ""),
        ("https://github.com/Owner/book", "", "https://owner.github.io/book/"),
        ("https://github.com/Owner/book.git", "", "https://owner.github.io/book/"),
        ("https://github.com/owner/owner.github.io", "", "https://owner.github.io/"),
        ("https://gitlab.com/owner/book", "", ""),
        ("https://github.com/Owner/book", "https://x.org/b", "https://x.org/b/"),
    ],
)
def test_the_address_of_the_site_follows_from_one_setting(url, baseurl, address):
    assert hmoe_site.site_address(config(url, baseurl)) == address


def links(buttons):
    group = {"label": "launch-buttons", "buttons": buttons}
    context = {
        "pagename": "book/part/page",
        "sourcename": "book/part/page.ipynb",
        "header_buttons": [group],
        "pathto": lambda name, resource=0: f"../../{name}" + ("" if resource else ".html"),
    }
    return dict(hmoe_site.run_links(context))


def test_a_notebook_page_says_how_it_is_run():
    found = links([{"text": "Colab", "url": "https://colab.research.google.com/x"}])
    assert list(found) == ["Download the notebook", "Open on Colab", "On your own machine"]
    assert found["Download the notebook"] == (
        '../../_sources/book/part/page.ipynb" download="page.ipynb'
    )
    assert found["On your own machine"] == "../../book/welcome/how_to_read.html#running"


def test_the_built_pages_link_to_the_configured_repository():
    """By pattern, once the repository is set; and to none before."""
    page = toc.ROOT / "_build/html/book/attention/five_places.html"
    if not page.is_file():
        pytest.skip("the book is not built: run `make book` first")
    text = page.read_text(encoding="utf8")
    url = re.search(r'^  url: "?([^"\n]*)', (toc.ROOT / "_config.yml").read_text(), re.M)[1]
    found = re.findall(r'href="(https://(?:mybinder|colab)[^"]*)"', text)
    if not url:
        assert found == []
        return
    owner_and_name = url.removeprefix("https://github.com/")
    place = "book/attention/five_places.ipynb"
    assert f"https://mybinder.org/v2/gh/{owner_and_name}/main?urlpath=lab/tree/{place}" in found
    assert f"https://colab.research.google.com/github/{owner_and_name}/blob/main/{place}" in found
