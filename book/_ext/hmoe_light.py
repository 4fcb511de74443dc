"""What makes pages light on a slow phone: one style sheet that holds what they use, icons cut to
those that are shown, scripts that wait for the text, and pictures of known size that are fetched
when seen.

It works on the written pages, so that it needs nothing of the theme but the names of its files.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import imagesize
from fontTools import subset

STYLE, ICONS = "site.css", "icons"
LINK = re.compile(r'\s*<link href="([^"]*\.css[^"]*)" rel="stylesheet" />')
SPHINX_LINK = re.compile(r'\s*<link rel="stylesheet" type="text/css" href="([^"]*\.css[^"]*)" />')
PRELOAD = re.compile(r'\s*<link rel="preload" as="script" [^>]*>')
SCRIPT = re.compile(r"<script(?![^>]*\b(?:defer|async)\b)(?=[^>]*\bsrc=)")
PICTURE = re.compile(r'<img (?![^>]*\bloading=)([^>]*\bsrc="([^"]*_images/[^"]*)"[^>]*)>')
# Bootstrap puts the names of these together from parts.
BUILT_NAMES = ("bs-",)
GROUPS = ("@media", "@supports", "@layer")
STRING = r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\''
ADDRESS, WORD = r"url\([^\"')]*\)", r"(?:[^{};\"'u]|u(?!rl\([^\"']))+"
PIECE = re.compile(f"{STRING}|{ADDRESS}|[{{}};]|{WORD}", re.DOTALL)
CHOICE = re.compile(r":(?:not|is|where|has)\((?:[^()]|\([^()]*\))*\)")
NAME = re.compile(r"[.#](-?[A-Za-z_][\w-]*)")


# ---- Style -------------------------------------------------------------------------------------


def without_comments(text: str) -> str:
    """A style sheet without comments, and with one blank for each gap outside of strings."""
    found = re.split(rf"({STRING})|/\*.*?\*/", text, flags=re.DOTALL)
    return "".join(
        part if k % 2 else re.sub(r"\s+", " ", part) for k, part in enumerate(found) if part
    )


def rules(text: str) -> Iterator[tuple[str, str | None]]:
    """Head and block of each rule at the top; a statement such as @import has no block."""
    head, block, depth = "", "", 0
    for match in PIECE.finditer(text):
        piece = match[0]
        if piece == "{":
            depth += 1
            block += piece if depth > 1 else ""
        elif piece == "}":
            depth -= 1
            if depth == 0:
                yield head.strip(), block.strip()
                head = block = ""
            else:
                block += piece
        elif depth:
            block += piece
        elif piece == ";":
            yield head.strip(), None
            head = ""
        else:
            head += piece


def is_used(selector: str, words: set[str]) -> bool:
    """Whether every class and id of a selector is a word of some page or script."""
    names = NAME.findall(re.sub(STRING, "", CHOICE.sub("", selector)))
    return all(name in words or name.startswith(BUILT_NAMES) for name in names)


def what_is_used(text: str, words: set[str]) -> str:
    """The rules of a style sheet that can apply to a page made of these words."""
    kept = []
    for head, block in rules(text):
        if block is None:
            kept.append(f"{head};")
        elif head.startswith(GROUPS):
            inner = what_is_used(block, words)
            kept += [f"{head}{{{inner}}}\n"] if inner else []
        elif head.startswith("@"):
            kept.append(f"{head}{{{block}}}\n")
        else:
            chosen = [part for part in selectors(head) if is_used(part, words)]
            kept += [f"{','.join(chosen)}{{{block}}}\n"] if chosen and block else []
    return "".join(kept)


def selectors(head: str) -> list[str]:
    """The parts of a list of selectors; a comma in brackets separates nothing."""
    return [part.strip() for part in re.split(r",(?![^(]*\))(?![^\[]*\])", head)]


def read_style(path: Path, static: Path) -> str:
    """A style sheet with what it imports, and with addresses as seen from the folder `static`."""
    text = without_comments(path.read_text(encoding="utf8").removeprefix("\ufeff"))
    text = re.sub(r"@charset [^;]*;", "", text)

    def address(match) -> str:
        target = (path.parent / match[1].partition("?")[0].partition("#")[0]).resolve()
        return f"url({target.relative_to(static.resolve()).as_posix()})"

    text = re.sub(r"url\([\"']?(?!data:|[a-z]+://|#)([^\"')]+)[\"']?\)", address, text)
    imports = re.compile(r"@import \"([^\"]+)\";")
    return imports.sub(lambda match: read_style(path.parent / match[1], static), text)


def cut_icons(text: str, static: Path) -> str:
    """Replace each icon font of a style sheet by one with the icons that the sheet still names."""
    found = list(re.finditer(r"@font-face\{[^}]*Awesome[^}]*\}\n?", text))
    rest = text
    for match in found:
        rest = rest.replace(match[0], "")
    codes = {int(code, 16) for code in re.findall(r"\\([ef][0-9a-f]{3})\b", rest)}
    codes |= {ord(letter) for letter in rest if "\ue000" <= letter <= "\uf8ff"}
    for match in found:
        family = re.search(r"font-family:\s*\"?([^;\"]+)", match[0])[1].replace("\\", "")
        source = re.search(r"url\(([^)]+)\.woff2\)", match[0])[1]
        faces = ""
        if family in rest.replace("\\", ""):
            name = f"{ICONS}-{Path(source).name}.woff"
            if cut_font(static / f"{source}.ttf", static / name, codes):
                faces = re.sub(r"src:[^;}]*", f'src:url({name}) format("woff")', match[0])
        text = text.replace(match[0], faces)
    return text


def cut_font(source: Path, target: Path, codes: set[int]) -> bool:
    """Write a font with the letters of these codes; False if it has none of them."""
    options = subset.Options(flavor="woff", layout_features=[], recalc_timestamp=False)
    options.drop_tables += ["GSUB", "GPOS"]
    with subset.load_font(str(source), options) as font:
        wanted = codes & set(font.getBestCmap())
        if wanted:
            cutter = subset.Subsetter(options)
            cutter.populate(unicodes=wanted)
            cutter.subset(font)
            subset.save_font(font, str(target), options)
    return bool(wanted)


# ---- Pages -------------------------------------------------------------------------------------


def styles_of(page: str) -> list[str]:
    """The style sheets of a page, from the top of the site, in their order."""
    found = [m for pattern in (LINK, SPHINX_LINK) for m in pattern.finditer(page)]
    addresses = [m[1].partition("?")[0] for m in sorted(found, key=lambda m: m.start())]
    return [address.partition("_static/")[2] for address in addresses]


def with_sizes(page: str, folder: Path) -> str:
    """A page whose pictures keep their place free, and are fetched when they come into sight."""

    def sized(match) -> str:
        attributes, source = match.groups()
        width, height = imagesize.get(folder / unquote(source))
        # A width in the style wins; what counts is the ratio, which keeps the height free.
        if width > 0 and not re.search(r"\b(width|height)=|height:", attributes):
            attributes = f'width="{width}" height="{height}" {attributes}'
        return f'<img loading="lazy" decoding="async" {attributes}>'

    return PICTURE.sub(sized, page)


def lighten_page(page: str, folder: Path, version: str) -> str:
    """A page with one style sheet, waiting scripts and pictures of known size."""
    if not LINK.search(page):
        return page
    root = re.search(r'data-content_root="([^"]*)"', page)[1]
    link = f'\n<link href="{root}_static/{STYLE}?v={version}" rel="stylesheet" />'
    page = LINK.sub(link, page, count=1)
    for pattern in (LINK, SPHINX_LINK):
        page = pattern.sub(lambda match: match[0] if STYLE in match[0] else "", page)
    page = SCRIPT.sub("<script defer", PRELOAD.sub("", page))
    if "DOCUMENTATION_OPTIONS." in page:  # an index of Sphinx sets one in a script of its own
        page = re.sub(r'<script defer (?=src="[^"]*documentation_options)', "<script ", page)
    return with_sizes(page, folder)


def lighten(site: Path) -> None:
    """Make the pages of a folder light; those that are so already stay as they are."""
    static = site / "_static"
    paths = [*sorted(site.glob("*.html")), *sorted(site.glob("book/**/*.html"))]
    pages = {path: path.read_text(encoding="utf8") for path in paths}
    sheets = list(dict.fromkeys(name for page in pages.values() for name in styles_of(page)))
    sheets = [name for name in sheets if name != STYLE]
    if not sheets:
        return
    scripts = [path.read_text(encoding="utf8") for path in sorted(static.glob("**/*.js"))]
    words = set(re.findall(r"[\w-]+", "\n".join([*pages.values(), *scripts])))
    text = "".join(what_is_used(read_style(static / name, static), words) for name in sheets)
    text = cut_icons(text, static)
    (static / STYLE).write_text(text, encoding="utf8")
    version = hashlib.sha256(text.encode()).hexdigest()[:8]
    for path, page in pages.items():
        light = lighten_page(page, path.parent, version)
        if light != page:
            path.write_text(light, encoding="utf8")


def lighten_site(app, exception) -> None:
    if exception is None and app.builder.name == "html":
        lighten(Path(app.outdir))


def setup(app):
    # After the other extensions, which read and write pages too.
    app.connect("build-finished", lighten_site, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
