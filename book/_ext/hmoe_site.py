"""What a site needs around its pages: addresses, descriptions, a way to run each notebook, a map
for robots, and pages for readers who followed an old link.

`repository: url` in `_config.yml` is the one setting; without it nothing names an address.
"""

import html
import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from docutils import nodes
from notebooks_zip import contents, write_zip

LONGEST = 160
ARCHIVE = "notebooks.zip"
RUN_LOCALLY = "book/welcome/how_to_read"
TEMPLATES = Path(__file__).resolve().parents[1] / "_templates"


def site_address(config) -> str:
    """Where the site will be: `html: baseurl`, or the pages that go with a GitHub repository."""
    address = config.html_baseurl
    repository = urlsplit((config.html_theme_options or {}).get("repository_url") or "")
    if not address and repository.netloc == "github.com":
        owner, name = repository.path.strip("/").split("/")[:2]
        name = name.removesuffix(".git")
        address = f"https://{owner.lower()}.github.io/" + (
            "" if name == f"{owner}.github.io" else name
        )
    return f"{address.rstrip('/')}/" if address else ""


def set_address(app, config) -> None:
    config.html_baseurl = site_address(config)


def describe(doctree) -> str:
    """The first sentences of a page, as many as fit, without those that hold a formula."""
    kept = ""
    for paragraph in doctree.findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section):
            for sentence in re.split(r"(?<=[.?!])\s+", _plain(paragraph)):
                if "\0" in sentence or len(kept) + len(sentence) >= LONGEST:
                    return kept or sentence.replace("\0", "…")[: LONGEST - 1]
                kept = f"{kept} {sentence}".strip()
            return kept
    return kept


def _plain(node) -> str:
    """The text of a node, with a mark in the place of each formula."""
    if isinstance(node, nodes.math):
        return "\0"
    if isinstance(node, nodes.Text):
        return node.astext()
    return "".join(_plain(child) for child in node.children)


def add_head(app, pagename, templatename, context, doctree) -> None:
    """A description for search engines and a card for those who share a page."""
    if doctree is None:
        return
    title = re.sub(r"<[^>]+>", "", context.get("title", "")) or app.config.project
    text = describe(doctree)
    rows = {"og:type": "article", "og:site_name": app.config.project, "og:title": title}
    rows |= {"og:description": text} if text else {}
    if app.config.html_baseurl:
        rows["og:url"] = context["pageurl"]
        rows["og:image"] = f"{app.config.html_baseurl}_static/cover.png"
        rows["og:image:alt"] = app.config.hmoe_cover_alt
    tags = [f'<meta name="description" content="{html.escape(text)}">'] if text else []
    tags += [f'<meta property="{k}" content="{html.escape(v)}">' for k, v in rows.items()]
    context["metatags"] = context.get("metatags", "") + "\n".join(tags)


def run_links(context) -> list[tuple[str, str]]:
    """Text and address of every way to run this page, the theme's launch buttons among them."""
    name = context["pagename"]
    source = context["pathto"](f"_sources/{context['sourcename']}", 1)
    links = [("Download the notebook", f'{source}" download="{Path(name).name}.ipynb')]
    for group in context.get("header_buttons", ()):
        if group.get("label") == "launch-buttons":
            links += [(f"Open on {b['text']}", b["url"]) for b in group["buttons"]]
    local = context["pathto"](RUN_LOCALLY).removesuffix("#")  # "#" on that page itself
    return [*links, ("On your own machine", f"{local}#running")]


def add_run_line(app, pagename, templatename, context, doctree) -> None:
    if not str(context.get("sourcename", "")).endswith(".ipynb") or "</h1>" not in context["body"]:
        return
    links = "\n".join(f'<a href="{url}">{text}</a>' for text, url in run_links(context))
    line = f'\n<div class="run-it" role="group" aria-label="Run this page">\n{links}\n</div>'
    context["body"] = context["body"].replace("</h1>", f"</h1>{line}", 1)


def moved(app) -> dict[str, str]:
    path = Path(app.srcdir) / "book/redirects.yml"
    return yaml.safe_load(path.read_text(encoding="utf8")) or {} if path.is_file() else {}


def add_moved_sections(app, pagename, templatename, context, doctree) -> None:
    """A section that moved to another page is found by its old address, if scripts are allowed."""
    table = {}
    for old, new in moved(app).items():
        page, _, anchor = old.partition("#")
        if page == pagename and anchor:
            target, _, place = new.partition("#")
            table[f"#{anchor}"] = context["pathto"](target) + (f"#{place}" if place else "")
    if table:
        rows = json.dumps(table, sort_keys=True).replace("<", "\\u003c")
        script = f"const to = {rows}[location.hash]; if (to) location.replace(to);"
        context["metatags"] = context.get("metatags", "") + f"<script>{{ {script} }}</script>"


def template(name: str) -> str:
    return (TEMPLATES / f"{name}.txt").read_text(encoding="utf8")


def write_stubs(app) -> None:
    """A page for each page that moved as a whole."""
    for old, new in moved(app).items():
        if "#" not in old:
            target, _, place = new.partition("#")
            up = "../" * old.count("/")
            path = Path(app.outdir) / f"{old}.html"
            path.parent.mkdir(parents=True, exist_ok=True)
            address = f"{up}{target}.html" + (f"#{place}" if place else "")
            path.write_text(template("moved").format(target=address), encoding="utf8")


def write_lost_page(app) -> None:
    """404.html is shown at any address, so its links start from the top of the host."""
    home = urlsplit(app.config.html_baseurl).path or "/"
    text = template("404").format(title=html.escape(app.config.project), home=home)
    (Path(app.outdir) / "404.html").write_text(text, encoding="utf8")


def write_map(app) -> None:
    """sitemap.xml and robots.txt. No dates: two builds of one tree are the same."""
    address = app.config.html_baseurl
    if not address:
        return
    rows = [f"<url><loc>{address}{name}.html</loc></url>" for name in sorted(app.env.all_docs)]
    text = '<?xml version="1.0" encoding="utf-8"?>\n'
    text += '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
    (Path(app.outdir) / "sitemap.xml").write_text(text + "\n".join(rows) + "\n</urlset>\n")
    robots = f"User-agent: *\nSitemap: {address}sitemap.xml\n"
    (Path(app.outdir) / "robots.txt").write_text(robots, encoding="utf8")


def write_archive(app) -> None:
    """All notebooks in one file, with what they need to run."""
    write_zip(Path(app.outdir) / ARCHIVE, contents(Path(app.srcdir)))


def write_files(app, exception) -> None:
    if exception is None and app.builder.format == "html":
        for write in (write_stubs, write_lost_page, write_map, write_archive):
            write(app)


def setup(app):
    app.add_config_value("hmoe_cover_alt", "", "html", [str])
    app.connect("config-inited", set_address)
    for adjust in (add_head, add_run_line, add_moved_sections):
        # After the theme, whose launch buttons are among the links.
        app.connect("html-page-context", adjust, priority=950)
    app.connect("build-finished", write_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
