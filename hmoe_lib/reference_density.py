"""Densities of flat mixtures once more as plain loops; slow, obvious, for tests and exercises."""

from __future__ import annotations

import math

from hmoe_lib.mixing import MixingMeasure

__all__ = ["contaminated_density", "gaussian_density", "multinomial_density"]


def _dot(u, v) -> float:
    return sum(float(p) * float(q) for p, q in zip(u, v, strict=True))


def gate_weights(G: MixingMeasure, x, top=None, phi=None, m=None) -> list[float]:
    """Softmax of (phi(beta1^T m(x)) + beta0) / tau over the atoms kept by the K largest scores."""
    features = [float(m(entry)) for entry in x] if m else x
    raw = [_dot(router, features) for router in G.router]
    raw = [float(phi(z)) for z in raw] if phi else raw
    tau = float(G.shared[0]) if len(G.shared) else 1.0
    order = sorted(range(G.atoms), key=lambda i: -raw[i])
    kept = order[: top or G.atoms]
    scores = {i: (raw[i] + float(G.bias[i])) / tau for i in kept}
    highest = max(scores.values())
    total = sum(math.exp(s - highest) for s in scores.values())
    return [math.exp(scores[i] - highest) / total if i in kept else 0.0 for i in range(G.atoms)]


def normal(y: float, mean: float, variance: float) -> float:
    """The normal density."""
    return math.exp(-((y - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)


def gaussian_density(G: MixingMeasure, x, y: float, **gate) -> float:
    """p(y | x) of affine normal experts, rows (a, b, log nu)."""
    weights = gate_weights(G, x, **gate)
    total = 0.0
    for weight, row in zip(weights, G.expert, strict=True):
        mean = _dot(row[:-2], x) + float(row[-2])
        total += weight * normal(y, mean, math.exp(row[-1]))
    return total


def multinomial_density(G: MixingMeasure, x, y: int, classes: int, **gate) -> float:
    """p(y | x) of multinomial experts, rows (d_1, l_1), ..., (d_{S-1}, l_{S-1})."""
    size = len(x) + 1
    total = 0.0
    for weight, row in zip(gate_weights(G, x, **gate), G.expert, strict=True):
        scores = [0.0] * classes
        for s in range(classes - 1):
            part = row[s * size : (s + 1) * size]
            scores[s] = _dot(part[:-1], x) + float(part[-1])
        total += weight * math.exp(scores[y]) / sum(math.exp(z) for z in scores)
    return total


def contaminated_density(G: MixingMeasure, x, y: float, known: float) -> float:
    """p(y | x) with the known density's value given and a tanh prompt, row (eta, log nu)."""
    share = 1.0 / (1.0 + math.exp(-(_dot(G.router[0], x) + float(G.bias[0]))))
    row = G.expert[0]
    mean = math.tanh(_dot(row[:-1], x))
    return (1.0 - share) * known + share * normal(y, mean, math.exp(row[-1]))
