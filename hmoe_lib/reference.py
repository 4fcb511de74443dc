"""Every definition once more as plain loops: slow, obvious, imported only by tests and exercises.

Nothing here calls the fast code. Functions take the arrays of a measure (omega, M, a) and one
input x, and follow the formulas letter by letter.
"""

from __future__ import annotations

import itertools
import math

from hmoe_lib.measures import HierarchicalMeasure

__all__ = [
    "channel_function",
    "expert_loss",
    "gate",
    "key_gated",
    "key_score",
    "layer_gated",
    "mha",
    "output_gated",
    "query_gated",
    "query_score",
    "value_gated",
    "voronoi_cells",
    "voronoi_loss",
    "voronoi_loss_r",
]


def dot(u, v) -> float:
    """Inner product, by a loop."""
    total = 0.0
    for u_p, v_p in zip(u, v, strict=True):
        total += float(u_p) * float(v_p)
    return total


def quadratic_form(M, x) -> float:
    """x^T M x, by two loops."""
    total = 0.0
    for p in range(len(x)):
        for q in range(len(x)):
            total += float(x[p]) * float(M[p][q]) * float(x[q])
    return total


def key_score(M, x, phi) -> float:
    """x^T phi(M x): G3, the key M x passes through the gate."""
    return dot(x, [float(phi(dot(row, x))) for row in M])


def query_score(M, x, phi) -> float:
    """phi(x)^T M x: G4, the query x passes through the gate."""
    return dot([float(phi(x_p)) for x_p in x], [dot(row, x) for row in M])


def gate(G: HierarchicalMeasure, h: int, x, score=quadratic_form) -> list[float]:
    """Softmax over the scores of one head, without a gate x^T M_{h,i} x."""
    scores = [score(G.M[h, i], x) for i in range(G.experts)]
    highest = max(scores)
    exponentials = [math.exp(score - highest) for score in scores]
    return [e / sum(exponentials) for e in exponentials]


def channel_function(
    G: HierarchicalMeasure, h: int, k: int, x, phi=None, score=quadratic_form
) -> float:
    """f^{h,k}(x), with phi around each expert when one is given (Setting I)."""
    s = gate(G, h, x, score)
    total = 0.0
    for i in range(G.experts):
        expert = dot(G.a[h, i, k], x)
        total += s[i] * (expert if phi is None else float(phi(expert)))
    return total


def mha(G: HierarchicalMeasure, x) -> float:
    """Plain attention, model (2)."""
    return _weighted(G, lambda h, k: channel_function(G, h, k, x))


def value_gated(G: HierarchicalMeasure, x, phi) -> float:
    """Setting I, model (9)."""
    return _weighted(G, lambda h, k: channel_function(G, h, k, x, phi))


def output_gated(G: HierarchicalMeasure, x, phi) -> float:
    """Setting II, model (12)."""
    return _weighted(G, lambda h, k: float(phi(channel_function(G, h, k, x))))


def key_gated(G: HierarchicalMeasure, x, phi) -> float:
    """Linear experts, gate at G3."""
    return _weighted(
        G, lambda h, k: channel_function(G, h, k, x, None, lambda M, x: key_score(M, x, phi))
    )


def query_gated(G: HierarchicalMeasure, x, phi) -> float:
    """Linear experts, gate at G4."""
    return _weighted(
        G, lambda h, k: channel_function(G, h, k, x, None, lambda M, x: query_score(M, x, phi))
    )


def layer_gated(G: HierarchicalMeasure, x, phi) -> float:
    """Linear experts, gate at G5: after the sum over heads and channels."""
    return float(phi(mha(G, x)))


def _weighted(G: HierarchicalMeasure, channel) -> float:
    total = 0.0
    for h in range(G.heads):
        for k in range(G.channels):
            total += float(G.omega[h, k]) * channel(h, k)
    return total


def voronoi_cells(G: HierarchicalMeasure, G_star: HierarchicalMeasure, X, phi=None) -> dict:
    """Map each fitted channel (h', k') to its true channel (h, k); phi for Setting I."""
    cells = {}
    for h1 in range(G.heads):
        for k1 in range(G.channels):
            best = None
            for h in range(G_star.heads):
                for k in range(G_star.channels):
                    square = 0.0
                    for x in X:
                        fit = channel_function(G, h1, k1, x, phi)
                        true = channel_function(G_star, h, k, x, phi)
                        square += (fit - true) ** 2
                    if best is None or square < best[0]:
                        best = (square, h, k)
            cells[h1, k1] = best[1:]
    return cells


def _distance(u, v) -> float:
    return math.sqrt(sum((float(x) - float(y)) ** 2 for x, y in zip(u, v, strict=True)))


def _loss(G: HierarchicalMeasure, G_star: HierarchicalMeasure, cells: dict, power) -> float:
    total = 0.0
    for h in range(G_star.heads):
        for k in range(G_star.channels):
            members = [fitted for fitted, true in cells.items() if true == (h, k)]
            mass = sum(float(G.omega[h1, k1]) for h1, k1 in members)
            total += abs(mass - float(G_star.omega[h, k]))
            r = power(len(members))
            for h1, k1 in members:
                for i in range(G.experts):
                    delta_M = _distance(G.M[h1, i].ravel(), G_star.M[h, i].ravel())
                    delta_a = _distance(G.a[h1, i, k1], G_star.a[h, i, k])
                    total += float(G.omega[h1, k1]) * (delta_M**r + delta_a**r)
    return total


def voronoi_loss_r(G, G_star, X, r=1, phi=None) -> float:
    """L_{1,r}: one power everywhere."""
    return _loss(G, G_star, voronoi_cells(G, G_star, X, phi), lambda members: r)


def voronoi_loss(G, G_star, X, phi=None) -> float:
    """L_2: power 1 in cells with one element, power 2 in cells with more."""
    cells = voronoi_cells(G, G_star, X, phi)
    return _loss(G, G_star, cells, lambda members: 2 if members > 1 else 1)


def expert_loss(G: HierarchicalMeasure, G_star: HierarchicalMeasure) -> float:
    """E_2: cells of experts, the smallest value over all orders of heads and of their experts."""
    totals = []
    for heads in itertools.permutations(range(G.heads)):
        total = 0.0
        for true, h in enumerate(heads):
            orders = itertools.permutations(range(G.experts))
            total += min(_expert_loss_of_head(G, h, order, G_star, true) for order in orders)
        totals.append(total)
    return min(totals)


def _expert_loss_of_head(G, h: int, order, G_star, true: int) -> float:
    square = 0.0
    total = 0.0
    for i, j in enumerate(order):
        square += _distance((G.M[h, j] - G.M[h, order[-1]]).ravel(), G_star.M[true, i].ravel()) ** 2
        cells = {k: [] for k in range(G_star.channels)}
        for k1 in range(G.channels):
            gaps = [_distance(G.a[h, j, k1], G_star.a[true, i, k]) for k in cells]
            cells[gaps.index(min(gaps))].append((float(G.omega[h, k1]), min(gaps)))
        for k, members in cells.items():
            total += abs(sum(weight for weight, _ in members) - float(G_star.omega[true, k]))
            power = 2 if len(members) > 1 else 1
            total += sum(weight * gap**power for weight, gap in members)
    return total + math.sqrt(square)
