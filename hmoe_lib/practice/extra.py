"""The packages that training needs and nothing else does: imported here, when first used."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

__all__ = ["INSTALL", "ONE_THREAD", "available", "need"]

INSTALL = "python -m pip install -r requirements-practice.txt"
"""The command that installs the extra, from the folder of the book."""

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
"""How JAX computes, unless XLA_FLAGS says otherwise: the bits do not depend on the cores."""


def need(*names: str) -> list[ModuleType]:
    """Return modules of the extra, or say how to install it.

    Parameters
    ----------
    *names : str
        Such as "jax.numpy".

    Raises
    ------
    ModuleNotFoundError
        If one is missing; the message is the command that installs it.

    Examples
    --------
    >>> need("jaxx")
    Traceback (most recent call last):
        ...
    ModuleNotFoundError: training needs jaxx, which is not installed; run: python -m pip install \
-r requirements-practice.txt
    """
    os.environ.setdefault("XLA_FLAGS", ONE_THREAD)  # read when JAX is imported
    try:
        return [importlib.import_module(name) for name in names]
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"training needs {error.name}, which is not installed; run: {INSTALL}", name=error.name
        ) from None


def available() -> bool:
    """Return whether JAX and optax are installed.

    Examples
    --------
    >>> available() in (True, False)
    True
    """
    try:
        need("jax", "optax")
    except ModuleNotFoundError:
        return False
    return True
