"""Flat mixtures once more as plain loops: scores, weights, experts; slow and obvious.

Nothing here calls the fast code. Functions take one atom's parameters as lists and one input x.
"""

from __future__ import annotations

import itertools
import math

from hmoe_lib.mixing import MixingMeasure

__all__ = ["GELU", "SCORES", "flat", "losses", "sigmoid_weights", "softmax_weights"]


def dot(u, v) -> float:
    """Inner product, by a loop."""
    total = 0.0
    for u_p, v_p in zip(u, v, strict=True):
        total += float(u_p) * float(v_p)
    return total


def norm(u) -> float:
    """Euclidean norm, by a loop."""
    return math.sqrt(dot(u, u))


def logistic(z: float) -> float:
    """The sigmoid."""
    return 1.0 / (1.0 + math.exp(-z))


def GELU(z: float) -> float:
    """z Phi(z)."""
    return z * 0.5 * (1.0 + math.erf(z / math.sqrt(2.0)))


def quadratic(triangle, x) -> float:
    """x^T A x from the upper triangle of A."""
    total, at = 0.0, 0
    for p in range(len(x)):
        for q in range(p, len(x)):
            total += float(triangle[at]) * x[p] * x[q] * (1.0 if p == q else 2.0)
            at += 1
    return total


def polynomial(router, bias, shared, x) -> float:
    """x^T A x + B^T x + b."""
    pairs = len(x) * (len(x) + 1) // 2
    return quadratic(router[:pairs], x) + dot(router[pairs:], x) + bias


def cosine(router, bias, shared, x, tau=0.0, tau_x=0.0, temperature=1.0) -> float:
    """The cosine of router and input over T, with tau added to the norms, plus the bias."""
    return dot(router, x) / ((norm(router) + tau) * (norm(x) + tau_x)) / temperature + bias


SCORES = {
    "linear": lambda router, bias, shared, x: dot(router, x) + bias,
    "monomial": lambda router, bias, shared, x: quadratic(router, x) + bias,
    "polynomial": polynomial,
    "transformed": lambda router, bias, shared, x: dot(router, [math.tanh(v) for v in x]) + bias,
    "cosine": cosine,
    "temperature": lambda router, bias, shared, x: (dot(router, x) + bias) / float(shared[0]),
    "activated_temperature": lambda router, bias, shared, x: (
        (logistic(dot(router, x)) + bias) / float(shared[0])
    ),
}


def softmax_weights(scores, top: int | None = None) -> list[float]:
    """Softmax over the K largest scores; among equal ones the first wins."""
    chosen = list(range(len(scores)))
    if top is not None:
        chosen = sorted(chosen, key=lambda i: (-scores[i], i))[:top]
    highest = max(scores)
    total = 0.0
    for i in chosen:
        total += math.exp(scores[i] - highest)
    return [
        math.exp(score - highest) / total if i in chosen else 0.0 for i, score in enumerate(scores)
    ]


def sigmoid_weights(scores) -> list[float]:
    """Each score through the sigmoid, by itself."""
    return [logistic(score) for score in scores]


def flat(G: MixingMeasure, x, score, weights, phi) -> float:
    """sum_i w_i(x) phi(a_i^T x + b_i)."""
    x = [float(v) for v in x]
    scores = [score(G.router[i], float(G.bias[i]), G.shared, x) for i in range(G.atoms)]
    total = 0.0
    for w, eta in zip(weights(scores), G.expert, strict=True):
        total += w * phi(dot(eta[:-1], x) + float(eta[-1]))
    return total


def losses(G: MixingMeasure, G_star: MixingMeasure, mass, top: int | None = None):
    """(loss_1, loss_2): cells, powers and the largest set of K true atoms, by loops."""
    cells = {j: [] for j in range(G_star.atoms)}
    for i in range(G.atoms):
        best, home = math.inf, None
        for j in range(G_star.atoms):
            router, expert = _gaps(G, i, G_star, j)
            if router**2 + expert**2 < best:
                best, home = router**2 + expert**2, j
        cells[home].append(i)
    chosen = itertools.combinations(range(G_star.atoms), top or G_star.atoms)
    sets, answer = list(chosen), []
    for shared_power in (1, 2):
        terms = []
        for j, members in cells.items():
            total = abs(sum(mass(float(G.bias[i])) for i in members) - mass(float(G_star.bias[j])))
            power = shared_power if len(members) > 1 else 1
            for i in members:
                router, expert = _gaps(G, i, G_star, j)
                total += mass(float(G.bias[i])) * (router**power + expert**power)
            terms.append(total)
        answer.append(max(sum(terms[j] for j in subset) for subset in sets))
    return tuple(answer)


def _gaps(G: MixingMeasure, i: int, G_star: MixingMeasure, j: int) -> tuple[float, float]:
    router = [u - v for u, v in zip(G.router[i], G_star.router[j], strict=True)]
    expert = [u - v for u, v in zip(G.expert[i], G_star.expert[j], strict=True)]
    return norm(router), norm(expert)
