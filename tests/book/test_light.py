"""Pages are made light without losing what they use: style rules, icons, sizes of pictures."""

import re
from pathlib import Path

import hmoe_light as light
import pydata_sphinx_theme
import pytest
from fontTools.ttLib import TTFont
from PIL import Image
from test_site import SITE, built_pages

FONTS = Path(pydata_sphinx_theme.__file__).parent / "theme/pydata_sphinx_theme/static/vendor"
WORDS = {"a", "b", "x"}


@pytest.mark.parametrize(
    ("style", "kept"),
    [
        (".a{c:d}", ".a{c:d}\n"),
        (".nowhere{c:d}", ""),
        (".a .nowhere, .b > i, #x{c:d}", ".b > i,#x{c:d}\n"),
        (".a:not(.nowhere){c:d}", ".a:not(.nowhere){c:d}\n"),
        (":is(.nowhere, .a) p{c:d}", ":is(.nowhere, .a) p{c:d}\n"),
        ('.a[href$=".nowhere"]{c:d}', '.a[href$=".nowhere"]{c:d}\n'),
        (".bs-tooltip-auto{c:d}", ".bs-tooltip-auto{c:d}\n"),
        ("@media print{.nowhere{c:d} .a{c:d}}", "@media print{.a{c:d}\n}\n"),
        ("@media print{.nowhere{c:d}}", ""),
        ("@keyframes k{0%{c:d} 50%{c:e}}", "@keyframes k{0%{c:d} 50%{c:e}}\n"),
        ('.a::after{content:"}.b{"}', '.a::after{content:"}.b{"}\n'),
        (".a{c:url(data:x;y)} .b{c:d}", ".a{c:url(data:x;y)}\n.b{c:d}\n"),
        ('@import "x";.b{c:d}', '@import "x";.b{c:d}\n'),
    ],
)
def test_rules_are_kept_if_a_page_can_use_them(style, kept):
    assert light.what_is_used(style, WORDS) == kept


def test_comments_go_and_strings_stay():
    assert light.without_comments('a{b:"/* c  d */"} /* e */\n\n f{}') == 'a{b:"/* c  d */"}  f{}'


def test_imports_are_read_and_addresses_are_seen_from_the_top(tmp_path):
    (tmp_path / "styles").mkdir()
    (tmp_path / "basic.css").write_text("i{c:url(file.png)}")
    path = tmp_path / "styles/theme.css"
    path.write_text('@import "../basic.css"; b{c:url("../fonts/a.woff2?v=1") d:url(data:x)}')
    found = light.read_style(path, tmp_path)
    assert found == " ".join(("i{c:url(file.png)}", "b{c:url(fonts/a.woff2) d:url(data:x)}"))


def letters(path: Path) -> set[int]:
    with TTFont(path) as font:
        return set(font.getBestCmap())


def test_icon_fonts_keep_the_icons_that_are_named(tmp_path):
    (folder,) = FONTS.glob("fontawesome/*/webfonts")
    (tmp_path / "fonts").symlink_to(folder)
    face = '@font-face{{font-family:"{}";src:url(fonts/{}.woff2),url(fonts/{}.ttf)}}\n'
    style = face.format("Font Awesome 6 Free", *2 * ["fa-solid-900"])
    style += face.format("Font Awesome 5 Free", *2 * ["fa-solid-900"])
    use = '.a{font-family:Font Awesome\\ 6 Free}.a::after{content:"\\f017"}'
    found = light.cut_icons(style + use, tmp_path)
    assert found.count("@font-face") == 1 and found.endswith(use)
    (name,) = re.findall(r"url\(([^)]*)\)", found)
    assert letters(tmp_path / name) == {0xF017}
    assert (tmp_path / name).stat().st_size < 2000


PAGE = """<html data-content_root="../">
<link href="../_static/styles/theme.css?digest=1" rel="stylesheet" />
    <link rel="stylesheet" type="text/css" href="../_static/book.css?v=2" />
<link rel="preload" as="script" href="../_static/b.js" />
<script src="../_static/a.js"></script><script>inline()</script><script defer src="c.js"></script>
<img alt="a" src="../_images/a.png"><img alt="b" width="3" src="../_images/a.png">
<img alt="c" style="width: 100%" src="../_images/a.png">"""


@pytest.fixture
def page(tmp_path):
    (tmp_path / "_images").mkdir()
    (tmp_path / "book").mkdir()
    Image.new("L", (7, 5)).save(tmp_path / "_images/a.png")
    return light.lighten_page(PAGE, tmp_path / "book", "v")


def test_a_page_gets_one_style_and_waiting_scripts(page):
    assert re.findall(r'href="([^"]*)"', page) == ["../_static/site.css?v=v"]
    assert '<script defer src="../_static/a.js">' in page and "<script>inline()" in page
    assert page.count("defer") == 2


def test_pictures_say_how_large_they_are(page):
    first, second, third = re.findall("<img[^>]*>", page)
    assert 'width="7" height="5"' in first and 'width="7" height="5"' in third
    assert 'width="3"' in second and "height=" not in second
    assert page.count('loading="lazy"') == 3


def test_a_light_page_gets_the_address_of_a_new_style(page, tmp_path):
    again = light.lighten_page(page, tmp_path / "book", "w")
    assert again == page.replace("?v=v", "?v=w")


def icons_without_a_glyph(site: Path) -> set[str]:
    """Classes of icons on the pages of a site whose letter is in none of its icon fonts."""
    style = (site / "_static" / light.STYLE).read_text(encoding="utf8")
    shown = {
        code for path in (site / "_static").glob(f"{light.ICONS}-*.woff") for code in letters(path)
    }
    pages = "".join(path.read_text(encoding="utf8") for path in site.glob("**/*.html"))
    used = set(re.findall(r"[ \"](fa-[a-z-]+)", " ".join(re.findall(r'class="[^"]*"', pages))))
    missing = set()
    for name in used - {"fa-solid", "fa-regular", "fa-brands", "fa-lg", "fa-fw"}:
        code = re.search(rf'\.{name}:+before[^{{]*{{content:"\\([0-9a-f]+)"', style)
        if code is None or int(code[1], 16) not in shown:
            missing.add(name)
    return missing


def test_built_pages_are_light_and_lose_no_icon():
    for path in built_pages():
        text = path.read_text(encoding="utf8")
        # Redirects have no style, and the page for lost addresses carries its own.
        if "http-equiv" not in text and path.name != "404.html":
            assert light.styles_of(text) == [light.STYLE], path
    assert icons_without_a_glyph(SITE) == set()


def test_an_icon_without_a_glyph_is_noticed(tmp_path):
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / light.STYLE).write_text('.fa-bars:before{content:"\\f0c9"}')
    (tmp_path / "index.html").write_text('<i class="fa-solid fa-bars"></i>')
    assert icons_without_a_glyph(tmp_path) == {"fa-bars"}
