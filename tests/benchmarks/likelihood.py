"""Newton against EM on an over-fitted mixture: steps, processor seconds, what is still missing.

Run: python tests/benchmarks/likelihood.py
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from hmoe_lib.densities import GaussianMoE
from hmoe_lib.estimation import fit_em, fit_likelihood, split_start
from hmoe_lib.experiments.density_catalogue import CENTRED

SIZE, SEEDS, EM_STEPS = 10_000, 3, 1500
METHODS = {
    "Newton, Hessian": fit_likelihood,
    "Newton, scores": partial(fit_likelihood, curvature="scores"),
    "EM": partial(fit_em, max_iterations=EM_STEPS),
}


def compare(seed: int) -> dict:
    """Return fit and processor seconds of each method, same data and same start."""
    rng, model = np.random.default_rng(seed), GaussianMoE()
    X = rng.uniform(-2, 2, (SIZE, 1))
    y = model.sample(model.pinned(CENTRED), X, rng=rng)
    start = split_start(model, CENTRED, 0, distance=0.3, rng=rng)
    done = {}
    for name, method in METHODS.items():
        began = time.process_time()
        done[name] = method(model, X, y, start), time.process_time() - began
    return done


if __name__ == "__main__":
    print("seed  method            steps  seconds  below the best  status")
    for seed in range(SEEDS):
        done = compare(seed)
        best = max(fit.log_likelihood for fit, _ in done.values())
        for name, (fit, seconds) in done.items():
            row = f"{seed:4d}  {name:15}  {fit.iterations:6d}  {seconds:7.2f}"
            print(f"{row}  {best - fit.log_likelihood:14.4f}  {fit.status}")
