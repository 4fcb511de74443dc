"""Against R's flexmix: the same data, the same number of starts, log-likelihood and seconds.

Needs R with the package flexmix (on Debian: apt install r-cran-flexmix).
Run: python tests/benchmarks/flexmix.py
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from hmoe_lib.densities import GaussianMoE
from hmoe_lib.estimation import fit_mixture
from hmoe_lib.mixing import MixingMeasure

SCRIPT = Path(__file__).with_suffix(".R")
PROBLEMS, STARTS, SIZE = 20, 5, 400


def missing() -> str | None:
    """Say why the comparison cannot run, or None."""
    if shutil.which("Rscript") is None:
        return "Rscript is missing"
    found = subprocess.run(["Rscript", "-e", "library(flexmix)"], capture_output=True)
    return None if found.returncode == 0 else "R has no package flexmix"


def problems() -> list:
    """Return data of random truths: two or three lines in one input, gates of moderate slope."""
    drawn = []
    for i in range(PROBLEMS):
        rng = np.random.default_rng([20, i])
        k = 2 + i % 2
        eta = np.column_stack([4 * rng.standard_normal((k, 2)), np.log(rng.uniform(0.1, 0.5, k))])
        G = MixingMeasure(3 * rng.standard_normal((k, 1)), rng.standard_normal(k), eta)
        X = rng.uniform(-2, 2, (SIZE, 1))
        drawn.append((X, GaussianMoE().sample(G, X, rng=rng), k))
    return drawn


def ours(drawn) -> np.ndarray:
    """Return log-likelihood and processor seconds of our fits, (problems, 2)."""
    rows = []
    for i, (X, y, k) in enumerate(drawn):
        began = time.process_time()
        fit = fit_mixture(GaussianMoE(), X, y, k, starts=STARTS, rng=np.random.default_rng(i))
        rows.append((fit.log_likelihood, time.process_time() - began))
    return np.array(rows)


def theirs(drawn) -> np.ndarray:
    """Return log-likelihood and processor seconds of flexmix, (problems, 2)."""
    with tempfile.TemporaryDirectory() as folder:
        for i, (X, y, k) in enumerate(drawn):
            columns = np.column_stack([X[:, 0], y, np.full(len(y), k)])
            path = Path(folder) / f"{i}.csv"
            np.savetxt(path, columns, delimiter=",", header="x,y,k", comments="", fmt="%.17g")
        call = ["Rscript", str(SCRIPT), folder, str(len(drawn)), str(STARTS)]
        run = subprocess.run(call, capture_output=True, text=True, check=True)
    return np.array([line.split() for line in run.stdout.splitlines()], dtype=float)


if __name__ == "__main__":
    if reason := missing():
        raise SystemExit(f"not run: {reason}")
    data = problems()
    a, b = ours(data), theirs(data)
    print("problem  k   ours        flexmix     difference  seconds ours  flexmix")
    for i, ((_, _, k), mine, other) in enumerate(zip(data, a, b, strict=True)):
        print(
            f"{i:7d}  {k}  {mine[0]:10.4f}  {other[0]:10.4f}  {mine[0] - other[0]:+10.4f}"
            f"  {mine[1]:12.2f}  {other[1]:7.2f}"
        )
    print(f"better or equal: {np.sum(a[:, 0] >= b[:, 0] - 1e-6)} of {len(a)}")
    print(f"seconds, flexmix over ours: {b[:, 1].sum() / a[:, 1].sum():.1f}")
