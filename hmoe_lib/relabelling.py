"""Canonical representatives among the relabellings that leave a measure's function unchanged."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linear_sum_assignment

if TYPE_CHECKING:
    from hmoe_lib.measures import HierarchicalMeasure

__all__ = ["by_size", "nearest"]


def by_size(G: HierarchicalMeasure) -> HierarchicalMeasure:
    """Sort experts by their set of vectors, channels by weight and vectors, heads by all of it."""
    experts = [
        sorted(range(G.experts), key=lambda i, h=h: (sorted(G.a[h, i].tolist()), _gaps(G.M[h], i)))
        for h in range(G.heads)
    ]
    G = G.permuted(experts=np.array(experts))
    channels = [
        sorted(range(G.channels), key=lambda k, h=h: (G.omega[h, k], G.a[h, :, k].ravel().tolist()))
        for h in range(G.heads)
    ]
    G = G.permuted(channels=np.array(channels))
    key = [
        (G.omega[h].tolist(), G.a[h].ravel().tolist(), G.M[h].ravel().tolist())
        for h in range(G.heads)
    ]
    return G.permuted(heads=sorted(range(G.heads), key=key.__getitem__))


def _gaps(M: np.ndarray, i: int) -> list:
    """Differences of one gate matrix to all of its head: the same whichever expert is pinned."""
    return sorted((M[i] - M).reshape(len(M), -1).tolist())


def nearest(G: HierarchicalMeasure, reference: HierarchicalMeasure) -> HierarchicalMeasure:
    """Match heads, then experts and channels inside them, by least squared parameter distance."""
    for name in ("heads", "experts", "dim"):
        if getattr(G, name) != getattr(reference, name):
            raise ValueError(
                f"reference: expected {name} = {getattr(G, name)}, got {getattr(reference, name)}"
            )
    H = G.heads
    best = [[_match_head(G, h, reference, true) for h in range(H)] for true in range(H)]
    cost = np.array([[match[0] for match in row] for row in best])
    _, heads = linear_sum_assignment(cost)
    experts, channels = np.empty((H, G.experts), int), np.empty((H, G.channels), int)
    for true, h in enumerate(heads):
        _, experts[h], channels[h] = best[true][h]
    return G.permuted(heads=heads, experts=experts, channels=channels)


def _match_head(G: HierarchicalMeasure, h: int, reference: HierarchicalMeasure, true: int):
    """Return (cost, expert order, channel order) that bring head h nearest to a true head."""
    best = None
    for order in itertools.permutations(range(G.experts)):
        expert = list(order)
        M = G.M[h, expert] - G.M[h, expert[-1]]
        gap = G.a[h, expert][:, :, None] - reference.a[true][:, None]
        distance = np.sum(gap**2, axis=(0, 3))  # (K, K of the reference)
        if G.channels == reference.channels:
            distance = distance + (G.omega[h][:, None] - reference.omega[true]) ** 2
            channel = linear_sum_assignment(distance.T)[1]
            cost = distance[channel, np.arange(G.channels)].sum()
        else:
            # Over-specified: several channels share a true one; keep them together, in its order.
            nearest = distance.argmin(axis=1)
            channel = np.lexsort((distance.min(axis=1), nearest))
            cost = distance.min(axis=1).sum()
        cost += np.sum((M - reference.M[true]) ** 2)
        if best is None or cost < best[0]:
            best = (cost, expert, channel)
    return best
