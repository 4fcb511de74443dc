"""The notation page keeps its word: names resolve, shapes hold, first uses are first uses."""

import ast
import inspect
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest
import yaml

import hmoe_lib as hl

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "book" / "welcome" / "notation.ipynb"
PICTURE = ROOT / "book" / "_static" / "one_head_twice.svg"
HEADER = ["symbol", "meaning", "shape", "in the library", "first used"]
BLOCKS = ("A layer", "A mixture", "Data and fits")


def cells(path: Path, kind: str) -> list[str]:
    nb = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    return [cell.source for cell in nb.cells if cell.cell_type == kind]


def table(text: str) -> list[dict]:
    """The rows of the notation table, each with the block that it stands in."""
    lines = iter(text.splitlines())
    head = "| " + " | ".join(HEADER) + " |"
    assert head in lines, "the notation table was not found"
    next(lines)
    rows, block = [], None
    for line in lines:
        if not line.startswith("|"):
            break
        fields = [field.strip() for field in line.strip("|").split("|")]
        assert len(fields) == len(HEADER), line
        if fields[0].startswith("**"):
            block = fields[0].strip("*")
        else:
            rows.append(dict(zip(HEADER, fields, strict=True)) | {"block": block})
    return rows


def code(field: str) -> list[str]:
    return re.findall(r"`([^`]+)`", field)


def symbols(field: str) -> list[str]:
    """The single symbols in a field: `$H,\\ N$` has two."""
    return [s for math in re.findall(r"\$([^$]+)\$", field) for s in math.split(r",\ ")]


ROWS = table("\n".join(cells(PAGE, "markdown")))


# ---- names and shapes ----------------------------------------------------------------------------


def layer(rng, H, N, d, d_k, d_v, d_out) -> dict:
    W = {"W_Q": (H, d, d_k), "W_K": (H, d, d_k), "W_V": (H, d, d_v), "W_O": (H, d_v, d_out)}
    arrays = {name: rng.standard_normal(shape) for name, shape in W.items()}
    sizes = {"H": H, "N": N, "d": d, "d_k": d_k, "d_v": d_v, "d_out": d_out}
    entry = {"i": N - 1, "c": d_out - 1, "position": "G1", "scale": 1 / np.sqrt(d_k)}
    X, W_theta = rng.standard_normal((N, d)), rng.standard_normal((H, d, d_v))
    return sizes | arrays | entry | {"X": X, "W_theta": W_theta}


def mixture(rng, H, N, K, d, n) -> dict:
    sizes = {"H": H, "N": N, "K": K, "d": d, "n": n}
    sizes["p"] = p = H * (N - 1) * d * (d + 1) // 2 + H * N * K * d + H * K
    M = rng.standard_normal((H, N, d, d))
    omega, a = rng.uniform(1, 2, (H, K)), rng.standard_normal((H, N, K, d))
    G = hl.HierarchicalMeasure.normalized(omega, M, a)
    G_star = hl.HierarchicalMeasure(omega[:, :1], G.M, a[:, :, :1])
    phi = hl.activation("sigmoid", bias=1.0)
    model, distance = hl.ValueGated(phi), 0.1
    X, y = model.sample(G_star, n, rng=rng)
    fitting = {"start": hl.near_truth_start(G_star, K, distance, rng=rng), "distance": distance}
    box = {"lower": -np.ones(p), "upper": np.ones(p)}
    measure = {"G": G, "omega": omega, "M": G.M, "a": a, "G_star": G_star, "h": H - 1, "x": X[0]}
    data = {"X": X, "y": y, "rng": rng, "r": 2, "model": model, "phi": phi}
    return sizes | measure | data | fitting | box


# Sizes that differ from each other: a shape with two axes exchanged is another shape.
LAYERS = [(2, 3, 4, 5, 6, 7), (5, 4, 2, 6, 1, 3)]
MIXTURES = [(2, 3, 4, 1, 60), (1, 2, 4, 3, 70), (3, 2, 4, 1, 80)]


def worlds(seed: int):
    """Random objects under the names of the table: a dictionary for every block."""
    rng = np.random.default_rng(seed)
    for sizes in LAYERS:
        yield (BLOCKS[0],), layer(rng, *sizes)
    for sizes in MIXTURES:
        yield BLOCKS[1:], mixture(rng, *sizes)


KINDS = {
    hl.HierarchicalMeasure: "measure",
    hl.Activation: "function",
    hl.Box: "box",
    hl.FitResult: "fit",
}


def kind(value) -> str:
    for type_, name in KINDS.items():
        if isinstance(value, type_):
            return name
    return "number" if np.ndim(value) == 0 else "array"


# In the table, functions without a prefix are those of hl.attention.
LAYER_NAMES = {name: getattr(hl.attention, name) for name in hl.attention.__all__}


def foreign_arguments(expression: str, names: dict) -> list[str]:
    """Arguments by position whose letter is not the one that the library gives them."""
    found = []
    for call in (node for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Call)):
        function = eval(ast.unparse(call.func), names)
        for argument, parameter in zip(
            call.args, inspect.signature(function).parameters, strict=False
        ):
            letters = (parameter, f"{parameter}_star")  # where a measure is asked, a truth will do
            if isinstance(argument, ast.Name) and argument.id not in letters:
                found.append(f"{expression}: {argument.id} stands for {parameter}")
    return found


def problems(row: dict, world: dict) -> list[str]:
    """What is wrong with a row: each expression has to exist and to have the stated shape."""
    names, stated = world | LAYER_NAMES | {"hl": hl}, row["shape"]
    found = [] if code(row["in the library"]) else [f"{row['symbol']}: nothing in the library"]
    for expression in code(row["in the library"]):
        try:
            found += foreign_arguments(expression, names)
            value = eval(expression, names)
        except (AttributeError, NameError, TypeError, ValueError) as error:
            found.append(f"{expression}: {error}")
            continue
        if stated == "numbers":
            wanted = tuple(world[re.sub(r"\\\w+{(\w+)}", r"\1", s)] for s in symbols(row["symbol"]))
            right = tuple(value) == wanted
        elif code(stated):
            shapes = [eval(shape, names) for shape in code(stated)]
            parts = value if len(shapes) > 1 else [value]
            right = [np.shape(part) for part in parts] == shapes
        else:
            right = kind(value) == stated
            if row["symbol"].strip("$") in world and stated == "number":
                right = right and value == world[row["symbol"].strip("$")]
        if not right:
            found.append(f"{expression}: not {stated}")
    return found


def problems_of(row: dict, seed: int = 0) -> list[str]:
    return [
        p for blocks, world in worlds(seed) if row["block"] in blocks for p in problems(row, world)
    ]


def test_the_table_has_every_block_and_every_field():
    assert list(dict.fromkeys(row["block"] for row in ROWS)) == list(BLOCKS)
    assert len(ROWS) > 30
    assert [row for row in ROWS if not all(row.values())] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["symbol"])
def test_names_resolve_and_shapes_hold(row):
    assert problems_of(row) == []


def row_of(fragment: str) -> dict:
    return next(row for row in ROWS if fragment in row["in the library"])


@pytest.mark.parametrize(
    ("fragment", "field", "old", "new", "reason"),
    [
        ("G.omega", "in the library", "omega", "weights", "no attribute 'weights'"),
        ("voronoi_cells", "in the library", "voronoi_cells", "voronoi", "voronoi"),
        ("hl.Mha().predict", "in the library", "Mha", "MHA", "no attribute 'MHA'"),
        ("G.a", "shape", "N, K", "K, N", "not `(H, K, N, d)`"),
        ("stacked", "shape", "N * d", "N + d", "not `(N + d,)`"),
        ("G.shape.size", "in the library", "size", "heads", "G.shape.heads"),
        ("G.heads, G.experts", "in the library", "heads, G.experts", "experts, G.heads", "numbers"),
        ("hl.Box", "shape", "box", "measure", "not measure"),
        ("voronoi_loss(", "in the library", "G, G_star", "G_star, G", "stands for"),
        ("G.M", "in the library", "`G.M`", "the matrices", "nothing in the library"),
    ],
)
def test_a_wrong_entry_is_refused(fragment, field, old, new, reason):
    row = row_of(fragment)
    assert problems_of(row) == [] and old in row[field]
    wrong = row | {field: row[field].replace(old, new)}
    assert any(reason in problem for problem in problems_of(wrong))


# ---- the live check of the page ------------------------------------------------------------------


def expressions(source: str) -> set[str]:
    return {ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.expr)}


def unchecked(rows: list[dict], source: str) -> list[str]:
    live = expressions(source)
    return [
        ast.unparse(part)
        for row in rows
        for expression in code(row["in the library"])
        for part in _parts(ast.parse(expression, mode="eval").body)
        if ast.unparse(part) not in live
    ]


def _parts(node) -> list:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def test_the_page_evaluates_every_expression_of_its_table():
    source = "\n".join(cells(PAGE, "code"))
    assert unchecked(ROWS, source) == []
    assert unchecked(ROWS, source.replace("voronoi_cells", "cells")) != []


# ---- first uses ----------------------------------------------------------------------------------


def formulas(text: str) -> str:
    found = re.findall(r"```{math}(.*?)```|\$\$(.*?)\$\$|\$([^$]+)\$", text, re.DOTALL)
    return "\n".join("".join(parts) for parts in found)


def uses(symbol: str, text: str) -> bool:
    """Whether a symbol stands in a formula of the text, and not as an index or in another name."""
    found = formulas(text)
    if not re.search("[_^]", symbol):
        found = re.sub(r"[_^](\{[^{}]*\}|\\?\w)", " ", found)
    return bool(re.search(rf"(?<![A-Za-z\\]){re.escape(symbol)}(?![A-Za-z])", found))


def chapters() -> dict[str, str]:
    """The text of the pages of Part I, in the order of the table of contents."""
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf8"))["parts"]
    files = [page["file"] for part in parts for page in part["chapters"]]
    names = [Path(file).name for file in files if file.startswith("book/attention/")]
    text = {name: "\n".join(cells(ROOT / f"book/attention/{name}.ipynb", "markdown"))
            for name in names}  # fmt: skip
    assert text, "no chapter of Part I in _toc.yml"
    return text


def first_use(row: dict, text: dict[str, str]) -> str | None:
    """The first chapter that has all symbols of the row."""
    wanted = symbols(row["symbol"])
    return next((name for name, t in text.items() if all(uses(s, t) for s in wanted)), None)


@pytest.mark.parametrize(
    "row", [r for r in ROWS if symbols(r["symbol"])], ids=lambda r: r["symbol"]
)
def test_the_named_chapter_is_the_first_one(row):
    linked = re.search(r"/(\w+)\.ipynb", row["first used"])
    assert (linked and linked[1]) == first_use(row, chapters())


def test_first_uses_are_told_apart():
    text = {"one": "a $\\varphi(x_{B,1})$ and B", "two": "$$\nB = a_{h}\n$$"}
    assert first_use({"symbol": r"$\varphi$"}, text) == "one"
    assert first_use({"symbol": "$B$"}, text) == "two"
    assert first_use({"symbol": r"$B,\ x$"}, text) is None


# ---- the picture of the first page ---------------------------------------------------------------


def test_the_picture_shows_the_places_of_the_library():
    drawn = re.findall(r">(G\d)</text>", PICTURE.read_text(encoding="utf8"))
    assert set(drawn) == set(hl.attention.POSITIONS)
    upper, lower = drawn[:5], drawn[5:]
    assert sorted(upper) == sorted(set(lower)), "both halves show the same five places"
