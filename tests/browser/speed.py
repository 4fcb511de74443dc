"""How fast pages are on a slow phone: `tests/browser/speed.py [PAGE ...]`, after a build.

Lighthouse opens each page several times from a server that compresses, as hosts do, and the medians
are printed. It simulates the phone and its network from what it sees here, so that a busy machine
makes every page look slow: the load at the start is printed too. Needs npm, which fetches
Lighthouse, and a Chromium.
"""

import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
from functools import cache
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from chromium import NAMES, SITE
from weigh import COMPRESSED

LIGHTHOUSE = "lighthouse@13.5.0"
PAGES = ("book/welcome/index.html", "book/identifiability/theorem_1.html")
RUNS = 5
METRICS = {
    "first-contentful-paint": "first text ms",
    "largest-contentful-paint": "largest ms",
    "speed-index": "speed index",
    "total-blocking-time": "blocked ms",
    "cumulative-layout-shift": "shift",
}


@cache
def packed(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), mtime=0)


class Host(SimpleHTTPRequestHandler):
    """Serves a folder compressed, and without a word."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            return self.send_error(404)
        content = path.read_bytes() if path.suffix in COMPRESSED else packed(path)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(path))
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "max-age=31536000")
        if path.suffix not in COMPRESSED:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


def serve(folder: Path) -> str:
    """Address of a server that ends with this program."""
    host = ThreadingHTTPServer(
        ("127.0.0.1", 0), lambda *a, **k: Host(*a, directory=str(folder), **k)
    )
    threading.Thread(target=host.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{host.server_port}"


def lighthouse(address: str) -> dict[str, float]:
    """Scores of the categories, of 100, and the metrics of one visit."""
    command = ["npx", "--yes", LIGHTHOUSE, address, "--output=json", "--quiet"]
    command += ["--chrome-flags=--headless=new --no-sandbox --disable-gpu"]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    report = json.loads(ran.stdout)
    found = {name: 100 * part["score"] for name, part in report["categories"].items()}
    return found | {word: report["audits"][name]["numericValue"] for name, word in METRICS.items()}


def main(pages: list[str]) -> int:
    os.environ["CHROME_PATH"] = next(path for path in map(shutil.which, NAMES) if path)
    address = serve(SITE)
    print("load", *(f"{load:.1f}" for load in os.getloadavg()))
    # Page after page and then again, so that a busy minute falls on all of them.
    rounds = [[lighthouse(f"{address}/{page}") for page in pages] for _ in range(RUNS)]
    for page, visits in zip(pages, zip(*rounds, strict=True), strict=True):
        print(page)
        for name in visits[0]:
            values = sorted(visit[name] for visit in visits)
            print(f"  {name:16} {statistics.median(values):8.3g}  ", *(f"{v:.3g}" for v in values))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(PAGES)))
