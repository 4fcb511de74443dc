"""One core, one thread for every library: import this before numpy, JAX and PyTorch."""

import os
import platform
import statistics
import time
from importlib.metadata import PackageNotFoundError, version

for _name in ("OPENBLAS", "OMP", "MKL"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"
# A kernel chosen by hand for an old OpenBLAS would slow ours, and ours alone.
for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_name, None)
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_ENABLE_X64"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

PACKAGES = ("numpy", "scipy", "jax", "jaxlib", "torch")


def header() -> str:
    """Describe the machine: processor, SIMD features that numpy found, load, versions."""
    import numpy as np

    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    try:
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    except (AttributeError, OSError):
        load = "unknown"
    lines = [
        f"processor: {processor()}, {os.cpu_count()} cores, one of them used",
        f"SIMD found by numpy: {' '.join(simd.get('found', [])) or 'baseline only'}",
        f"not found: {' '.join(simd.get('not found', [])) or 'none'}",
        f"load of the machine over 1, 5, 15 minutes: {load}",
        f"Python {platform.python_version()}, " + ", ".join(map(installed, PACKAGES)),
        "times: seconds of processor used by this process, all of its threads",
    ]
    return "\n".join(f"- {line}" for line in lines)


def processor() -> str:
    """Return the processor's name."""
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def installed(name: str) -> str:
    """Return name and version of a package."""
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"no {name}"


def seconds(call) -> float:
    """Return the processor time that one call takes, whatever else the machine does."""
    began = time.process_time()
    call()
    return time.process_time() - began


def interleaved(calls: dict, repetitions: int) -> dict[str, list[float]]:
    """Time every call once a round, so that a disturbance does not fall on one of them alone."""
    times = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(repetitions):
        for name, call in calls.items():
            times[name].append(seconds(call))
    return times


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table, numbers to the right."""
    line = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, line, *rows])


def ratios(times: dict[str, list[float]], ours: str) -> str:
    """Return the table of times and of their ratios to ours."""
    rows = []
    for name, values in times.items():
        low, middle = min(values), statistics.median(values)
        rows.append(
            [
                name,
                f"{1e3 * low:.1f}",
                f"{1e3 * middle:.1f}",
                f"{low / min(times[ours]):.2f}",
                f"{middle / statistics.median(times[ours]):.2f}",
            ]
        )
    head = ["", "min, ms", "median, ms", "ratio of minima to ours", "ratio of medians"]
    return table(head, rows)
