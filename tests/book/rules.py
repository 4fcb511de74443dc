"""The rules of a page. Each takes a page and returns the sentences that say what is wrong."""

import ast
import re
from pathlib import Path

import launch_cells
import toc
import yaml

LONGEST, SHORT = 25, 8
FEWEST_EXERCISES = 2
ALT = range(40, 301)
WORDS, LINES, EXERCISE = 250, 12, 6  # words and lines of code a minute, minutes an exercise
DRAWS = re.compile(
    r"\bplt\.(?!rcParams|style)|\bsubplots\(|\bsubplot_mosaic\(|\.figure\("
    r"|\bplots\.(?!use\b|style\b)[a-z]\w*\("
)
ABSOLUTE_PATH = re.compile(r"(?<![\w.:/])/(work|tmp|root|home|Users|farm)/|\b[A-Z]:\\")
FENCE = re.compile(r"^(`{3,}|:{3,}) *\{([\w:-]+)\} *(.*)$", re.MULTILINE)


def code_cells(nb) -> list:
    return [cell for cell in nb.cells if cell.cell_type == "code"]


def lines_of(cell) -> int:
    return sum(1 for line in cell.source.splitlines() if line.strip())


def stored_outputs(nb) -> list[str]:
    return [
        f"cell {cell.id}: outputs or an execution count are stored"
        for cell in code_cells(nb)
        if cell.outputs or cell.execution_count is not None
    ]


def notebook_format(nb) -> list[str]:
    problems = []
    if (nb.nbformat, nb.nbformat_minor) != (4, 5):
        problems.append(f"nbformat is {nb.nbformat}.{nb.nbformat_minor}, not 4.5")
    if nb.metadata.get("kernelspec", {}).get("name") != "python3":
        problems.append("the kernelspec is not python3")
    ids = [cell.get("id") for cell in nb.cells]
    if None in ids or len(set(ids)) < len(ids):
        problems.append("cell ids are missing or repeated")
    return problems


def figures(nb) -> list[str]:
    """A cell that draws carries a caption, a name and an alternative text."""
    problems = []
    for cell in code_cells(nb):
        settings = cell.metadata.get("mystnb", {})
        if not (DRAWS.search(cell.source) or "figure" in settings or "image" in settings):
            continue
        alt = settings.get("image", {}).get("alt", "")
        if len(alt) not in ALT:
            problems.append(
                f"cell {cell.id}: the alt text has {len(alt)} characters, not 40 to 300"
            )
        for key in ("caption", "name"):
            if not settings.get("figure", {}).get(key):
                problems.append(f"cell {cell.id}: the figure has no {key}")
    return problems


def cell_lengths(nb) -> list[str]:
    # The cell that fetches the library is not shown and belongs to no chapter.
    cells = [cell for cell in code_cells(nb) if cell.get("id") != launch_cells.IDENTITY]
    lengths = [lines_of(cell) for cell in cells]
    problems = [
        f"cell {cell.id} has {lines_of(cell)} lines, more than {LONGEST}"
        for cell in cells
        if lines_of(cell) > LONGEST
    ]
    short = sum(length <= SHORT for length in lengths)
    if 2 * short < len(lengths):
        problems.append(f"only {short} of {len(lengths)} code cells have at most {SHORT} lines")
    return problems


def contract(nb) -> list[str]:
    """The last code cell asserts the page's headline numbers."""
    cells = code_cells(nb)
    source = cells[-1].source if cells else ""
    if not source.startswith("# Contract"):
        return ["the last code cell does not start with '# Contract'"]
    if not any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(source))):
        return ["the contract asserts nothing"]
    return []


def before_box(nb) -> list[str]:
    """The first text of a page says what it needs, how long it takes, and what one can do then."""
    first = nb.cells[0].source if nb.cells else ""
    boxes = [match for match in FENCE.finditer(first) if is_before(first, match)]
    if len(boxes) != 1:
        return [f"the first cell has {len(boxes)} boxes `:class: before`, not one"]
    after = first[boxes[0].end() :]
    parts = re.findall(r"\*\*(You need|Time|Afterwards you can)\*\*", after)
    if parts != ["You need", "Time", "Afterwards you can"]:
        return ["the box needs **You need**, **Time** and **Afterwards you can**, in this order"]
    if not re.search(r"\*\*Time\*\* \d+ minutes", after):
        return ["the box says **Time** and then no number of minutes"]
    return []


def short_time(nb) -> list[str]:
    """The minutes of the box are enough to read the page and do its exercises, but for a sixth."""
    words = lines = exercises = 0
    solved = False  # inside a solution, which is looked up and not read
    for cell in nb.cells:
        if cell.cell_type == "code":
            skipped = solved or cell.get("id") == launch_cells.IDENTITY
            lines += 0 if skipped else lines_of(cell)
            continue
        exercises += len(re.findall(r"^`{3,}\{exercise", cell.source, re.MULTILINE))
        for part in re.split(r"(\{solution-(?:start|end)\})", cell.source):
            if part.startswith("{solution-"):
                solved = part == "{solution-start}"
            elif not solved:
                words += len(part.split())
    needed = words / WORDS + lines / LINES + exercises * EXERCISE
    said = re.search(r"\*\*Time\*\* (\d+) minutes", nb.cells[0].source)
    if said and int(said[1]) < 5 / 6 * needed:
        return [f"the box says {said[1]} minutes, and the page takes about {needed:.0f}"]
    return []


def is_before(text: str, match) -> bool:
    return match[2] == "admonition" and text[match.end() :].startswith("\n:class: before\n")


def unsolved_exercises(text: str) -> list[str]:
    """Every exercise has a label, and a solution names it."""
    problems, labels, solved = [], set(), set()
    for match in FENCE.finditer(text):
        _, directive, argument = match.groups()
        if directive in ("solution", "solution-start"):
            solved.add(argument.strip())
        elif directive in ("exercise", "exercise-start"):
            label = re.match(r"(?:\n:[\w-]+:.*)*?\n:label: *(\S+)", text[match.end() :])
            if label:
                labels.add(label[1])
            else:
                problems.append(f"the exercise '{argument}' has no label")
    problems += [f"the exercise {label} has no solution" for label in sorted(labels - solved)]
    problems += [f"the solution of {label} has no exercise" for label in sorted(solved - labels)]
    return problems


def too_few_exercises(nb) -> list[str]:
    """A chapter has at least two exercises whose solutions are code with an assertion."""
    solution, tested = None, set()
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            for directive, argument in re.findall(r"\{(solution-\w+)\} *(\S*)", cell.source):
                solution = argument if directive == "solution-start" else None
        elif cell.cell_type == "code" and solution and re.search(r"^ *assert ", cell.source, re.M):
            tested.add(solution)
    few = len(tested) < FEWEST_EXERCISES
    return [f"{len(tested)} exercises have tested solutions, not {FEWEST_EXERCISES}"] * few


def absolute_paths(text: str) -> list[str]:
    return [
        f"line {number}: an absolute path of one machine"
        for number, line in enumerate(text.splitlines(), 1)
        if ABSOLUTE_PATH.search(line)
    ]


def toc_gaps(root: Path) -> list[str]:
    """The table of contents and the page files name the same pages; assignments are no pages."""
    contents = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf8"))
    problems, listed = [], set()
    for entry in toc.entries(contents):
        path = toc.page_file(root, entry)
        if path is None:
            problems.append(f"_toc.yml names {entry}, which does not exist")
        elif path.relative_to(root).parts[:2] == ("book", "assignments"):
            problems.append(f"_toc.yml names {entry}, which holds solutions")
        listed.add(path)
    for path in sorted((root / "book").rglob("*")):
        parts = path.relative_to(root).parts
        hidden = any(part.startswith(("_", ".")) for part in parts) or parts[1] == "assignments"
        if path.suffix in (".ipynb", ".md") and not hidden and path not in listed:
            problems.append(f"{path.relative_to(root).as_posix()} is not in _toc.yml")
    return problems


NOTEBOOK_RULES = (
    stored_outputs,
    notebook_format,
    figures,
    cell_lengths,
    contract,
    before_box,
)
