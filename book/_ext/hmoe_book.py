"""Sphinx extension of this book: what `_config.yml` cannot say."""

import hashlib
import importlib
import logging
import os
import shutil
import sys
from pathlib import Path

from docutils.nodes import Node
from sphinx.util.logging import get_node_location

# What a notebook's output depends on besides its own code.
INPUTS = ("hmoe_lib/**/*.py", "hmoe_lib/**/*.mplstyle", "requirements.txt", "book/results/**/*")
# What the look of every page depends on besides its own text.
LOOKS = (
    "book/_ext/*.py",
    "book/_static/**/*",
    "book/_templates/**/*",
    "book/appendices/glossary.md",
    "book/redirects.yml",
)
KEPT_CACHES = 3
# What screen readers misread: roles without their parents or children, a label that hides the words
# "Show code cell source", and headers without a word.
MISLEADING = {
    'role="list" class="citation-list"': 'class="citation-list"',
    ' role="doc-biblioentry"': "",
    ' aria-label="Toggle hidden content"': "",
    # The empty corner of a table is the header of nothing.
    '<th class="head"><p></p></th>': "<td></td>",
}
# Scripts of sphinx-thebe need Binder and throw an error on every page; the name of the page is for
# a choice of versions, which the book has not, and could not wait as the other scripts do.
UNWANTED_SCRIPTS = ("sphinx-thebe.js", "thebe_selector", "thebe.js", "OPTIONS.pagename")


def hash_of(root: Path, patterns: tuple[str, ...]) -> str:
    """Hash of the names and contents of the files that match."""
    digest = hashlib.sha256()
    files = {path for pattern in patterns for path in root.glob(pattern) if path.is_file()}
    for path in sorted(files):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


class Problems(logging.Handler):
    """Collects the warnings of a build, to say them once more at its end, where one looks.

    A build that warned is forgotten: Sphinx reads only changed pages, so that the next one would
    be green without any repair. What the notebooks gave stays in the cache.
    """

    def __init__(self):
        super().__init__(logging.WARNING)
        self.found: dict[str, None] = {}

    def emit(self, record) -> None:
        place = getattr(record, "location", None)
        if isinstance(place, Node):
            place = get_node_location(place)
        elif isinstance(place, tuple):
            place = ":".join(str(part) for part in place if part)
        self.found[f"- {place or 'the book'}: {record.getMessage()}"] = None

    def report(self, app, exception) -> None:
        logging.getLogger("sphinx").removeHandler(self)
        if self.found:
            print(f"\nWhat this build warned of ({len(self.found)}):", *self.found, sep="\n")
            (Path(app.doctreedir) / "environment.pickle").unlink(missing_ok=True)


def use_cache_of_inputs(app, config) -> None:
    """Point jupyter-cache, whose own key is the notebook's code, to a folder named by the inputs.

    The setting is part of Sphinx's environment, so a new name also makes every page be read again.
    """
    caches = Path(app.outdir).parent / ".jupyter_cache"
    current = caches / hash_of(Path(app.srcdir), INPUTS)
    current.mkdir(parents=True, exist_ok=True)
    os.utime(current)
    for old in sorted(caches.iterdir(), key=os.path.getmtime)[:-KEPT_CACHES]:
        shutil.rmtree(old, ignore_errors=True)
    config.nb_execution_cache_path = str(current)


def name_version(app, config) -> None:
    """Say below every page, and on the title page of the PDF, which version this is."""
    version = getattr(importlib.import_module("hmoe_lib"), "__version__", "")
    if version:
        config.version = config.release = version
        config.html_theme_options["extra_footer"] = f"<p>Version {version}</p>"


def notice_looks(app, config) -> None:
    """Make Sphinx write every page again when the style or this extension has changed."""
    config.hmoe_book_looks = hash_of(Path(app.srcdir), LOOKS)


def write_assignments(app, config) -> None:
    """Write the students' notebooks and zips, to which the page of assignments links.

    They are made from the sources at each build, solutions and hidden tests taken out, so that
    they cannot differ from what `make release` gives, and no copy of them has to be kept.
    """
    folder = Path(app.srcdir) / "book" / "assignments"
    if folder.is_dir():
        sys.path.insert(0, str(folder))
        from classroom.student_version import write_downloads

        sys.path.remove(str(folder))
        write_downloads(Path(app.srcdir) / "_build" / "assignments")


def mark_book_build(app, config) -> None:
    """Tell the kernels that `hmoe_lib.pages.glue` runs inside a build of the book."""
    os.environ["HMOE_BOOK_BUILD"] = "1"


def use_templates(app, config) -> None:
    """`templates_path` in `_config.yml` has no effect, hence here."""
    config.templates_path.append(str(Path(__file__).parents[1] / "_templates"))


def drop_launch_buttons_without_repository(app, config) -> None:
    """A launch button needs the public address, `repository: url` in `_config.yml`."""
    if not config.html_theme_options.get("repository_url"):
        config.html_theme_options["launch_buttons"] = {}


def strip_scripts(app, pagename, templatename, context, doctree) -> None:
    """Drop the scripts that this book has no use for."""
    context["script_files"] = [
        script
        for script in context.get("script_files", [])
        if not any(word in _source(script) for word in UNWANTED_SCRIPTS)
    ]


def drop_misleading_attributes(app, pagename, templatename, context, doctree) -> None:
    body = context.get("body", "")
    for misleading, plain in MISLEADING.items():
        body = body.replace(misleading, plain)
    if body:
        context["body"] = body


def download_files(app, pagename, templatename, context, doctree) -> None:
    """Let the download links download: without the attribute a browser shows a notebook's JSON."""
    for group in context.get("header_buttons", ()):
        for button in group.get("buttons", ()):
            if button.get("label", "").startswith("download-") and "url" in button:
                # The theme's template has no place for an attribute but the end of the address.
                button["url"] += '" download="'


def _source(script) -> str:
    attributes = getattr(script, "attributes", {})
    return f"{getattr(script, 'filename', script)} {attributes.get('body', '')}"


def setup(app):
    problems = Problems()
    logging.getLogger("sphinx").addHandler(problems)
    app.connect("build-finished", problems.report)
    app.add_config_value("hmoe_book_looks", "", "html", [str])
    for prepare in (
        use_cache_of_inputs,
        name_version,
        notice_looks,
        mark_book_build,
        write_assignments,
        use_templates,
        drop_launch_buttons_without_repository,
    ):
        app.connect("config-inited", prepare)
    for adjust in (strip_scripts, drop_misleading_attributes, download_files):
        app.connect("html-page-context", adjust, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
