"""Break a sample of expressions of a module one by one, and see whether its tests notice.

    python tests/mutants.py hmoe_lib/models tests/test_models.py tests/test_flat.py --sample 60

A mutant exchanges an operator or a comparison, adds one to a number, turns a flag, drops a minus or
a not. Messages, annotations and docstrings are left alone. Everything happens in a copy of the
project, in a folder that is removed. A mutant meets the tests that run its line, the quick ones
first; where a line runs at import, it meets all tests. Who survives is either a function equal to
the original, which one line should say, or a test is missing.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import re
import resource
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
import scipy.stats  # noqa: F401
import sympy  # noqa: F401

PAIRS = re.findall(r"\w+", "Add Sub Mult Div Lt LtE Gt GtE Eq NotEq In NotIn Is IsNot And Or")
SWAPS = {getattr(ast, PAIRS[i]): getattr(ast, PAIRS[i ^ 1]) for i in range(len(PAIRS))}
SWAPS |= dict.fromkeys([ast.Pow, ast.MatMult, ast.FloorDiv, ast.Mod], ast.Mult)


def mutated(node: ast.AST) -> ast.expr | None:
    """Return a broken copy of an expression, or nothing where this tool breaks nothing."""
    new = copy.deepcopy(node)
    match node:
        case ast.BinOp() | ast.BoolOp() if type(node.op) in SWAPS:
            new.op = SWAPS[type(node.op)]()
        case ast.Compare():
            new.ops[0] = SWAPS[type(node.ops[0])]()
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            return new.operand
        case ast.Constant(value=bool(value)):
            new.value = not value
        case ast.Constant(value=int(value) | float(value)):
            new.value = value + 1
        case _:
            return None
    return new


def sites(source: str) -> list[tuple[ast.expr, str]]:
    """Return the expressions of a module that can be broken, with the text that breaks them."""
    tree, quiet = ast.parse(source), set()
    for node in ast.walk(tree):
        untouched = [getattr(node, name, None) for name in ("annotation", "returns")]
        if isinstance(node, (ast.Raise, ast.JoinedStr)):
            untouched.append(node)
        quiet |= {id(inner) for top in untouched if top is not None for inner in ast.walk(top)}
    found = [(node, mutated(node)) for node in ast.walk(tree) if id(node) not in quiet]
    return [(node, f"({ast.unparse(new)})") for node, new in found if new is not None]


def broken(source: str, node: ast.expr, text: str) -> str:
    """Return the source with one expression replaced; Python counts columns in bytes."""
    lines = source.encode().splitlines(keepends=True)
    before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    after = lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(lines[node.end_lineno :])
    return (before + text.encode() + after).decode()


def run(root: Path, *args: str) -> tuple[bool, str]:
    """Run pytest in the copy, in a fork: the libraries that tests use are imported only once."""
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if not child:
            resource.setrlimit(resource.RLIMIT_CPU, (900, 900))  # one that does not end is dead
            for stream in (1, 2):
                os.dup2(output.fileno(), stream)
            os.chdir(root)
            sys.path.insert(0, str(root))
            os.environ.update(PYTHONPATH=str(root), HMOE_CACHE=str(root), MPLBACKEND="agg")
            os._exit(pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", *args]))
        _, status = os.waitpid(child, 0)
        output.seek(0)
        return status == 0, output.read()


def covering(root: Path, tests: list[str]):
    """Return which test runs which line, and how long each test takes; all tests must pass."""
    from coverage import CoverageData  # pytest imports this module, looking for doctests

    contexts = ("--cov=hmoe_lib", "--cov-config=/dev/null", "--cov-context=test", "--cov-report=")
    passed, report = run(root, *tests, "--durations=0", "-vv", *contexts)
    if not passed:
        sys.exit("The tests fail before anything is broken:\n" + report)
    data = CoverageData(str(root / ".coverage"))
    data.read()
    times = re.findall(r"^([\d.]+)s (?:call|setup) +(\S.*)$", report, re.MULTILINE)
    return data, {name: float(seconds) for seconds, name in times}


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("module", type=Path, help="a module or a folder of modules")
    parser.add_argument("tests", nargs="+", help="test files, or folders with doctests")
    parser.add_argument("--sample", type=int, default=40, help="how many mutants (default 40)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (default 0)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in ("hmoe_lib", "tests", "book", "pyproject.toml", "requirements.txt"):
            (shutil.copytree if Path(name).is_dir() else shutil.copy)(name, root / name)
        data, times = covering(root, asked.tests)
        module = root / asked.module
        files = [module] if module.suffix else sorted(module.rglob("*.py"))
        every = [(file, *site) for file in files for site in sites(file.read_text())]
        chosen = random.Random(asked.seed).sample(every, min(asked.sample, len(every)))
        print(f"{len(chosen)} of {len(every)} mutants, {len(times)} timed tests", flush=True)
        survivors = 0
        for file, node, text in chosen:
            lines = data.contexts_by_lineno(str(file))
            names = {name.split("|")[0] for name in lines.get(node.lineno, [])} - {""}
            quick_first = sorted(names, key=lambda name: times.get(name, 0.0))
            source = file.read_text()
            file.write_text(broken(source, node, text))
            alive, _ = run(root, "-x", *(quick_first or asked.tests))
            file.write_text(source)
            survivors += alive
            print("SURVIVED" if alive else "killed", file.relative_to(root), node.lineno, end=": ")
            print(ast.unparse(node), "->", text, flush=True)
    print(f"{len(chosen)} mutants, {survivors} survived")


if __name__ == "__main__":
    main()
