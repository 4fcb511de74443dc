"""Every link inside the built site leads to a file, and every anchor to an element."""

import os
from urllib.parse import unquote, urlsplit

import pytest
import toc
import yaml
from test_site import SITE, Elements

SKIPPED = ("http", "mailto", "data", "javascript")


def anchors_and_links(text: str) -> tuple[set[str], set[str]]:
    anchors, links = set(), set()
    for tag, attributes in Elements(text).found:
        anchors |= {attributes[key] for key in ("id", "name") if attributes.get(key)}
        links |= {
            attributes[key] for key in ("href", "src") if attributes.get(key) and tag != "base"
        }
    return anchors, {link for link in links if not link.startswith(SKIPPED)}


def broken_links(site) -> list[str]:
    pages = {path: path.read_text(encoding="utf8") for path in site.rglob("*.html")}
    read = {
        path: anchors_and_links(text) for path, text in pages.items() if "_static" not in path.parts
    }
    problems = []
    for page, (_, links) in sorted(read.items()):
        if page.name == "404.html":
            continue  # its links start from the top of the host
        for link in sorted(links):
            parts = urlsplit(link)
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            name = f"{page.relative_to(site).as_posix()}: {link}"
            if not target.is_file():
                problems.append(f"{name}: no such file")
            elif (
                parts.fragment and target in read and unquote(parts.fragment) not in read[target][0]
            ):
                problems.append(f"{name}: no such anchor")
    return problems


def test_links_of_the_site():
    if not SITE.is_dir() and "HMOE_REQUIRE_SITE" not in os.environ:
        pytest.skip("the book is not built: run `make book` first to test its links")
    assert SITE.is_dir(), "the book is not built"
    assert broken_links(SITE) == []


def test_broken_links_are_found(tmp_path):
    tmp_path.joinpath("a.html").write_text(
        '<a id="here" href="b.html#there">b</a><a href="#here">a</a><a href="https://x.org">x</a>'
        '<a href="b.html#nowhere">b</a><img src="c.png"><a href="#gone">gone</a>'
    )
    tmp_path.joinpath("b.html").write_text('<p id="there">b</p>')
    assert broken_links(tmp_path) == [
        "a.html: #gone: no such anchor",
        "a.html: b.html#nowhere: no such anchor",
        "a.html: c.png: no such file",
    ]


def redirect_problems(table: dict[str, str], pages: set[str]) -> list[str]:
    """An old address is not one of today's pages, and a new one is."""
    problems = []
    for old, new in table.items():
        if "#" not in old and old in pages:
            problems.append(f"{old} is a page, and cannot have moved")
        if "#" in old and old.partition("#")[0] not in pages:
            problems.append(f"{old}: the page is gone, so it needs a line of its own")
        if new.partition("#")[0] not in pages:
            problems.append(f"{old}: {new} is no page")
    return problems


def test_redirects_lead_to_pages():
    table = yaml.safe_load((toc.ROOT / "book/redirects.yml").read_text(encoding="utf8")) or {}
    pages = {path.relative_to(toc.ROOT).with_suffix("").as_posix() for path in toc.pages()}
    assert redirect_problems(table, pages) == []


def test_bad_redirects_are_found():
    pages = {"book/a", "book/b"}
    assert redirect_problems({"book/old": "book/a", "book/a#x": "book/b#y"}, pages) == []
    bad = {"book/a": "book/b", "book/gone#x": "book/a", "book/old": "book/nowhere"}
    assert len(redirect_problems(bad, pages)) == 3
