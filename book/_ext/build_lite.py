"""The book's notebooks in a browser, without a server: `make lite`, which needs a network.

JupyterLite serves them from a folder, and Pyodide runs them; the library is a wheel beside them.
The first cell of each copy installs it from there, since a browser has no git.
"""

import json
import shutil
import subprocess
import sys

from launch_cells import ROOT, is_launch

TARGET = ROOT / "_build" / "lite"
INSTALL = {
    "cell_type": "code",
    "execution_count": None,
    "id": "launch",
    "metadata": {},
    "outputs": [],
    "source": ["%pip install -q hmoe-lib\n", "%matplotlib inline"],
}


def for_the_browser(nb: dict) -> dict:
    """A copy of a notebook that begins with an installation from the wheel."""
    cells = [entry for entry in nb["cells"] if not is_launch(entry)]
    return nb | {"cells": [cells[0], INSTALL, *cells[1:]]}


def main(notebooks: list[str]) -> int:
    shutil.rmtree(TARGET, ignore_errors=True)
    contents, wheels = TARGET / "contents", TARGET / "wheels"
    for name in notebooks:
        nb = for_the_browser(json.loads((ROOT / name).read_text(encoding="utf8")))
        path = contents / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(nb, indent=1, ensure_ascii=False), encoding="utf8")
    shutil.copytree(ROOT / "book/results", contents / "book/results", dirs_exist_ok=True)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(wheels), "."]
    subprocess.run(pip, cwd=ROOT, check=True)
    (wheel,) = wheels.glob("*.whl")
    lite = [sys.executable, "-m", "jupyter", "lite", "build", "--contents", str(contents)]
    lite += ["--piplite-wheels", str(wheel), "--output-dir", str(TARGET / "html")]
    subprocess.run(lite, cwd=TARGET, check=True)
    print(f"Serve {TARGET / 'html'} and open lab/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
