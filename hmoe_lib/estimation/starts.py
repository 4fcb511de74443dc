"""Where a fit begins. Starting near the truth is a choice, and the result says so."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np

from hmoe_lib.arguments import number
from hmoe_lib.estimation.bounds import Box
from hmoe_lib.measures import HierarchicalMeasure, Shape

__all__ = ["Start", "near_truth_start", "random_start"]


@dataclass(frozen=True, eq=False, repr=False)
class Start(HierarchicalMeasure):
    """A measure to start from, with a note on where it came from."""

    note: str = ""


def near_truth_start(
    G_star: HierarchicalMeasure,
    channels: int,
    distance: float,
    *,
    rng: np.random.Generator,
    bounds: Box | None = None,
) -> Start:
    r"""Return a start at the truth, with extra channels and a perturbation.

    Parameters
    ----------
    G_star : HierarchicalMeasure
        The truth, K* channels.
    channels : int
        K >= K*, channels of the start.
    distance : float
        Standard deviation e >= 0 of the perturbation of every free entry of M and a; weights move
        by 0.1 e and stay >= 0. The paper's experiments use e of order n^{-0.083}.
    rng : numpy.random.Generator
        Source of randomness.
    bounds : Box, optional
        Parameter space; the start is clipped to it.

    Returns
    -------
    Start
        Every true channel appears at least once; extra channels duplicate true ones at random,
        head by head; duplicates share their channel's weight equally.

    Raises
    ------
    ValueError
        If there are fewer channels than in the truth, the distance is negative or not finite, or
        the bounds are for another number of parameters.

    References
    ----------
    Section 5 of the paper, training procedure.

    Examples
    --------
    >>> truth = HierarchicalMeasure([[1.0]], np.zeros((1, 1, 1, 1)), [[[[1.0]]]])
    >>> start = near_truth_start(truth, channels=2, distance=0.0, rng=np.random.default_rng(0))
    >>> start.omega.tolist(), start.note
    ([[0.5, 0.5]], 'started at the truth, perturbed by 0')
    """
    if not isinstance(G_star, HierarchicalMeasure):
        raise ValueError(f"G_star: expected a HierarchicalMeasure, got {type(G_star).__name__}")
    if not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng: expected a numpy Generator, got {type(rng).__name__}")
    if not (isinstance(channels, Real) and channels >= G_star.channels and channels % 1 == 0):
        raise ValueError(f"channels: expected an integer >= {G_star.channels}, got {channels!r}")
    distance = number("distance", distance, least=0.0)
    size = G_star.shape._replace(channels=int(channels)).size
    if bounds is not None and not (isinstance(bounds, Box) and bounds.lower.size == size):
        raise ValueError(f"bounds: expected a Box of {size} entries or None, got {bounds!r}")
    H, N, K_star, _ = G_star.shape
    K = int(channels)
    extra = rng.integers(K_star, size=(H, K - K_star))
    origin = np.concatenate([np.broadcast_to(np.arange(K_star), (H, K_star)), extra], axis=1)
    h = np.arange(H)[:, None]
    copies = np.array([np.bincount(row, minlength=K_star) for row in origin])
    omega = (G_star.omega / copies)[h, origin]
    a = G_star.a[h[..., None], np.arange(N)[:, None], origin[:, None]]
    exact = HierarchicalMeasure(omega, G_star.M, a, G_star.signed)
    scale = np.full(exact.shape.size, float(distance))
    weights = exact.shape.slices["omega"]
    scale[weights] *= 0.1
    theta = exact.to_vector() + scale * rng.standard_normal(scale.size)
    if not exact.signed:
        theta[weights] = np.maximum(theta[weights], 0.0)
    G = exact.from_vector(theta if bounds is None else bounds.clip(theta))
    note = f"started at the truth, perturbed by {distance:.3g}"
    return Start(G.omega, G.M, G.a, G.signed, note=note)


def random_start(
    shape: Shape, share: float = 1.0, *, bounds: Box, rng: np.random.Generator
) -> Start:
    """Return a start drawn uniformly from a box: it knows nothing of the truth but the box.

    Parameters
    ----------
    shape : Shape
        (H, N, K, d) of the measure.
    share : float, default 1
        In (0, 1]: how much of the box is used, counted from its middle for M and a and from 0
        for omega.
    bounds : Box
        Finite bounds.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    Start
        Its note says how it was drawn.

    Raises
    ------
    ValueError
        If the box is infinite or of another size, or the share is out of range.

    Examples
    --------
    >>> shape = Shape(heads=1, experts=1, channels=2, dim=1)
    >>> start = random_start(shape, bounds=Box([-2, -2, 0, 0], [2, 2, 3, 3]),
    ...                      rng=np.random.default_rng(0))
    >>> start.omega.shape, start.note
    ((1, 2), 'started at random in 1 of the box')
    """
    if not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng: expected a numpy Generator, got {type(rng).__name__}")
    share = number("share", share, above=0.0)
    if share > 1.0:
        raise ValueError(f"share: expected a number in (0, 1], got {share!r}")
    if not (isinstance(bounds, Box) and bounds.lower.size == shape.size):
        raise ValueError(f"bounds: expected a Box of {shape.size} entries, got {bounds!r}")
    if not np.isfinite([bounds.lower, bounds.upper]).all():
        raise ValueError("bounds: expected finite bounds to draw from, got infinite ones")
    H, N, K, d = shape
    centre = 0.5 * (bounds.lower + bounds.upper)
    centre[shape.slices["omega"]] = bounds.lower[shape.slices["omega"]]
    drawn = rng.uniform(bounds.lower, bounds.upper)
    blank = HierarchicalMeasure(np.zeros((H, K)), np.zeros((H, N, d, d)), np.zeros((H, N, K, d)))
    G = blank.from_vector(centre + share * (drawn - centre))
    note = f"started at random in {share:.3g} of the box"
    return Start(G.omega, G.M, G.a, note=note)
