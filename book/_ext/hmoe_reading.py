"""What helps a reader inside a page: terms linked to the glossary, symbols found by the search,
definitions shown where they are mentioned, a map of the book, and figures that move.
"""

import json
import re
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import ClassVar

import yaml
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx import search as sphinx_search
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import docname_join
from sphinx.util.docutils import SphinxDirective

GLOSSARY = "book/appendices/glossary"
# Text in these is a name, a link already, or code.
CLOSED = (
    nodes.title,
    nodes.reference,
    nodes.literal,
    nodes.literal_block,
    nodes.math,
    nodes.caption,
    nodes.table,
    nodes.raw,
    addnodes.pending_xref,
    nodes.strong,
)
NAMES = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta kappa lambda mu nu xi pi rho sigma"
)
NAMES += " tau phi varphi chi psi omega Gamma Delta Theta Lambda Sigma Phi Psi Omega"
GREEK = dict(zip(NAMES.split(), "αβγδεεζηθκλμνξπρστφφχψωΓΔΘΛΣΦΨΩ", strict=True))
ALT = range(40, 301)
VOID_TAGS = {"img", "br", "hr", "input", "meta", "link", "wbr", "col", "source"}
COMMAND = re.compile(r"\\([A-Za-z]+)(?:\{([a-z]+\*?)\})?")


# ---- Search ------------------------------------------------------------------------------------


def readable(text: str, names: bool = False) -> str:
    """Text without LaTeX: commands that are letters become these letters, others go.

    With names, each letter is followed by its name, so that both are found.
    """

    def letters(match) -> str:
        name, argument = match.groups()
        if name in ("begin", "end"):
            return " "
        found = [GREEK[name]] if name in GREEK else []
        found += [name.removeprefix("var")] if names and name in GREEK else []
        return f" {' '.join([*found, argument or ''])} "

    text = re.sub(r"[{}$]|\\[^A-Za-z]", "", COMMAND.sub(letters, text))
    return re.sub(r"\s+", " ", text).strip()


class SymbolSearch(sphinx_search.SearchEnglish):
    """English, in which a formula counts as the letters that a reader sees."""

    def split(self, text: str) -> list[str]:
        return super().split(readable(text, names=True) if "\\" in text else text)


class SymbolIndex(sphinx_search.IndexBuilder):
    """The search index, with titles that hold no LaTeX."""

    def feed(self, docname, filename, title, doctree) -> None:
        super().feed(docname, filename, title, doctree)
        titles = self._all_titles[docname]
        self._all_titles[docname] = [
            (readable(text) if "\\" in text else text, place) for text, place in titles
        ]


# ---- Glossary ----------------------------------------------------------------------------------


class LinkTerms(SphinxPostTransform):
    """Link the first mention of each glossary term in a page's paragraphs."""

    default_priority = 5
    formats = ("html",)

    def run(self, **kwargs) -> None:
        page = self.env.docname
        terms = glossary(self.env)
        if page == GLOSSARY or not terms:
            return
        words = sorted(map(re.escape, terms), key=len, reverse=True)
        pattern = re.compile(rf"(?<![\w-])({'|'.join(words)})(?![\w-])", re.IGNORECASE)
        for text in list(self.document.findall(nodes.Text)):
            if isinstance(text.parent, nodes.paragraph) and not _inside(text, CLOSED):
                self.link(text, pattern, terms)

    def link(self, text: nodes.Text, pattern: re.Pattern, terms: dict[str, str]) -> None:
        found, rest = [], text.astext()
        while match := next((m for m in pattern.finditer(rest) if m[0].lower() in terms), None):
            anchor = terms[match[0].lower()]
            for name in [name for name, place in terms.items() if place == anchor]:
                del terms[name]
            address = self.app.builder.get_relative_uri(self.env.docname, GLOSSARY)
            link = nodes.reference(
                "", match[0], internal=True, refuri=f"{address}#{anchor}", classes=["term"]
            )
            found += [nodes.Text(rest[: match.start()]), link]
            rest = rest[match.end() :]
        if found:
            text.parent.replace(text, [*found, nodes.Text(rest)])


def glossary(env) -> dict[str, str]:
    """Every term, its plural too, in lower case, with its anchor."""
    terms = {}
    for (kind, name), (page, anchor) in env.get_domain("std").objects.items():
        if kind == "term" and page == GLOSSARY:
            terms[name.lower()] = anchor
            terms.setdefault(f"{name.lower()}s", anchor)
    return terms


def _inside(node, kinds) -> bool:
    while node := node.parent:
        if isinstance(node, kinds):
            return True
    return False


# ---- The map of the book -----------------------------------------------------------------------


class BookMapPlace(nodes.General, nodes.Element):
    """The place of the map, which is drawn when every page has been read."""


class BookMap(SphinxDirective):
    """`{bookmap}`: the parts of `_toc.yml` with their chapters, their times and what they need."""

    def run(self):
        self.env.metadata[self.env.docname]["bookmap"] = "yes"
        return [BookMapPlace()]


def note_before(app, doctree) -> None:
    """Keep what the box `before` of a page says, for the map."""
    for box in doctree.findall(nodes.admonition):
        if "before" in box["classes"]:
            time = re.search(r"Time\s+(\d+) minutes", box.astext())
            needs = [
                docname_join(app.env.docname, link["reftarget"])
                for link in box.findall(addnodes.pending_xref)
                if link["reftype"] == "doc"
            ]
            entry = {"time": int(time[1]) if time else 0, "needs": needs}
            app.env.metadata[app.env.docname]["before"] = entry


def pages_with_map(app, env) -> list[str]:
    return [name for name, values in env.metadata.items() if "bookmap" in values]


class DrawMap(SphinxPostTransform):
    default_priority = 5

    def run(self, **kwargs) -> None:
        for node in list(self.document.findall(BookMapPlace)):
            if self.app.builder.format == "html":
                node.replace_self(nodes.raw("", self.html(), format="html"))
            else:
                node.parent.remove(node)

    def html(self) -> str:
        parts = yaml.safe_load((Path(self.env.srcdir) / "_toc.yml").read_text(encoding="utf8"))
        columns = [self.part(part) for part in parts.get("parts", [])]
        return f'<nav class="book-map" aria-label="Map of the book">{"".join(columns)}</nav>'

    def part(self, part: dict) -> str:
        stops = [self.stop(entry["file"]) for entry in part["chapters"]]
        return f"<section><p>{escape(part['caption'])}</p><ol>{''.join(stops)}</ol></section>"

    def stop(self, name: str) -> str:
        title = escape(readable(self.env.titles[name].astext()))
        before = self.env.metadata[name].get("before", {"time": 0, "needs": []})
        address = self.app.builder.get_relative_uri(self.env.docname, name)
        time = f" <small>{before['time']} min</small>" if before["time"] else ""
        needs = " ".join(before["needs"])
        link = f'<a href="{address}" data-page="{name}" data-needs="{needs}">{title}</a>'
        return f"<li>{link}{time}</li>"


# ---- Figures that move -------------------------------------------------------------------------


class InteractivePlace(nodes.General, nodes.Element):
    """The place where a script draws, in front of what is there without it."""


def visit_interactive(self, node) -> None:
    data = json.dumps(node["data"], separators=(",", ":")).replace("<", "\\u003c")
    self.body.append(f'<div class="interactive" data-figure="{node["name"]}">\n')
    self.body.append('<div class="stage" hidden></div>\n')
    self.body.append(f'<script type="application/json" class="data">{data}</script>\n')


def depart_interactive(self, node) -> None:
    self.body.append("</div>\n")


def visit_fallback(self, node) -> None:
    """Elsewhere, on paper for one, only what is there without the script."""


class Interactive(SphinxDirective):
    """`{interactive} name`: a figure drawn by `_static/interactive/name.js` from the data that
    `make interactive` had the library write to `name.json`; without scripts there is `name.png`.

    The option `alt` says what the picture shows; the content is the caption. A figure whose state
    is a text has no picture; a table of the page stands for it. `data` names another file of
    `_static`.
    """

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {
        "alt": directives.unchanged_required,
        "data": directives.unchanged_required,
    }

    def run(self):
        name = self.arguments[0]
        static = Path(self.env.srcdir) / "book/_static"
        path = static / self.options.get("data", f"interactive/{name}.json")
        if not path.is_file():
            raise self.error(f"{path.name} is missing: run `make interactive`")
        picture = static / f"interactive/{name}.png"
        if picture.is_file() and len(self.options.get("alt", "")) not in ALT:
            raise self.error("the option alt needs 40 to 300 characters")
        self.env.note_dependency(str(path))
        self.env.metadata[self.env.docname].setdefault("interactive", []).append(name)
        figure = InteractivePlace(name=name, data=json.loads(path.read_text(encoding="utf8")))
        if picture.is_file():
            uri = f"/book/_static/interactive/{name}.png"
            figure += nodes.image(uri=uri, alt=self.options["alt"], classes=["fallback"])
        caption = nodes.container(classes=["caption"])
        self.state.nested_parse(self.content, self.content_offset, caption)
        figure += caption
        return [figure]


def add_scripts(app, pagename, templatename, context, doctree) -> None:
    # Classic scripts: a browser refuses modules to a page that was opened from a file.
    for name in app.env.metadata.get(pagename, {}).get("interactive", ()):
        app.add_js_file("interactive/common.js", loading_method="defer", priority=600)
        app.add_js_file(f"interactive/{name}.js", loading_method="defer", priority=700)


# ---- Previews ----------------------------------------------------------------------------------


class Blocks(HTMLParser):
    """Theorems, definitions and numbered formulas of a page, by their anchor."""

    def __init__(self, page: str):
        super().__init__(convert_charrefs=False)
        self.page, self.found = page, {}
        self.depth, self.outer, self.names, self.start = 0, 0, [], 0
        self.lines = [0]
        for line in page.split("\n"):
            self.lines.append(self.lines[-1] + len(line) + 1)
        self.feed(page)

    def place(self) -> int:
        line, column = self.getpos()
        return self.lines[line - 1] + column

    def handle_starttag(self, tag, attributes):
        if tag in VOID_TAGS:
            return
        self.depth += 1
        values = dict(attributes)
        classes, name = (values.get("class") or "").split(), values.get("id")
        if not self.outer and tag == "div" and name and {"proof", "math", "exercise"} & {*classes}:
            self.outer, self.names, self.start = self.depth, [name], self.place()

    def handle_endtag(self, tag):
        if tag in VOID_TAGS:
            return
        if self.outer == self.depth:
            text = self.page[self.start : self.place()] + f"</{tag}>"
            self.found |= dict.fromkeys(self.names, text)
            self.outer = 0
        self.depth -= 1


def write_previews(app, exception) -> None:
    """One file that a page loads when a link is first pointed at, from a file system too."""
    if exception is not None or app.builder.format != "html":
        return
    found = {}
    for name in sorted(app.env.all_docs):
        path = Path(app.outdir) / f"{name}.html"
        blocks = Blocks(path.read_text(encoding="utf8")).found if path.is_file() else {}
        for anchor, text in sorted(blocks.items()):
            text = re.sub(r'<a class="headerlink".*?</a>|\sid="[^"]*"', "", text, flags=re.S)
            found[f"{name}.html#{anchor}"] = re.sub(r'(src|href)="[^"]*"', r'data-\1=""', text)
    rows = json.dumps(found, separators=(",", ":"), ensure_ascii=False)
    path = Path(app.outdir) / "_static" / "previews.js"
    path.write_text(f"window.bookPreviews = {rows};\n", encoding="utf8")


def setup(app):
    sphinx_search.languages["en"] = SymbolSearch
    sphinx_search.IndexBuilder = SymbolIndex
    app.add_node(
        InteractivePlace,
        html=(visit_interactive, depart_interactive),
        latex=(visit_fallback, visit_fallback),
        text=(visit_fallback, visit_fallback),
        epub=(visit_interactive, depart_interactive),
    )
    app.add_node(BookMapPlace)
    app.add_directive("bookmap", BookMap)
    app.add_directive("interactive", Interactive)
    app.add_post_transform(DrawMap)
    app.add_post_transform(LinkTerms)
    app.connect("doctree-read", note_before)
    app.connect("env-updated", pages_with_map)
    app.connect("html-page-context", add_scripts)
    app.connect("build-finished", write_previews)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
