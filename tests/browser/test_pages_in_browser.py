"""Every built page, opened from the file system in Chromium: nothing fails, nothing is fetched.

Run by `make browser`, which installs what it needs beside a Chromium.
"""

import os
import shutil
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
REQUIRED = "HMOE_REQUIRE_SITE" in os.environ
REDIRECT = 'http-equiv="Refresh"'


def skip(reason: str) -> None:
    if REQUIRED:
        pytest.fail(reason)
    warnings.filterwarnings("always", message="NO PAGE WAS OPENED")
    warnings.warn(f"NO PAGE WAS OPENED IN A BROWSER: {reason}", stacklevel=2)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser():
    program = next((path for path in map(shutil.which, NAMES) if path), None)
    if program is None:
        skip("no Chromium is installed")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        skip("playwright is not installed: run `make browser`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=OPTIONS)
        yield browser
        browser.close()


def complaints(browser, path: Path) -> list[str]:
    """What goes wrong while a page opens from the file system and sets its formulas."""
    found = []
    page = browser.new_page()
    page.on("console", lambda m: found.append(f"console: {m.text}") if m.type == "error" else None)
    page.on("pageerror", lambda error: found.append(f"error: {error}"))
    page.on("requestfailed", lambda request: found.append(f"failed: {request.url}"))
    page.on(
        "request",
        lambda r: found.append(f"fetched: {r.url}") if r.url.startswith("http") else None,
    )
    page.goto(path.as_uri(), wait_until="load")
    if REDIRECT in path.read_text(encoding="utf8"):
        # Closing the page on the way would abort the request, and that would look like a failure.
        target = f"document.location.href != {path.as_uri()!r} && document.readyState == 'complete'"
        page.wait_for_function(target)
    if page.locator(".math").count():
        page.wait_for_function("window.MathJax && MathJax.startup && MathJax.startup.promise")
        page.evaluate("MathJax.startup.promise")
        if page.locator("mjx-container").count() < page.locator(".math").count():
            found.append("MathJax left formulas unset")
        found += [f"formula: {text}" for text in page.locator("mjx-merror").all_text_contents()]
    page.close()
    return found


def pages() -> list[Path]:
    return sorted(SITE.glob("*.html")) + sorted(SITE.glob("book/**/*.html"))


def test_every_page(browser):
    if not pages():
        skip("the book is not built: run `make book` first")
    found = {page.relative_to(SITE).as_posix(): complaints(browser, page) for page in pages()}
    assert {name: problems for name, problems in found.items() if problems} == {}


MATHJAX = (ROOT / "book/_static/mathjax/tex-mml-chtml.js").as_uri()
PAGE = '<html><head><script src="{script}"></script></head><body>{body}</body></html>'


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("<script>nowhere()</script>", "error: nowhere is not defined"),
        ('<img src="missing.png">', "failed: "),
        ('<img src="http://localhost:9/x.png">', "fetched: "),
        (
            r'<p class="math">\(\undefinedenvironment{x} \begin{nothing}\end{nothing}\)</p>',
            "formula",
        ),
        ('<p class="math">no formula</p>', "MathJax left formulas unset"),
    ],
)
def test_a_broken_page_is_noticed(browser, tmp_path, body, reason):
    path = tmp_path / "page.html"
    path.write_text(PAGE.format(script=MATHJAX, body=body), encoding="utf8")
    assert any(problem.startswith(reason) for problem in complaints(browser, path))


def test_a_redirect_is_followed(browser, tmp_path):
    path, target = tmp_path / "page.html", tmp_path / "target.html"
    path.write_text(f'<meta {REDIRECT} content="0; url=target.html" />', encoding="utf8")
    target.write_text("<p>Here.</p>", encoding="utf8")
    assert complaints(browser, path) == []
    target.write_text("<script>nowhere()</script>", encoding="utf8")
    assert any(problem.startswith("error") for problem in complaints(browser, path))


def test_a_good_page_passes(browser, tmp_path):
    path = tmp_path / "page.html"
    body = r'<p class="math">\(\boldsymbol{a}^\top x \in \mathbb{R}\)</p>'
    path.write_text(PAGE.format(script=MATHJAX, body=body), encoding="utf8")
    assert complaints(browser, path) == []
