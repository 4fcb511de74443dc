"""The import contracts of pyproject.toml: they name every module, hold, and are able to fail."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = (ROOT / "pyproject.toml").read_text(encoding="utf8")
CONTRACTS = tomllib.loads(SETTINGS)["tool"]["importlinter"]["contracts"]


def modules(package: Path) -> set[str]:
    files = {path.stem for path in package.glob("*.py") if not path.stem.startswith("_")}
    return files | {path.parent.name for path in package.glob("*/__init__.py")}


def named(layers: list[str]) -> set[str]:
    return {name.strip(" ()") for layer in layers for name in layer.replace(":", "|").split("|")}


LAYERED = named(CONTRACTS[0]["layers"])


def lint(folder: Path) -> subprocess.CompletedProcess:
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run([str(program), "--no-cache"], cwd=folder, capture_output=True, text=True)


def test_every_module_has_its_layer():
    found = modules(ROOT / "hmoe_lib")
    assert found, "no module found"
    assert found - LAYERED == set(), "name the module in the layers of pyproject.toml"


@pytest.fixture
def library(tmp_path):
    """A library with every planned module, all of them empty."""
    (tmp_path / "pyproject.toml").write_text(SETTINGS, encoding="utf8")
    package = tmp_path / "hmoe_lib"
    package.mkdir()
    for name in ("__init__", *LAYERED):
        (package / f"{name}.py").write_text("", encoding="utf8")
    for name in ("experiments", "identifiability"):
        (package / f"{name}.py").unlink()
        (package / name).mkdir()
        for module in ("__init__", "runner", "engine", "certificates"):
            (package / name / f"{module}.py").write_text("", encoding="utf8")
    return tmp_path


def add(library: Path, module: str, line: str) -> None:
    (library / "hmoe_lib" / f"{module}.py").write_text(line + "\n", encoding="utf8")


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("models", "from hmoe_lib import measures, activations, blocks"),
        ("plots", "import matplotlib"),
        ("exercises", "from hmoe_lib import reference"),
        ("reference", "from hmoe_lib import measures"),
        ("activations", "def symbolic():\n    import sympy"),
        ("identifiability/certificates", "import flint, sympy"),
        ("experiments/runner", "import joblib, tqdm"),
        ("experiments/engine", "import joblib, distributed"),
    ],
)
def test_what_the_design_allows_passes(library, module, line):
    add(library, module, line)
    result = lint(library)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("measures", "from hmoe_lib import models"),
        ("measures", "import hmoe_lib.gates"),
        ("models", "from hmoe_lib import voronoi"),
        ("estimation", "from hmoe_lib import experiments"),
        ("plots", "from hmoe_lib import reference"),
        ("estimation", "from hmoe_lib import reference"),
        ("reference", "from hmoe_lib import models"),
        ("identifiability/certificates", "from hmoe_lib import measures"),
        ("gates", "import sympy"),
        ("models", "import flint"),
        ("models", "import matplotlib.pyplot"),
        ("estimation", "import joblib"),
        ("experiments/certificates", "import subprocess"),
        ("experiments/certificates", "import distributed"),
        ("measures", "import myst_nb"),
        ("unplanned", "x = 1"),
    ],
)
def test_what_the_design_forbids_fails(library, module, line):
    add(library, module, line)
    result = lint(library)
    assert result.returncode != 0
    assert "BROKEN" in result.stdout or "unplanned" in result.stdout, result.stdout
