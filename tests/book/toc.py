"""The pages of the book, in the order of `_toc.yml`. As a script it prints the notebooks."""

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]


def entries(toc: dict) -> list[str]:
    """Every page that the table of contents names, without suffix."""
    found = [toc[key] for key in ("root", "file") if key in toc]
    for key in ("parts", "chapters", "sections"):
        for child in toc.get(key, ()):
            found += entries(child)
    return found


def page_file(root: Path, entry: str) -> Path | None:
    """The file of an entry, or None if there is none."""
    candidates = [root / entry] + [root / f"{entry}{suffix}" for suffix in (".ipynb", ".md")]
    return next((path for path in candidates if path.is_file()), None)


def pages(root: Path = ROOT) -> list[Path]:
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf8"))
    found = (page_file(root, entry) for entry in entries(toc))
    return [path for path in found if path is not None]


def notebooks(root: Path = ROOT) -> list[Path]:
    return [path for path in pages(root) if path.suffix == ".ipynb"]


if __name__ == "__main__":
    print(*(path.relative_to(ROOT).as_posix() for path in notebooks()))
