"""The table of evidence: complete, its targets and commands exist, its verdicts follow."""

import copy
import functools
import json
import re
import shlex

import hmoe_evidence as evidence
import pytest
import toc
import yaml

from hmoe_lib.experiments import EXPERIMENTS, STUDIES
from hmoe_lib.experiments.rates import Slope
from hmoe_lib.identifiability.__main__ import _parser

ROWS = [row for _, rows in evidence.groups() for row in rows]
FIELDS = {"claim", "page", "label", "heading", "kind", "numbers", "stated", "slopes", "theory",
          "excludes", "run", "ask", "test", "notebook", "verdict"}  # fmt: skip
each = pytest.mark.parametrize("row", ROWS, ids=lambda row: row["claim"][:60])


@functools.cache
def text_of(page: str) -> str:
    path = toc.page_file(toc.ROOT, f"book/{page}")
    text = path.read_text(encoding="utf8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    return text


def chapters() -> set[str]:
    """The pages of the numbered parts."""
    parts = yaml.safe_load((toc.ROOT / "_toc.yml").read_text(encoding="utf8"))["parts"]
    numbered = [part for part in parts if part.get("numbered")]
    return {entry.removeprefix("book/") for entry in toc.entries({"parts": numbered})}


def has_proof(label: str, texts: list[str]) -> bool:
    """A proof follows the theorem of this label, or names it."""
    for text in texts:
        after = text.partition(f":label: {label}\n")[2]
        if re.search(r"\{prf:proof\}", after.partition("{prf:theorem}")[0]):
            return True
    return any(f"{{prf:ref}}`{label}`" in text and "{prf:proof}" in text for text in texts)


def faults_of(row: dict) -> list[str]:
    """What is wrong with a row."""
    found = [f"an unknown field {name}" for name in row.keys() - FIELDS]
    if row["kind"] not in evidence.KINDS or row["verdict"] not in evidence.VERDICTS:
        found.append(f"kind {row['kind']}, verdict {row['verdict']}")
    found += place_faults(row) + command_faults(row) + number_faults(row) + verdict_faults(row)
    return found


def place_faults(row: dict) -> list[str]:
    found, page = [], text_of(row["page"])
    if "heading" in row and f"\n## {row['heading']}\n" not in page:
        found.append(f"no section {row['heading']!r}")
    texts = [page, text_of("appendices/proofs")]
    if "label" in row:
        if not any(f":label: {row['label']}\n" in text for text in texts):
            found.append(f"no label {row['label']}")
        elif row["kind"] == "proof" and row["label"].partition("-")[0] != "def":
            found += [] if has_proof(row["label"], texts) else [f"no proof of {row['label']}"]
    if row["kind"] == "proof" and not {"label", "heading"} & row.keys():
        found.append("a proof needs a label or a heading")
    return found


def command_faults(row: dict) -> list[str]:
    words = shlex.split(evidence.command(row))
    if words[:3] == ["python", "-m", "hmoe_lib.experiments"]:
        names = {**EXPERIMENTS, **STUDIES}
        if words[3:] != ["run", row["run"]] or row["run"] not in names:
            return [f"no experiment {row['run']}"]
        read = filter(None, map(evidence.reads, evidence.specs(row).values()))
        used = {stem.removeprefix("study-") for stem in read}
        return [] if row["run"] in used else [f"{row['run']} gives no number of the row"]
    if words[:3] == ["python", "-m", "hmoe_lib.identifiability"]:
        try:
            return [] if _parser().parse_args(words[3:]).phi else ["no activation"]
        except SystemExit:
            return [f"refused: {words}"]
    return [] if (toc.ROOT / words[-1]).is_file() else [f"no file {words[-1]}"]


def number_faults(row: dict) -> list[str]:
    """Placeholders and numbers match, and nothing that looks like a result is typed."""
    stated = row.get("stated", "")
    names = set(evidence.PLACE.findall(stated))
    found = [] if names == set(row.get("numbers", {})) else [f"numbers {names} are not those named"]
    typed = re.findall(
        r"\d+(?:\.\d+)?", re.sub(r"\$[^$]*\$|<\w+>|Theorem 1|G\d|excludes 0", "", stated)
    )
    found += [f"{number} is typed" for number in typed]
    if row["kind"] == "simulation" and not evidence.specs(row):
        found.append("a simulation without a number")
    return found


def verdict_faults(row: dict) -> list[str]:
    how = evidence.readings(row)
    found = []
    if "theory" in row or "excludes" in row:
        firm = [name for name, reading in how.items() if not reading]
        wrong = [name for name, reading in how.items() if reading == "no"]
        if row["verdict"] in ("agrees", "holds") and (wrong or not firm):
            found.append(f"{row['verdict']}, though {how}")
        if row["verdict"] == "agrees in part" and wrong == list(how):
            found.append(f"{row['verdict']}, though {how}")
    elif row["kind"] == "simulation" and row["verdict"] in ("agrees", "holds"):
        found.append("nothing that the verdict could follow from")
    return found


@each
def test_a_row_is_whole_and_its_verdict_follows(row):
    assert faults_of(row) == []


@each
def test_its_numbers_are_fetched(row):
    cell = evidence.result_cell(row)
    assert cell.strip() and "<" not in cell and "nan" not in cell


def test_every_chapter_appears():
    assert chapters() - {row["page"] for row in ROWS} == set()


def test_every_stored_result_is_used():
    used = {evidence.reads(spec) for row in ROWS for spec in evidence.specs(row).values()}
    assert used - {None} == {path.stem for path in evidence.RESULTS.glob("*.json")}


def test_every_theorem_of_the_book_appears():
    labels = set()
    for page in chapters():
        heads = re.findall(r"\{prf:(?:theorem|proposition)\}[^\n]*\n:label: (\S+)", text_of(page))
        labels |= set(heads)
    # The paper's own statements stand in rows by what became of them.
    assert labels - {row.get("label") for row in ROWS} - {"thm-1", "thm-2-3"} == set()


def broken(name: str) -> dict:
    row = copy.deepcopy(next(r for r in ROWS if r.get("run") == "places" and "theory" in r))
    if name == "verdict":
        row["theory"] = "-1/9"
    elif name == "typed":
        row["stated"] = "The slope is 0.49."
    elif name == "command":
        row["run"] = "plaices"
    elif name == "other command":
        row["run"] = "figure1"
    elif name == "page":
        row["heading"] = "A section that is not there"
    elif name == "proof":
        row |= {"kind": "proof", "label": "thm-nowhere"}
    elif name == "wide":
        row["slopes"] = {"I": ["slope", "channels", "value-K3", "error_shared"]}
        row |= {"theory": "-1/4", "run": "channels"}
    elif name == "word":
        row["verdict"] = "probably"
    return row


@pytest.mark.parametrize("name", ["verdict", "typed", "command", "other command", "page", "proof",
                                  "wide", "word"])  # fmt: skip
def test_a_broken_row_is_noticed(name):
    """Negative controls, one for each thing that a row can get wrong."""
    assert len(faults_of(broken(name))) == 1


def test_readings_of_intervals(monkeypatch):
    def slope(low, high):
        return Slope((low + high) / 2, low, high, 0.0, "mean", 0.95)

    def read(low, high, **row):
        return evidence.reading(row, "s", slope(low, high))

    assert read(-0.6, -0.4, theory="-1/2") == "" == read(-0.6, -0.4, excludes="-1/4")
    assert read(-0.4, -0.3, theory="-1/2") == "no" == read(-0.6, -0.4, excludes="-1/2")
    assert read(-0.6, 0.1, theory="-1/2") == "wide" and read(-0.1, 0.1, theory=0) == ""
    assert read(-0.4, -0.4, theory="-1/2") == "one run a size"


def test_an_unknown_fetch_is_refused():
    with pytest.raises(ValueError, match="'slop' is not a fetch"):
        evidence.get(["slop", "figure1"])


def test_growth_is_the_exponent_of_errors_that_follow_a_rate(monkeypatch):
    """Two roads: errors made to grow by 10^r under ten times the variance."""
    import numpy as np

    class Result:
        @staticmethod
        def values(panel, field):
            noise = np.random.default_rng(0).uniform(0.9, 1.1, (5, 6))
            return np.arange(5), (10**0.25 if panel == "loud" else 1.0) * noise

    monkeypatch.setattr(evidence, "result_of", lambda name: Result)
    found = evidence.growth("x", "loud", "quiet", "error_shared")
    assert np.allclose([found.value, found.low, found.high], -0.25)
