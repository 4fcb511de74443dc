"""How time and memory grow: with n, with the number of parameters, and for a whole fit."""

import statistics
import tracemalloc

from machine import interleaved, seconds, table
from problem import MODEL, data

import hmoe_lib as hl
from hmoe_lib.blocks import Samples
from hmoe_lib.experiments import get, replicate


def with_n(sizes=(10_000, 100_000, 1_000_000), repetitions: int = 7) -> str:
    """Loss and gradient: the time of a sample stays the same."""
    calls = {}
    for n in sizes:
        X, y, start = data(n)
        point = start.to_vector(), start.shape, Samples(X, y)
        calls[n] = lambda point=point: MODEL.loss_and_gradient_at(*point)
    times = interleaved(calls, repetitions)
    rows = []
    for n, t in times.items():
        low, middle = min(t), statistics.median(t)
        rows.append([f"{n:,}", f"{1e3 * low:.2f}", f"{1e3 * middle:.2f}", f"{1e9 * low / n:.0f}"])
    return table(["n", "min, ms", "median, ms", "ns a sample"], rows)


def with_parameters(channels=(2, 4, 8, 16, 32), n: int = 20_000, repetitions: int = 7) -> str:
    """Normal equations: p^2, once the p exponentials and p columns no longer dominate."""
    calls, gradients, sizes = {}, {}, {}
    for K in channels:
        X, y, start = data(n, channels=K)
        point = start.to_vector(), start.shape, Samples(X, y)
        sizes[K] = start.shape.size
        calls[K] = lambda point=point: MODEL.normal_equations_at(*point)
        gradients[K] = lambda point=point: MODEL.loss_and_gradient_at(*point)
    normal, gradient = interleaved(calls, repetitions), interleaved(gradients, repetitions)
    rows = []
    for K, p in sizes.items():
        a, b = 1e9 * min(gradient[K]) / n, 1e9 * min(normal[K]) / n
        rows.append([str(K), str(p), f"{a:.0f}", f"{a / p:.2f}", f"{b:.0f}", f"{b / p**2:.3f}"])
    head = ["K", "p", "loss and gradient, ns a sample", "over p"]
    return table([*head, "normal equations, ns a sample", "over p^2"], rows)


def memory(sizes=(100_000, 400_000), steps: int = 3) -> str:
    """Peak of a short fit beyond its data, as tracemalloc sees it."""
    rows = []
    for n in sizes:
        X, y, start = data(n)
        tracemalloc.start()
        hl.fit_least_squares(MODEL, X, y, start, max_iterations=steps)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rows.append([f"{n:,}", f"{(X.nbytes + y.nbytes) / 2**20:.1f}", f"{peak / 2**20:.2f}"])
    return table(["n", "data, MiB", "peak of a fit beyond the data, MiB"], rows)


def figure1(full: bool) -> str:
    """Time of Figure 1's fits on one core: all of them, or one of ten and its tenfold."""
    config = get("figure1")
    numbers = range(config.replicates if full else 1)
    rows, total = [], 0.0
    for panel in config.panels:
        took = sum(
            seconds(lambda at=(panel.name, n, number): replicate(config, *at))
            for n in config.sizes
            for number in numbers
        )
        scaled = took * config.replicates / len(numbers)
        total += scaled
        rows.append([panel.name, str(len(config.sizes) * len(numbers)), f"{took:.1f}"])
        rows[-1].append(f"{scaled:.0f}")
    kind = "all fits run" if full else "EXTRAPOLATED from one replicate of each size"
    rows.append([f"**all, {kind}**", "", "", f"**{total:.0f}**"])
    return table(["panel", "fits run", "s", f"s for {10 * len(config.sizes)} fits"], rows)
