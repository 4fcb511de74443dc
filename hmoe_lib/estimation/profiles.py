r"""Noise-free fits of flat mixtures: orders of contact, and limits under misspecification."""

from __future__ import annotations

import numpy as np

from hmoe_lib.estimation.bounds import Box
from hmoe_lib.estimation.least_squares import fit_least_squares
from hmoe_lib.estimation.mixing_starts import perturbed
from hmoe_lib.estimation.result import FitResult
from hmoe_lib.mixing import BLOCKS, MixingMeasure

Array = np.ndarray

__all__ = ["limit_on_a_grid", "split_profile"]


def split_profile(
    model,
    G_star: MixingMeasure,
    block: str,
    column: int,
    deltas,
    X,
    *,
    rng: np.random.Generator,
    atom: int = 0,
    weight: str = "exp",
    starts: int = 4,
) -> Array:
    r"""Return how close two copies of an atom, held apart, can come to the true function.

    Parameters
    ----------
    model : FlatModel
        Gate and expert.
    G_star : MixingMeasure
        The truth with its pins.
    block : {"router", "expert"}
        Where the coordinate is.
    column : int
        Which entry of the atom's row is held, at the truth plus delta and minus delta.
    deltas : sequence of float
        Displacements.
    X : array_like, shape (n, d)
        Points whose empirical law stands for mu.
    rng : numpy.random.Generator
        Draws the starts.
    atom : int, default 0
        The true atom that is split.
    weight : {"exp", "sigmoid"}, default "exp"
        What the mass of an atom is.
    starts : int, default 4
        Starts, of which the best counts; the first is the split truth itself.

    Returns
    -------
    ndarray, shape (len(deltas),)
        Root mean square distances F(delta), minimised over everything that is not held. Zero to
        rounding for all delta means that the coordinate is not identifiable.

    Notes
    -----
    :math:`F(\delta) \sim C \delta^r` bounds every estimator to :math:`n^{-1/(2r)}` near the
    truth. Minimisation can only overestimate F.

    Examples
    --------
    >>> from hmoe_lib.models import FlatModel
    >>> truth = MixingMeasure([[1.0], [0.0]], [0.0, 0.0], [[1.5, 0.3], [-1.0, 0.5]])
    >>> truth = truth.pinned_for(([[False], [True]], [False, True], []))
    >>> X = np.linspace(-2, 2, 200)[:, None]
    >>> F = split_profile(FlatModel("linear", "tanh"), truth, "expert", 0, [0.05, 0.1], X,
    ...     rng=np.random.default_rng(0))
    >>> bool(1.8 < np.log2(F[1] / F[0]) < 2.2)
    True
    """
    if block not in ("router", "expert"):
        raise ValueError(f"block: expected 'router' or 'expert', got {block!r}")
    y = model.predict(G_star, X)
    twice = G_star.split_atom(atom, [0.5, 0.5], weight)
    found = []
    for delta in deltas:
        blocks = {name: getattr(twice, name).copy() for name in BLOCKS}
        blocks[block][atom, column] += delta
        blocks[block][atom + 1, column] -= delta
        masks = [mask.copy() for mask in twice.pinned]
        masks[BLOCKS.index(block)][[atom, atom + 1], column] = True
        held = MixingMeasure(**blocks, pinned=tuple(masks))
        found.append(_best(model, X, y, held, Box.nonnegative_weights(held), delta, starts, rng))
    return np.sqrt([fit.loss for fit in found])


def limit_on_a_grid(
    model, G_star: MixingMeasure, start: MixingMeasure, bounds: Box, X, *, rng, starts: int = 16
) -> FitResult:
    """Return the limit of least squares in a box that need not contain the truth.

    Parameters
    ----------
    model : FlatModel
        Gate and expert.
    G_star : MixingMeasure
        The truth; it may have another number of atoms.
    start : MixingMeasure
        A measure of the fitted size.
    bounds : Box
        Finite parameter space; starts are uniform in it, the first is ``start``.
    X : array_like, shape (n, d)
        Points whose empirical law stands for mu, better a grid.
    rng : numpy.random.Generator
        Draws the starts.
    starts : int, default 16
        Number of starts; the best fit is returned.

    Returns
    -------
    FitResult
        With the minimum of the noise-free criterion as its loss: zero means that the model is
        not misspecified after all.

    Examples
    --------
    >>> from hmoe_lib.models import FlatModel
    >>> truth = MixingMeasure([[1.0]], [0.5], [[1.0, 0.5]])
    >>> box = Box([-2, -2, -2, 0.9], [2, 2, 2, 1.1])
    >>> start = MixingMeasure([[1.0]], [0.5], [[1.0, 1.0]])
    >>> X = np.linspace(-2, 2, 100)[:, None]
    >>> limit = limit_on_a_grid(FlatModel("sigmoid", "gelu"), truth, start, box, X, starts=2,
    ...     rng=np.random.default_rng(0))
    >>> limit.loss > 1e-6, limit.measure.expert[0, 1]
    (True, np.float64(0.9))
    """
    y, fits = model.predict(G_star, X), []
    for number in range(starts):
        theta = rng.uniform(bounds.lower, bounds.upper) if number else start.to_vector()
        here = start.from_vector(bounds.clip(theta))
        fits.append(_exact(model, X, y, here, bounds))
    return min(fits, key=lambda fit: fit.loss)


def _best(model, X, y, held: MixingMeasure, box: Box, delta: float, starts: int, rng) -> FitResult:
    """Fit from the split truth and from points at the distances that a Taylor series suggests."""
    fits = []
    for number in range(starts):
        distance = 0.0 if number == 0 else delta ** (1 + number % 2)
        fits.append(_exact(model, X, y, perturbed(held, distance, rng=rng), box))
    return min(fits, key=lambda fit: fit.loss)


def _exact(model, X, y, start: MixingMeasure, box: Box) -> FitResult:
    return fit_least_squares(
        model, X, y, start, box, max_iterations=500, tolerance=1e-12, gain=0.0, newton=True,
        coarse=False,
    )  # fmt: skip
