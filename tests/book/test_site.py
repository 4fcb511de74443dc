"""The built site needs no network, and every image in it says what it shows.

Looks at `_build/html`; skipped when the book was not built, unless HMOE_REQUIRE_SITE is set (CI).
"""

import io
import os
import re
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import notebooks_zip
import pytest
import toc

SITE = toc.ROOT / "_build" / "html"
LOADS = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
# Links that name a page and load nothing.
NAMING = {"canonical", "next", "prev", "index", "search", "author"}
EXTERNAL = re.compile(r"^(?:https?:)?//")


class Elements(HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, {key: value or "" for key, value in attributes}))


def external_resources(text: str) -> list[str]:
    return [
        attributes[LOADS[tag]]
        for tag, attributes in Elements(text).found
        if tag in LOADS
        and EXTERNAL.match(attributes.get(LOADS[tag], ""))
        and not (tag == "link" and attributes.get("rel") in NAMING)
    ]


def images_without_text(text: str) -> list[str]:
    """Images of the page's own content whose alternative text is not 40 to 300 characters."""
    return [
        attributes["src"]
        for tag, attributes in Elements(text).found
        if tag == "img"
        and "_images/" in attributes.get("src", "")
        and not 40 <= len(attributes.get("alt", "")) <= 300
    ]


def unwanted_scripts(text: str) -> list[str]:
    return re.findall(r"sphinx-thebe\.js|fontawesome[^\"]*\.js|unpkg\.com|jsdelivr\.net", text)


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (external_resources, '<script src="../a.js">', '<script src="https://cdn.org/a.js">'),
        (external_resources, '<a href="https://a.org">', '<img src="//a.org/x.png">'),
        (
            external_resources,
            '<link rel="canonical" href="https://a.org">',
            '<link rel="stylesheet" href="https://a.org/a.css">',
        ),
        (images_without_text, '<img src="_static/logo.svg">', '<img src="../_images/a.png">'),
        (
            images_without_text,
            f'<img src="_images/a.png" alt="{"x" * 40}">',
            f'<img src="_images/a.png" alt="{"x" * 39}">',
        ),
        (unwanted_scripts, "theme.js", '<script src="_static/sphinx-thebe.js">'),
        (unwanted_scripts, "fontawesome/all.min.css", '"fontawesome/6/js/all.min.js"'),
    ],
)
def test_a_rule_tells_good_from_bad(rule, good, bad):
    assert rule(good) == []
    assert len(rule(bad)) == 1


def built_pages() -> list[Path]:
    pages = sorted(SITE.glob("*.html")) + sorted(SITE.glob("book/**/*.html"))
    if not pages and "HMOE_REQUIRE_SITE" not in os.environ:
        pytest.skip("the book is not built: run `make book` first to test the site")
    assert pages, "the book is not built"
    return pages


@pytest.mark.parametrize("rule", [external_resources, images_without_text, unwanted_scripts])
def test_site(rule):
    problems = {page.name: rule(page.read_text(encoding="utf8")) for page in built_pages()}
    assert {name: found for name, found in problems.items() if found} == {}


def test_every_page_of_the_toc_is_built():
    built = {page.relative_to(SITE).with_suffix("") for page in built_pages()}
    expected = {page.relative_to(toc.ROOT).with_suffix("") for page in toc.pages()}
    assert expected - built == set()


def heads_without(text: str) -> list[str]:
    """What a page of the book does not say of itself to a search engine."""
    names = {
        a.get("name") or a.get("property"): a.get("content", "") for _, a in Elements(text).found
    }
    wanted = {"description": range(20, 161), "og:title": range(3, 120), "viewport": range(5, 100)}
    return [name for name, lengths in wanted.items() if len(names.get(name, "")) not in lengths]


def test_a_head_without_a_description_is_noticed():
    good = '<meta name="viewport" content="width=5"><meta property="og:title" content="Title">'
    described = f'{good}<meta name="description" content="A sentence about it.">'
    assert heads_without(described) == []
    assert heads_without(good) == ["description"]


def test_every_page_says_what_it_is():
    built_pages()
    lacking = {}
    for page in toc.pages():
        name = page.relative_to(toc.ROOT).with_suffix(".html")
        lacking[name.stem] = heads_without((SITE / name).read_text(encoding="utf8"))
    lacking.pop("bibliography")  # a list without a sentence
    assert {name: found for name, found in lacking.items() if found} == {}


def test_the_archive_holds_every_notebook_and_what_it_needs():
    built_pages()
    with zipfile.ZipFile(SITE / "notebooks.zip") as archive:
        found = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    assert found.keys() >= {p.relative_to(toc.ROOT).as_posix() for p in toc.notebooks()}
    assert found == notebooks_zip.contents(toc.ROOT)


def test_notebooks_are_downloaded_not_shown():
    built_pages()
    for page in toc.notebooks():
        name = page.relative_to(toc.ROOT)
        text = (SITE / name.with_suffix(".html")).read_text(encoding="utf8")
        links = [
            a
            for tag, a in Elements(text).found
            if tag == "a" and a.get("href", "").endswith(name.name) and "://" not in a["href"]
        ]
        assert links and all("download" in link for link in links)
        assert (SITE / "_sources" / name).is_file()


SECRETS = (b"BEGIN SOLUTION", b"BEGIN HIDDEN TESTS", b"END HIDDEN TESTS")


def secrets_in(name: str, content: bytes) -> list[str]:
    """Marks of solutions and hidden tests in a file, and in the files of a zip."""
    if name.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            inside = {f"{name}/{item}": archive.read(item) for item in archive.namelist()}
        return [found for item in inside.items() for found in secrets_in(*item)]
    return [f"{name}: {secret.decode()}" for secret in SECRETS if secret in content]


def test_a_secret_is_found_in_a_file_and_in_a_zip():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.ipynb", "### BEGIN SOLUTION")
    assert secrets_in("a.ipynb", b"### BEGIN HIDDEN TESTS") == ["a.ipynb: BEGIN HIDDEN TESTS"]
    assert secrets_in("a.zip", packed.getvalue()) == ["a.zip/a.ipynb: BEGIN SOLUTION"]
    assert secrets_in("a.html", b"nothing") == []


def test_assignments_are_downloads_without_solutions():
    built_pages()
    sources = sorted(path.stem for path in (toc.ROOT / "book/assignments/source").glob("*/*.ipynb"))
    page = SITE / "book" / "classroom" / "assignments.html"
    links = [
        a
        for tag, a in Elements(page.read_text(encoding="utf8")).found
        if tag == "a" and a.get("href", "").endswith(".zip")
    ]
    assert sorted(Path(a["href"]).stem for a in links) == sources
    assert all("download" in a for a in links)
    assert all((page.parent / a["href"]).is_file() for a in links)
    leaks = [
        leak
        for path in sorted(SITE.rglob("*"))
        if path.is_file() and path.suffix in (".zip", ".ipynb", ".html", ".js", ".txt", ".md")
        for leak in secrets_in(path.relative_to(SITE).as_posix(), path.read_bytes())
    ]
    assert leaks == []
