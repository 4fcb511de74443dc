"""A Chromium for the tests of the built pages, and pages that note what goes wrong in them.

`make browser` installs what is needed beside a Chromium. Without one, or without a built book, the
tests are skipped with a notice, unless HMOE_REQUIRE_SITE is set, as it is in `.ci/run`.
"""

import os
import warnings
from contextlib import contextmanager
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


def built_pages() -> list[str]:
    """Every page, as seen from the top of the site. Read at collection, so that they run apart."""
    pages = sorted(SITE.glob("*.html")) + sorted(SITE.glob("book/**/*.html"))
    return [page.relative_to(SITE).as_posix() for page in pages]


@contextmanager
def opened(browser, path: Path, **options):
    """A page from the file system with its formulas set, and the list of what went wrong in it."""
    found = []
    context = browser.new_context(**{"reduced_motion": "reduce", **options})
    page = context.new_page()
    page.requested = set()
    page.on("request", lambda request: page.requested.add(request.url))
    page.on("console", lambda m: found.append(f"console: {m.text}") if m.type == "error" else None)
    page.on("pageerror", lambda error: found.append(f"error: {error}"))
    page.on("requestfailed", lambda request: found.append(f"failed: {request.url}"))
    page.on(
        "request",
        lambda r: found.append(f"fetched: {r.url}") if r.url.startswith("http") else None,
    )
    page.goto(path.as_uri(), wait_until="load")
    if path.suffix == ".html" and REDIRECT in path.read_text(encoding="utf8"):
        # Closing the page on the way would abort the request, and that would look like a failure.
        target = f"document.location.href != {path.as_uri()!r} && document.readyState == 'complete'"
        page.wait_for_function(target)
    scripts = options.get("java_script_enabled", True)
    if scripts and page.locator(".math").count():
        page.wait_for_function("window.MathJax && MathJax.startup && MathJax.startup.promise")
        page.evaluate("MathJax.startup.promise")
        if page.locator("mjx-container").count() < page.locator(".math").count():
            found.append("MathJax left formulas unset")
        found += [f"formula: {text}" for text in page.locator("mjx-merror").all_text_contents()]
    yield page, found
    context.close()
