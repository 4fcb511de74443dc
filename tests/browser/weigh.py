"""What each page weighs when it is served compressed: `tests/browser/weigh.py`, after a build.

Fonts and pictures are compressed already and count as they are. The browser says which files a page
asks for, so that fonts count that are fetched for a formula.
"""

import gzip
import shutil
import sys
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

LIMIT = 800_000
PICTURES = (".png", ".svg", ".jpg", ".gif")
COMPRESSED = (".woff2", ".woff", ".png", ".jpg", ".gif")


@cache
def weight(path: Path) -> int:
    """Bytes of a file on the wire."""
    content = path.read_bytes()
    return len(content) if path.suffix in COMPRESSED else len(gzip.compress(content, mtime=0))


def weights(urls: set[str]) -> tuple[int, int]:
    """Bytes of text, style, scripts and fonts, and bytes of pictures."""
    paths = {Path(unquote(urlsplit(url).path)) for url in urls if url.startswith("file:")}
    paths = {path for path in paths if path.is_file()}  # a missing one is noticed elsewhere
    pictures = {path for path in paths if path.suffix in PICTURES}
    return sum(map(weight, paths - pictures)), sum(map(weight, pictures))


def main() -> int:
    from chromium import NAMES, OPTIONS, SITE, built_pages, opened
    from playwright.sync_api import sync_playwright

    program = next(path for path in map(shutil.which, NAMES) if path)
    rows = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=OPTIONS)
        for name in built_pages():
            with opened(browser, SITE / name) as (page, _):
                rows.append((*weights(page.requested), name))
        browser.close()
    for text, pictures, name in sorted(rows, reverse=True):
        print(f"{text / 1000:6.0f} kB  and pictures {pictures / 1000:5.0f} kB  {name}")
    return int(max(rows)[0] > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
