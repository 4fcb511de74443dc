r"""The order of contact: how flat the function distance is when an atom is split in two.

One coordinate of a pair of channels is held at the truth plus and minus delta, the noise-free
distance F(delta) is minimised over everything else, and :math:`F \sim C\delta^r`. Minimisation
bounds F from above: no estimator is uniformly faster than :math:`n^{-1/(2r)}` over shrinking
neighbourhoods of the truth. That least squares attains the rate needs a proof of the lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hmoe_lib.identifiability.gram import cube_rule

Array = np.ndarray

__all__ = ["Contact", "contact_order"]

DELTAS = tuple(0.4 * 2.0 ** (-k / 2) for k in range(9))
FLOOR = 1e-11  # relative distances below this are rounding
STEPS = 300


@dataclass(frozen=True)
class Contact:
    """Order of contact and what follows.

    Attributes
    ----------
    deltas, distances : ndarray
        Displacements, and the smallest distances found in L2(mu).
    order : float
        Fitted r; infinity only with a proved identity, NaN if every distance is rounding and no
        identity was given.
    error : float
        Spread of the local slopes that the fit rests on.
    constant : float
        C in F = C delta^r.
    proved : bool
        An exact identity was proved (order infinity).
    """

    deltas: Array
    distances: Array
    order: float
    error: float
    constant: float
    proved: bool = False

    @property
    def integer(self) -> int | None:
        """The integer within 0.1 of the order; None where the local slopes spread by over 0.25."""
        if not np.isfinite(self.order) or self.error > 0.25:
            return None
        nearest = round(self.order)
        return nearest if abs(self.order - nearest) <= 0.1 else None

    @property
    def rate(self) -> float:
        """Exponent of n that the order allows: -1/(2r)."""
        return -1.0 / (2.0 * self.order) if self.order != np.inf else 0.0

    def resolution(self, n: float, noise_sd: float = 0.1) -> float:
        """Return delta with n F(delta)^2 = 3.84 noise_sd^2, a convention for what n can resolve."""
        if self.order == np.inf:
            return np.inf
        return float((np.sqrt(3.84 / n) * noise_sd / self.constant) ** (1.0 / self.order))

    def __str__(self) -> str:
        if self.order == np.inf:
            return "order of contact infinite (identity proved): not identifiable"
        if np.isnan(self.order):
            return "distances vanish to rounding: give an identity to prove an infinite order"
        return f"order of contact {self.order:.2f} +- {self.error:.2f}, rate n^{self.rate:.3f}"


def contact_order(
    model, truth, coordinate=(0, 0, 0, 0), split: bool = True, deltas=DELTAS, nodes: int = 20,
    identity=None,
) -> Contact:  # fmt: skip
    """Return the order of contact of a truth along one coordinate.

    Parameters
    ----------
    model : object
        With ``predict(G, X)`` and ``jacobian(G, X)``, as the models of the library.
    truth : HierarchicalMeasure
        The truth.
    coordinate : tuple
        (h, i, k, p) or ("a", h, i, k, p) for a[h, i, k, p]; ("M", h, i, p, q) for a free entry of
        M[h, i]; ("omega", h, k) for the weight of a channel.
    split : bool, default True
        Fit the channel (h, k) by two of equal weight (k = 0 for M); a coordinate of a is held
        at +delta in one and -delta in the other, any other at +delta. False: fit it once.
    deltas : sequence of float
        Displacements, at least four.
    nodes : int, default 20
        Quadrature nodes an axis.
    identity : Identity, optional
        A proved identity, from :func:`prove_identity`: only with one is the order infinite.

    Examples
    --------
    >>> from hmoe_lib import HierarchicalMeasure, ValueGated
    >>> G = HierarchicalMeasure([[2.0]], [[[[1.0]], [[0.0]]]], [[[[1.5]], [[-1.0]]]])
    >>> contact_order(ValueGated("tanh", bias=1.0), G).integer
    2
    >>> contact_order(ValueGated("tanh", bias=1.0), G, split=False).integer
    1
    """
    deltas = np.sort(np.asarray(deltas, dtype=float))[::-1]
    if len(deltas) < 4 or deltas[-1] <= 0:
        raise ValueError("deltas: expected at least four positive numbers")
    setting = _Profile(model, truth, coordinate, split, *cube_rule(truth.dim, nodes))
    distances = setting.distances(deltas)
    if identity is not None and not identity.proved:
        raise ValueError("identity: it was not proved")
    if identity is not None and not (distances > FLOOR * setting.scale).any():
        return Contact(deltas, distances, np.inf, 0.0, 0.0, proved=True)
    return judged(deltas, distances, setting.scale)


def _fit(deltas: Array, distances: Array) -> tuple[float, float, float]:
    """Slope at the smaller half of the displacements, spread of its local slopes, constant."""
    x, y = np.log(deltas), np.log(distances)
    half = max(4, (len(x) + 1) // 2)
    slope, intercept = np.polyfit(x[-half:], y[-half:], 1)
    local = np.diff(y[-half:]) / np.diff(x[-half:])
    return float(slope), float(np.max(np.abs(local - slope))), float(np.exp(intercept))


def _checked(truth, coordinate) -> tuple[str, tuple[int, ...]]:
    """The name of a coordinate and its place, within the sizes of the truth."""
    places = tuple(coordinate)
    name, places = (places[0], places[1:]) if isinstance(places[0], str) else ("a", places)
    H, N, K, d = truth.shape
    sizes = {"a": (H, N, K, d), "M": (H, N - 1, d, d), "omega": (H, K)}.get(name)
    if sizes is None or len(places) != len(sizes):
        raise ValueError(f"coordinate: expected a (h, i, k, p), M or omega, got {coordinate!r}")
    if any(not 0 <= c < size for c, size in zip(places, sizes, strict=True)):
        raise ValueError(f"coordinate: expected {name} within {sizes}, got {places}")
    return name, places


def profile(smallest, zero: Array, deltas: Array) -> Array:
    """Smallest distances by ``smallest(delta, starts)``, with a start from the one before."""
    found, previous = [], zero
    for j, delta in enumerate(deltas):
        ratio = (delta / deltas[j - 1]) ** 2 if j else 0.0
        distance, previous = smallest(delta, [zero, ratio * previous])
        found.append(distance)
    return np.array(found)


def judged(deltas: Array, distances: Array, scale: float) -> Contact:
    """Fit the order to the distances that are more than rounding."""
    known = distances > FLOOR * scale
    if known.sum() < 4:
        return Contact(deltas, distances, np.nan, np.nan, np.nan)
    return Contact(deltas, distances, *_fit(deltas[known], distances[known]))


class _Profile:
    """The distance as a function of the parameters left free, and its minimisation."""

    def __init__(self, model, truth, coordinate, split: bool, X: Array, w: Array) -> None:
        name, place = _checked(truth, coordinate)
        self.model, self.X, self.root = model, X, np.sqrt(w)
        self.target = model.predict(truth, X)
        self.scale = float(np.linalg.norm(self.root * self.target)) or 1.0
        h, k = place[0], {"a": place[-2], "M": 0, "omega": place[-1]}[name]
        omega, a = (np.array(v) for v in (truth.omega, truth.a))
        if split:
            omega = np.concatenate([omega, np.zeros((len(omega), 1))], axis=1)
            a = np.concatenate([a, a[:, :, k : k + 1]], axis=2)
            omega[h, k] /= 2
            omega[h, -1] = omega[h, k]
        self.measure = type(truth)(omega, truth.M, a, signed=True)
        shape = self.measure.shape
        at_M, at_a, at_omega = shape.split(np.arange(shape.size))
        self.signs = np.array([1.0])
        if name == "a":
            self.held = [at_a[place]]
            if split:
                self.held.append(at_a[h, place[1], -1, place[3]])
                self.signs = np.array([1.0, -1.0])
        elif name == "M":
            p, q = np.triu_indices(shape.dim)
            entry = int(np.flatnonzero((p == min(place[2:])) & (q == max(place[2:])))[0])
            self.held = [at_M[h, place[1], entry]]
        else:
            self.held = [at_omega[h, k]]
        self.pair = [at_a[h, :, k].ravel(), at_a[h, :, -1].ravel()] if split else None
        self.spread = self._free(at_a, at_omega, (h, k), split)

    def _free(self, at_a, at_omega, channel, split: bool) -> Array:
        """Matrix from the free parameters to all: pair weights tied, idle channels fixed."""
        size = self.measure.shape.size
        fixed = set(self.held)
        if split:
            h, k = channel
            idle = [other for other in range(len(at_omega)) if other != h]
            fixed |= {*at_omega[idle, -1].ravel(), *at_a[idle, :, -1].ravel(), at_omega[h, -1]}
        columns = [c for c in range(size) if c not in fixed]
        B = np.eye(size)[:, columns]
        if split:
            B[at_omega[h, -1]] = B[at_omega[h, k]]
        return B

    def distances(self, deltas: Array) -> Array:
        """Smallest distance found at each displacement, largest first, warm starts included."""
        theta0 = self.measure.to_vector()

        def smallest(delta: float, starts: list[Array]) -> tuple[float, Array]:
            base = theta0.copy()
            base[self.held] += delta * self.signs
            starts = [*starts, *self._apart(delta)]
            return min((self._minimise(base, s) for s in starts), key=lambda r: r[0])

        return profile(smallest, np.zeros(self.spread.shape[1]), deltas)

    def _apart(self, delta: float) -> list[Array]:
        """Starts with the pair pulled apart by sqrt(delta): from equal atoms no gradient would."""
        if self.pair is None or len(self.held) == 2:
            return []
        starts = []
        for c in range(len(self.pair[0])):
            move = np.zeros(len(self.spread))
            move[self.pair[0][c]], move[self.pair[1][c]] = np.sqrt(delta), -np.sqrt(delta)
            starts.append(self.spread.T @ move)
        return starts

    def _minimise(self, base: Array, free: Array) -> tuple[float, Array]:
        def measure(free: Array):
            return self.measure.from_vector(base + self.spread @ free)

        def residual(free: Array) -> Array:
            return self.root * (self.model.predict(measure(free), self.X) - self.target)

        def jacobian(free: Array) -> Array:
            J = self.model.jacobian(measure(free), self.X)
            return self.root[:, None] * (J @ self.spread)

        return descend(residual, jacobian, free, self.scale)


def descend(residual, jacobian, free: Array, scale: float) -> tuple[float, Array]:
    """Levenberg-Marquardt on an orthogonal factor: the normal equations would lose digits."""
    damping = 1e-3
    r = residual(free)
    for _ in range(STEPS):
        U, s, Vt = np.linalg.svd(jacobian(free), full_matrices=False)
        projected, size, improved = U.T @ r, r @ r, False
        for _ in range(12):
            step = -Vt.T @ (s / (s**2 + damping * s[0] ** 2) * projected)
            r_new = residual(free + step)
            if r_new @ r_new < size:
                free, r, improved = free + step, r_new, True
                damping = max(damping / 8, 1e-18)
                break
            damping = min(damping * 5, 1e6)
        if not improved or size - r @ r < 1e-10 * size or r @ r < (1e-15 * scale) ** 2:
            break
    return float(np.linalg.norm(r)), free
