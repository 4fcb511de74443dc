"""Versions are written in more than one place: they agree."""

import re
from importlib.metadata import distributions

import pytest
import toc
import yaml
from packaging.specifiers import SpecifierSet


def pins(text: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", text, re.MULTILINE))


def hook_pins() -> dict[str, str]:
    config = yaml.safe_load((toc.ROOT / ".pre-commit-config.yaml").read_text(encoding="utf8"))
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    return pins("\n".join(pin for hook in hooks for pin in hook["additional_dependencies"]))


def test_hooks_use_the_pins_of_the_requirements():
    required = pins((toc.ROOT / "requirements.txt").read_text(encoding="utf8"))
    hooks = hook_pins()
    assert {"ruff", "codespell", "nbstripout"} == set(hooks)
    assert {name: hooks[name] for name in ("ruff", "codespell")} == {
        name: required[name] for name in ("ruff", "codespell")
    }


@pytest.mark.parametrize(
    ("file", "first"),
    [
        ("requirements.txt", "-e ."),
        ("requirements-classroom.txt", "-r requirements.txt"),
        ("requirements-practice.txt", "-r requirements.txt"),
    ],
)
def test_every_requirement_is_pinned_exactly(file, first):
    lines = (toc.ROOT / file).read_text(encoding="utf8").splitlines()
    packages = [line for line in lines if line and not line.startswith("#")]
    assert [line for line in packages if line != first and not pins(line)] == []
    assert first in packages


def test_no_package_is_pinned_twice():
    both = [
        {name.lower() for name in pins((toc.ROOT / file).read_text(encoding="utf8"))}
        for file in ("requirements.txt", "requirements-classroom.txt", "requirements-practice.txt")
    ]
    assert both[0] & (both[1] | both[2]) == set()


def test_every_pin_is_for_the_oldest_python_that_we_name():
    """Debian 12 has Python 3.11.2, and a pin for 3.11.5 cannot be installed there."""
    text = (toc.ROOT / "pyproject.toml").read_text(encoding="utf8")
    oldest = re.search(r'requires-python = ">=([\d.]+)"', text)[1] + ".0"
    required = pins((toc.ROOT / "requirements.txt").read_text(encoding="utf8"))
    here = {found.name: found for found in distributions()}
    refused = {}
    for name, version in required.items():
        found = here.get(name)  # one that is not what is pinned says nothing
        needs = found.metadata.get("Requires-Python") if found and found.version == version else ""
        if not SpecifierSet(needs or "").contains(oldest):
            refused[f"{name}=={version}"] = needs
    assert len(here.keys() & required.keys()) > 80
    assert refused == {}
