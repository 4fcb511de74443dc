"""The cell that lets a notebook run on its own: `make launch-cells` writes it into every notebook.

On a clean machine, Colab for one, there is no library; the first code cell then fetches the
repository named in `_config.yml` and installs it. In the book's own environment it does nothing,
and the site does not show it.
"""

import json
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
IDENTITY = "launch"
SOURCE = """\
# Self-sufficient: where hmoe_lib is missing, Colab for one, it is fetched and installed.
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("hmoe_lib") is None:
    url, branch = "{url}", "{branch}"
    assert url, "This copy names no repository. See 'How to read, run and teach'."
    print(f"hmoe_lib is missing here. Installing it from {{url}}: a minute, once.")
    git = ["git", "clone", "--quiet", "--depth", "1", "--branch", branch, url, "hmoe"]
    subprocess.run(git, check=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--editable", "hmoe"]
    subprocess.run(pip, check=True)
    sys.path.insert(0, "hmoe")  # this kernel does not see an installation made just now"""


def source(root: Path = ROOT) -> str:
    repository = yaml.safe_load((root / "_config.yml").read_text(encoding="utf8"))["repository"]
    return SOURCE.format(url=repository["url"] or "", branch=repository["branch"])


def cell(root: Path = ROOT) -> dict:
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": IDENTITY,
        "metadata": {"tags": ["remove-cell"]},
        "outputs": [],
        "source": source(root).splitlines(keepends=True),
    }


def is_launch(entry: dict) -> bool:
    return entry.get("id") == IDENTITY


def with_launch(cells: list[dict], root: Path = ROOT) -> list[dict]:
    """The cells with this one before the first code cell, and without an older one."""
    others = [entry for entry in cells if not is_launch(entry)]
    place = next((n for n, entry in enumerate(others) if entry["cell_type"] == "code"), len(others))
    return [*others[:place], cell(root), *others[place:]]


def main(paths: list[str]) -> int:
    for path in map(Path, paths):
        text = path.read_text(encoding="utf8")
        nb = json.loads(text)
        nb["cells"] = with_launch(nb["cells"])
        new = json.dumps(nb, indent=1, ensure_ascii=False) + "\n" * text.endswith("\n")
        if new != text:
            path.write_text(new, encoding="utf8")
            print(f"{path.as_posix()}: launch cell written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
