"""Loss and gradient against JAX, PyTorch and the exponentials alone."""

import numpy as np
from machine import interleaved, ratios
from problem import BIAS, MODEL, data
from rivals import careful_jax, idiomatic_jax, idiomatic_torch

from hmoe_lib.blocks import BLOCK_SIZE, Samples

OURS = "hmoe_lib"


def bare_exponentials(shape, n: int):
    """np.exp alone, on as many elements in blocks of the same size; nothing is allocated."""
    rows = shape.heads * (shape.experts - 1 + shape.experts * shape.channels)
    z = np.random.default_rng(0).normal(0.0, 3.0, (rows, BLOCK_SIZE))
    out = np.empty_like(z)

    def run():
        for start in range(0, n, BLOCK_SIZE):
            width = min(BLOCK_SIZE, n - start)
            np.exp(z[:, :width], out=out[:, :width])

    return run


def bare_functions(shape, n: int):
    """Gates, experts and the experts' derivatives alone, in place: the floor of any numpy code.

    Those of a softmax of two and of a sigmoid are 1 / (1 + exp(-z)); phi' is phi - phi^2.
    """
    rows = shape.heads * (shape.experts - 1 + shape.experts * shape.channels)
    z = np.random.default_rng(0).normal(0.0, 3.0, (rows, BLOCK_SIZE))
    out, first = np.empty_like(z), np.empty_like(z)

    def run():
        for start in range(0, n, BLOCK_SIZE):
            width = min(BLOCK_SIZE, n - start)
            e, d = out[:, :width], first[:, :width]
            np.exp(z[:, :width], out=e)
            e += 1.0
            np.divide(1.0, e, out=e)
            np.multiply(e, e, out=d)
            np.subtract(e, d, out=d)

    return run


def agree(results: dict) -> None:
    """All compute the same loss and gradient, to 1e-10 of their size."""
    loss, gradient = results[OURS]
    for name, (value, slope) in results.items():
        error = np.abs(np.asarray(slope) - gradient).max() / np.abs(gradient).max()
        error = max(error, abs(float(value) / loss - 1.0))
        assert error < 1e-10, f"{name} differs from {OURS} by {error:.1e}"


def report(n: int = 100_000, repetitions: int = 41) -> str:
    """Check that all agree, time them in turn, and return the table."""
    X, y, start = data(n)
    shape, theta, samples = start.shape, start.to_vector(), Samples(X, y)
    computed = {OURS: lambda theta: MODEL.loss_and_gradient_at(theta, shape, samples)}
    for name, rival in {
        "JAX, idiomatic": idiomatic_jax,
        "PyTorch, idiomatic": idiomatic_torch,
        "JAX, scanned over blocks": careful_jax,
    }.items():
        computed[name] = rival(shape, X, y, BIAS)
    agree({name: compute(theta) for name, compute in computed.items()})
    calls = {name: (lambda compute=compute: compute(theta)) for name, compute in computed.items()}
    calls["np.exp alone"] = bare_exponentials(shape, n)
    calls["gates, experts and their derivatives alone"] = bare_functions(shape, n)
    return ratios(interleaved(calls, repetitions), OURS)
