"""The table of evidence: claims are declared in a file, their numbers fetched when it is built.

A row of `evidence.yml` has
  claim, page    what is claimed, and the chapter; `label` of a theorem or `heading` of a section
  kind, verdict  of KINDS and VERDICTS
  numbers        fetches by name, such as `below: [share, figure1, below]`; `stated` has <below>
  slopes         fetches of slopes by name, all shown with their intervals
  theory         the exponent that they should contain, or `excludes`, which they should not;
                 one for all, or one for each name
  run, ask, test, notebook
                 what repeats it: an experiment or study, a question to the engine, a test, or a
                 notebook; without any, the notebook of the page
Numbers are never typed, so a result that changes changes the table. A test asks whether the
verdicts still follow.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import yaml
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from hmoe_lib import experiments, identifiability, practice
from hmoe_lib.experiments import Slope
from hmoe_lib.experiments import routers as router_studies
from hmoe_lib.experiments.store import load_arrays
from hmoe_lib.moe_estimators import MoERegressor

BOOK = Path(__file__).resolve().parents[1]
RESULTS = BOOK / "results"
FILE = BOOK / "appendices" / "evidence.yml"
KINDS = ("proof", "machine proof", "certificate", "computation", "simulation", "none")
VERDICTS = {
    "agrees": "as claimed; where there are intervals, all contain the exponent",
    "agrees in part": "some intervals miss the exponent, or part of the claim is not shown",
    "sharpened": "we prove more",
    "repaired": "not as written, but as the chapter restates it",
    "fails as written": "there is a counter-example",
    "undecided": "what we have does not decide it",
    "not shown": "we have not tried, or did not find it",
    "holds": "our own claim, with the evidence named",
}
PLACE = re.compile(r"<(\w+)>")  # in `stated`: put the number of that name here
COLUMNS = {"Claim": 25, "Chapter": 14, "Evidence": 31, "Verdict": 11, "Repeat": 19}


FETCHES: dict[str, Callable] = {}
# Which stored result a fetch reads; the others compute.
STORED = {"slope": "{}", "growth": "{}", "share": "{}", "study": "study-{}", "arrivals": "afar",
          "cells": "atlas", "cell": "atlas", "flexmix": "flexmix-real",
          "routers": "routers-{}", "large": "study-large-{}",
          "gain": "practice", "largest": "practice", "weights": "practice-weights-{}"}  # fmt: skip


def fetch(function: Callable) -> Callable:
    FETCHES[function.__name__] = function
    return function


@functools.cache
def result_of(name: str) -> experiments.ExperimentResult:
    return experiments.load(name, RESULTS)


@functools.cache
def study_of(name: str):
    return experiments.load_study(name, RESULTS)


@functools.cache
def atlas() -> dict:
    return json.loads((RESULTS / "atlas.json").read_text(encoding="utf8"))


@fetch
@functools.cache
def slope(experiment: str, panel: str, field: str = "loss", statistic: str = "median") -> Slope:
    """Slope of a panel, with its interval."""
    return result_of(experiment).alone(panel).slopes(field)[panel][statistic]


@fetch
def growth(experiment: str, loud: str, quiet: str, field: str) -> Slope:
    """The exponent of n that ten times the variance of the noise reveals, run by run.

    Least squares depends on variance / n, so an error of order n^-r grows by 10^r.
    """
    ratios = (
        result_of(experiment).values(loud, field)[1] / result_of(experiment).values(quiet, field)[1]
    )
    rng = experiments.generator("growth", experiment, loud, field)
    again = rng.integers(ratios.shape[1], size=(2000, *ratios.shape))
    medians = np.median(ratios[np.arange(len(ratios))[:, None], again], axis=(1, 2))
    value, high, low = -np.log10([np.median(ratios), *np.percentile(medians, [2.5, 97.5])])
    return Slope(value, low, high, intercept=0.0, statistic="median", level=0.95)


@fetch
@functools.cache
def study(name: str, field: str, statistic: str = "mean", power: float = 1) -> Slope:
    """Slope of a study of likelihoods, with its interval."""
    return study_of(name).slope(field, statistic, power)


@fetch
def share(experiment: str, what: str, panel: str = "") -> str:
    """How many fits are below the truth's misfit, or on a bound: of a panel, or of a prefix."""
    rows = result_of(experiment).rows
    chosen = rows["panel"] == panel
    rows = rows[chosen if chosen.any() else np.char.startswith(rows["panel"], panel)]
    tests = {"below": rows["fit_loss"] <= rows["truth_loss"], "bound": rows["hit_bounds"]}
    return f"{int(tests[what].sum())} of {len(rows)}"


@fetch
def arrivals(prefix: str) -> str:
    """How many starts ended at a fit that is as good as the truth."""
    rows = result_of("afar").rows
    rows = rows[np.char.startswith(rows["panel"], prefix)]
    return f"{int(rows['reached'].sum())} of {int(rows['starts'].sum())}"


@fetch
def cells(what: str) -> int:
    """A count over the stored atlas of gates and experts."""
    found = atlas()["cells"]
    count = {
        "pairs": lambda c: 1,
        "relations": lambda c: sum(r["proved"] for r in c["relations"]),
        "certificates": lambda c: bool(c["certificate"]),
        "unidentifiable": lambda c: c["order"] == "inf",
    }
    return sum(map(count[what], found))


@fetch
def cell(gate: str, expert: str) -> str:
    """The order of contact of one pair in the stored atlas."""
    (found,) = (c for c in atlas()["cells"] if (c["gate"], c["expert"]) == (gate, expert))
    return "∞" if found["order"] == "inf" else str(found["order"])


@fetch
@functools.cache
def verdict(phi: str, condition: str, setting: str, what: str) -> str:
    """What the engine finds for an activation, with two inputs."""
    v = identifiability.verdict(phi, 2, condition, setting)
    counts = {"rank": f"{v.rank} of {v.listed}", "relations": str(len(v.relations)),
              "holds": "holds" if v.strongly_identifiable else "fails"}  # fmt: skip
    return counts[what]


@fetch
@functools.cache
def relations(u: str, **atom) -> str:
    """The proved relations among the first derivatives of u at an atom."""
    found = identifiability.examine(identifiability.custom(u, [atom], order=1)).solution
    assert all(relation.proved for relation in found.relations)
    return str(len(found.relations))


@fetch
def gaussian() -> int:
    """The proved relations of a gated normal expert, to second order."""
    return len(identifiability.gaussian_relations())


@fetch
def order(m: int) -> int:
    """The order of m normal experts in a cell: by elimination for two, else its exact bound."""
    return identifiability.r_bar(m)


@fetch
@functools.cache
def flexmix(k: int) -> float:
    """Log-likelihood of ours over that of flexmix with k experts, least of both data sets."""
    _, theirs = load_arrays("flexmix-real", RESULTS)
    read = functools.partial(np.loadtxt, delimiter=",", skiprows=1)
    series = BOOK / "practice/data"
    engel, spots = read(series / "engel.csv"), read(series / "sunspots.csv")[:, 1]
    data = {"engel": (engel[:, :1], engel[:, 1]), "sunspots": (spots[:-1, None], spots[1:])}
    fits = {n: MoERegressor(k, random_state=0).fit(*pair) for n, pair in data.items()}
    return min(fits[n].log_density(*data[n]).sum() - theirs[n][k - 1] for n in data)


@fetch
def routers(task: str, field: str, router: str) -> float:
    """The median over blocks of what was measured on a real series."""
    stored = router_studies.load_routers(task, RESULTS)
    return float(np.median(stored[field][list(router_studies.ROUTERS).index(router)]))


@fetch
def large(system: str, field: str, size: int) -> float:
    """A field of the one run at a size, at the dimension of the literature."""
    found = experiments.load_study(experiments.LARGE[system], RESULTS)
    return float(found.values[field][list(found.n).index(size), 0])


@fetch
@functools.cache
def claims() -> str:
    """How many of the measured claims have an interval with theory's exponent in it."""
    rows = experiments.measured(RESULTS).values()
    return f"{sum(row.inside for row in rows)} of {len(rows)}"


@functools.cache
def trained():
    return practice.load_practice(RESULTS)


@fetch
def gain(variant: str) -> str:
    """Loss of a small transformer less that without a gate, over seeds, with its interval."""
    found = trained().difference("validation_loss", variant)
    return f"{found} ({'decided' if found.decided else 'undecided'})"


@fetch
def largest(field: str) -> float:
    """The largest value of a field of the small transformers, over variants, seeds and layers."""
    return float(max(trained().of(field, variant).max() for variant in trained().variants))


@fetch
def weights(variant: str) -> float:
    """Validation loss of the stored weights."""
    return practice.load_weights(variant, RESULTS)[2]["validation_loss"]


def get(spec: list):
    """Fetch what a row asks for."""
    name, *arguments = spec
    named = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
    if name not in FETCHES:
        raise ValueError(f"evidence: {name!r} is not a fetch; expected one of {sorted(FETCHES)}")
    return FETCHES[name](*arguments, **named)


def reads(spec: list) -> str | None:
    """The stem of the stored result that a fetch reads, or None."""
    return STORED[spec[0]].format(spec[1]) if spec[0] in STORED else None


def shown(value) -> str:
    text = f"{value:.2g}" if isinstance(value, float) else str(value)
    return text.replace("-", "\N{MINUS SIGN}")


def groups() -> Iterator[tuple[str, list[dict]]]:
    """The groups of the file: a heading in MyST and its rows."""
    for group in yaml.safe_load(FILE.read_text(encoding="utf8")):
        yield group["group"], group["rows"]


def specs(row: dict) -> dict[str, list]:
    """All fetches of a row by name, slopes included."""
    return {**row.get("numbers", {}), **row.get("slopes", {})}


def exponent_of(row: dict, name: str) -> Fraction | None:
    """What theory says of a slope; one exponent for all slopes of a row, or one for each."""
    theory = row.get("theory", row.get("excludes"))
    theory = theory[name] if isinstance(theory, dict) else theory
    return None if theory is None else Fraction(str(theory))


def reading(row: dict, name: str, found: Slope) -> str:
    """How a slope is to be read: "", or "no", "wide", "one run"."""
    exponent = exponent_of(row, name)
    if found.low == found.high:  # one run a size: nothing to draw again
        return "one run a size"
    if exponent is None:
        return ""
    if (found.low <= exponent <= found.high) is ("excludes" in row):
        return "no"
    wide = "theory" in row and exponent != 0 and found.low <= 0 <= found.high
    return "wide" if wide else ""


def readings(row: dict) -> dict[str, str]:
    return {name: reading(row, name, found) for name, found in fetched(row, "slopes").items()}


def fetched(row: dict, part: str) -> dict:
    return {name: get(spec) for name, spec in row.get(part, {}).items()}


def result_cell(row: dict) -> str:
    """MyST of the result: what is stated, then the slopes beside the exponent of theory."""
    numbers = fetched(row, "numbers")
    text = PLACE.sub(lambda match: shown(numbers[match[1]]), row.get("stated", ""))
    slopes = fetched(row, "slopes")
    if not slopes:
        return text
    how = readings(row)
    parts = []
    for name, found in slopes.items():
        number = f"{found.value:.2f}" if how[name] == "one run a size" else found
        parts.append(f"{name}: {shown(number)}" + f" ({how[name]})" * bool(how[name]))
    theory = row.get("theory")
    lead = "Slopes" if theory is None or isinstance(theory, dict) else f"Exponent {shown(theory)}"
    return f"{text} {lead}. {'; '.join(parts)}.".strip()


def place(row: dict) -> str:
    """MyST of the chapter, and of the theorem in it."""
    link = f"{{doc}}`/book/{row['page']}`"
    return f"{link}, {{prf:ref}}`{row['label']}`" if "label" in row else link


def command(row: dict) -> str:
    """What repeats a row: an experiment, a command given in full, or the page with its contract."""
    if "run" in row:
        return f"python -m hmoe_lib.experiments run {row['run']}"
    if "ask" in row:
        return f"python -m hmoe_lib.identifiability {row['ask']}"
    if "test" in row:
        return f"pytest {row['test']}"
    return f"pytest --nbmake book/{row.get('notebook', row['page'])}.ipynb"


class Evidence(SphinxDirective):
    """The table, in the place of ```{evidence}```."""

    def run(self) -> list[nodes.Node]:
        for path in (FILE, *RESULTS.glob("*.json")):
            self.env.note_dependency(str(path))
        table, body = nodes.table(classes=["evidence", "colwidths-given"]), nodes.tbody()
        columns = nodes.tgroup(cols=len(COLUMNS))
        columns += [nodes.colspec(colwidth=width) for width in COLUMNS.values()]
        head = nodes.thead()
        head += self.line(list(COLUMNS))
        for heading, rows in groups():
            body += self.line([f"**{heading}**"], more=len(COLUMNS) - 1)
            for row in rows:
                evidence = f"*{row['kind'].capitalize()}.* {result_cell(row)}"
                texts = [row["claim"], place(row), evidence, row["verdict"], f"`{command(row)}`"]
                body += self.line(texts)
        columns += [head, body]
        table += columns
        return [table]

    def line(self, texts: list[str], more: int = 0) -> nodes.row:
        row = nodes.row()
        for text in texts:
            entry = nodes.entry(morecols=more) if more else nodes.entry()
            self.state.nested_parse(StringList([text], source=str(FILE)), 0, entry)
            row += entry
        return row


class Verdicts(SphinxDirective):
    """The list of verdicts and their meaning, in the place of ```{evidence-verdicts}```."""

    def run(self) -> list[nodes.Node]:
        box = nodes.container()
        used = [row["verdict"] for _, rows in groups() for row in rows]
        lines = [f"- *{name}* ({used.count(name)}): {text}." for name, text in VERDICTS.items()]
        self.state.nested_parse(StringList(lines, source=str(FILE)), 0, box)
        return box.children


def setup(app) -> dict:
    app.add_directive("evidence", Evidence)
    app.add_directive("evidence-verdicts", Verdicts)
    return {"version": "1", "parallel_read_safe": True}
