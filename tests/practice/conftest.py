"""Tests that train a model need JAX and optax; without them they are skipped, and they say so."""

import os

import pytest

from hmoe_lib.practice import available
from hmoe_lib.practice.extra import INSTALL

MISSING = f"JAX and optax are not installed: to test the training, run `{INSTALL}`"


def pytest_collection_modifyitems(items):
    wanted = [item for item in items if "needs_jax" in item.keywords]
    if not wanted or available():
        return
    if "HMOE_REQUIRE_PRACTICE" in os.environ:
        raise pytest.UsageError(MISSING)
    for item in wanted:
        item.add_marker(pytest.mark.skip(reason=MISSING))
