"""Every built page in Chromium: nothing fails, nothing is fetched, nothing is wider than a screen,
and axe finds no violation in either theme.
"""

import os
from pathlib import Path

import pytest
from chromium import REDIRECT, ROOT, SITE, built_pages, opened, skip
from weigh import LIMIT, weights

WIDTHS = (1280, 768, 320)
# What axe calls best practices beyond the standard is asked for as well. The second theme has the
# same elements, so that only the rules about colours are asked again.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
COLOUR_RULES = ["color-contrast", "link-in-text-block"]
TURN = """async (theme) => {
  document.documentElement.dataset.theme = theme;
  const drawn = () => new Promise((resolve) => requestAnimationFrame(resolve));
  await drawn(); await drawn();
  await Promise.all(document.getAnimations().map((animation) => animation.finished));
}"""
EMPTY_HEADERS = """() => [...document.querySelectorAll("th")]
  .filter((th) => !th.textContent.trim())
  .map((th) => th.closest("table").outerHTML.slice(0, 150))"""
TOO_WIDE = """async () => {
  const drawn = () => new Promise((resolve) => requestAnimationFrame(resolve));
  await drawn(); await drawn();
  const page = document.documentElement;
  if (page.scrollWidth <= page.clientWidth) return [];
  const wide = [...document.querySelectorAll("body *")].filter((node) => {
    for (let box = node.parentElement; box; box = box.parentElement)
      if (box !== document.body && getComputedStyle(box).overflowX !== "visible") return false;
    return node.getBoundingClientRect().right > page.clientWidth + 1;
  });
  const names = wide.slice(0, 3).map((node) => node.outerHTML.slice(0, 150));
  return [`${page.scrollWidth} of ${page.clientWidth}`, ...names];
}"""


def axe_source() -> str:
    try:
        import axe_playwright_python
    except ImportError:
        skip("axe is not installed: run `make browser`")
    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf8")


def violations(page, rules: list[str]) -> list[str]:
    """What axe finds, one sentence a rule, with the first places."""
    # Without preload: axe would fetch style sheets, which a page from a file may not.
    # Characters of a formula are drawn and do not count as text there; EMPTY_HEADERS asks instead.
    rules = {"runOnly": rules, "rules": {"empty-table-header": {"enabled": False}}}
    options = {"resultTypes": ["violations"], "preload": False} | rules
    result = page.evaluate("(options) => axe.run(document, options)", options)
    return [
        f"axe {v['id']}: {v['help']}: {[node['html'][:120] for node in v['nodes'][:3]]}"
        for v in result["violations"]
    ]


def too_wide(page) -> list[str]:
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        found += [f"too wide at {width} px: {text}" for text in page.evaluate(TOO_WIDE)]
    return found


def complaints(browser, path: Path) -> list[str]:
    """All that is wrong with a page, which is opened once and then turned dark and made narrow."""
    with opened(browser, path, color_scheme="light") as (page, found):
        if REDIRECT in path.read_text(encoding="utf8"):
            return found
        text, _ = weights(page.requested)
        found += [f"heavy: {text} bytes without pictures"] if text > LIMIT else []
        page.evaluate(axe_source())
        for theme, rules in (("light", RULES), ("dark", COLOUR_RULES)):
            page.evaluate(TURN, theme)
            found += [f"{theme}: {text}" for text in violations(page, rules)]
        found += [f"empty header: {text}" for text in page.evaluate(EMPTY_HEADERS)]
        found += too_wide(page)
    return found


def test_there_are_pages(site):
    assert built_pages() != []


@pytest.mark.parametrize("name", built_pages())
def test_page(browser, site, name):
    assert complaints(browser, SITE / name) == []


def test_a_heavy_page_is_noticed(browser, tmp_path):
    noise = tmp_path / "noise.js"
    noise.write_text(f"/* {os.urandom(LIMIT).hex()} */", encoding="utf8")
    path = write(tmp_path / "page.html", '<script src="noise.js"></script>')
    assert any(problem.startswith("heavy") for problem in complaints(browser, path))


MATHJAX = (ROOT / "book/_static/mathematics.js").as_uri()
PAGE = (
    '<!DOCTYPE html><html lang="en"><head><title>A page</title>'
    '<meta name="viewport" content="width=device-width"><script src="{script}"></script></head>'
    "<body><main><h1>A page</h1>{body}</main></body></html>"
)


def write(path: Path, body: str) -> Path:
    path.write_text(PAGE.format(script=MATHJAX, body=body), encoding="utf8")
    return path


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("<script>nowhere()</script>", "error: nowhere is not defined"),
        ('<img alt="" src="missing.png">', "failed: "),
        ('<img alt="" src="http://localhost:9/x.png">', "fetched: "),
        (
            r'<p class="math">\(\undefinedenvironment{x} \begin{nothing}\end{nothing}\)</p>',
            "formula",
        ),
        ('<p class="math">no formula</p>', "MathJax left formulas unset"),
        ('<p style="color: #aaa; background: #fff">pale</p>', "light: axe color-contrast"),
        (
            '<style>[data-theme="dark"] p { color: #333; background: #000 }</style><p>dark</p>',
            "dark: axe color-contrast",
        ),
        ('<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">', "light: axe image-alt"),
        ("<table><tr><th></th></tr><tr><td>x</td></tr></table>", "empty header"),
        ('<div style="width: 400px">wide</div>', "too wide at 320 px"),
        ('<div style="width: 900px">wide</div>', "too wide at 768 px"),
    ],
)
def test_a_broken_page_is_noticed(browser, tmp_path, body, reason):
    path = write(tmp_path / "page.html", body)
    assert any(problem.startswith(reason) for problem in complaints(browser, path))


def test_a_redirect_is_followed(browser, tmp_path):
    path, target = tmp_path / "page.html", tmp_path / "target.html"
    path.write_text(f'<meta {REDIRECT} content="0; url=target.html" />', encoding="utf8")
    target.write_text("<p>Here.</p>", encoding="utf8")
    assert complaints(browser, path) == []
    target.write_text("<script>nowhere()</script>", encoding="utf8")
    assert any(problem.startswith("error") for problem in complaints(browser, path))


def test_a_good_page_passes(browser, tmp_path):
    body = r'<p class="math">\(\boldsymbol{a}^\top x \in \mathbb{R}\)</p>'
    body += '<div style="overflow-x: auto" tabindex="0"><div style="width: 900px">wide</div></div>'
    assert complaints(browser, write(tmp_path / "page.html", body)) == []
