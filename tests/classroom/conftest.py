"""The tests of the classroom need nbgrader; without it they are skipped, and they say so."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "assignments"))
MISSING = "nbgrader is not installed: run `make classroom` first to test the grading"


def pytest_collection_modifyitems(items):
    if importlib.util.find_spec("nbgrader") is not None:
        return
    for item in items:
        if "needs_nbgrader" in item.keywords:
            if "HMOE_REQUIRE_CLASSROOM" in os.environ:
                raise pytest.UsageError(MISSING)
            item.add_marker(pytest.mark.skip(reason=MISSING))
