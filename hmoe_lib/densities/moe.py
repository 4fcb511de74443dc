"""Mixtures of experts as conditional densities: Gaussian and multinomial."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hmoe_lib.arguments import real_array
from hmoe_lib.blocks import BLOCK_SIZE
from hmoe_lib.densities.laws import Gaussian, Multinomial
from hmoe_lib.densities.terms import Expansion, Terms, expansion, log_density, responsibilities
from hmoe_lib.experts import Neuron, expert
from hmoe_lib.gates import Gate, Softmax, gate
from hmoe_lib.mixing import Layout, MixingMeasure

Array = np.ndarray

__all__ = ["GaussianMoE", "MixtureDensity", "MultinomialMoE", "coordinate_index"]


class MixtureDensity:
    """What the three densities share. Use one of them; arrays of data are samples first.

    A subclass says what a block of samples contributes (:meth:`terms`) and how to draw.
    """

    classes: int | None = None  # S where responses are classes

    def terms(self, layout: Layout, theta: Array, x: Array, y: Array) -> Terms:
        """Return the terms of a block, x features first (d, B), at a free vector."""
        raise NotImplementedError

    def levels(self, G: MixingMeasure, x: Array, y: Array) -> tuple[Array, Array]:
        """Return u and s of a block, without derivatives."""
        raise NotImplementedError

    def pinned(self, G: MixingMeasure) -> MixingMeasure:
        """Return the measure with the pins that this density needs."""
        raise NotImplementedError

    def expansion(self, G: MixingMeasure, X, y) -> Expansion:
        """Return the log-likelihood at G, its gradient and two curvatures; see Expansion."""
        X, y = self.check(G, X, y)
        return self.expansion_at(G.to_vector(), G.shape, X, y)

    def expansion_at(self, theta: Array, layout: Layout, X: Array, y: Array) -> Expansion:
        """Return the expansion at a free vector, for data that are checked already."""
        blocks = (self.terms(layout, theta, x, part) for x, part in _blocks(X, y))
        return expansion(blocks, layout.size)

    def log_density(self, G: MixingMeasure, X, y) -> Array:
        """Return log p(y | x) for every sample, (n,)."""
        X, y = self.check(G, X, y)
        parts = [log_density(*self.levels(G, x, part)) for x, part in _blocks(X, y)]
        return np.concatenate(parts)

    def responsibilities(self, G: MixingMeasure, X, y) -> tuple[Array, Array]:
        """Return who explains each sample and whom the gate expects there, both (n, k)."""
        X, y = self.check(G, X, y)
        parts = [responsibilities(*self.levels(G, x, part)) for x, part in _blocks(X, y)]
        r, pi = zip(*parts, strict=True)
        return np.concatenate(r, axis=1).T, np.concatenate(pi, axis=1).T

    def sample(self, G: MixingMeasure, X, *, rng: np.random.Generator) -> Array:
        """Draw one response for each row of X, (n,)."""
        X, _ = self.check(G, X, None)
        return self._draw(G, np.ascontiguousarray(X.T), rng)

    def fisher_information(self, G: MixingMeasure, X, *, rng: np.random.Generator) -> Array:
        """Return the mean outer product of scores at G over X and one draw at each, (p, p)."""
        X, _ = self.check(G, X, None)
        y = self._draw(G, np.ascontiguousarray(X.T), rng)
        return self.expansion_at(G.to_vector(), G.shape, X, y).scores / len(X)

    def check(self, G: MixingMeasure, X, y) -> tuple[Array, Array | None]:
        """Return the data as float arrays (classes as integers), or say what is wrong."""
        if not isinstance(G, MixingMeasure):
            raise ValueError(f"G: expected a MixingMeasure, got {type(G).__name__}")
        X = real_array("X", X, "numbers of shape (n, d)")
        if X.ndim != 2 or 0 in X.shape:
            raise ValueError(f"X: expected shape (n, d), not empty, got {X.shape}")
        if not np.isfinite([X.min(), X.max()]).all():
            raise ValueError("X: expected finite numbers, got NaN or infinity")
        self._check_sizes(G, X.shape[1])
        if y is None:
            return X, None
        y = real_array("y", y, "numbers of shape (n,)")
        if y.shape != (len(X),):
            raise ValueError(f"y: expected shape ({len(X)},) to match X, got {y.shape}")
        if not np.isfinite([y.min(), y.max()]).all():
            raise ValueError("y: expected finite numbers, got NaN or infinity")
        if self.classes is None:
            return X, y
        whole = y.astype(int)
        if (whole != y).any() or whole.min() < 0 or whole.max() >= self.classes:
            raise ValueError(f"y: expected classes 0..{self.classes - 1}, got other numbers")
        return X, whole

    def _check_sizes(self, G: MixingMeasure, d: int) -> None:
        raise NotImplementedError

    def _draw(self, G: MixingMeasure, x: Array, rng: np.random.Generator) -> Array:
        raise NotImplementedError


class _GatedMoE(MixtureDensity):
    """A softmax gate over experts of one law."""

    def __init__(self, law, chosen: str | Gate) -> None:
        chosen = gate(chosen)
        if not isinstance(chosen, Softmax):
            raise ValueError(f"gate: expected a softmax gate, got {chosen!r}")
        self.law, self.gate = law, chosen

    def pinned(self, G: MixingMeasure) -> MixingMeasure:
        """Return the measure with the gate's pins."""
        return G.pinned_for(self.gate.pins(G.router))

    def terms(self, layout: Layout, theta: Array, x: Array, y: Array) -> Terms:
        """Return the terms of a block."""
        router, bias, eta, shared = layout.split(theta)[:4]
        score = self.gate.score
        z, D = score.derivatives(router, bias, shared, x)
        s = self._selected(z, bias)
        f, E, second = self.law.expand(eta, x, y)
        m, q = D.shape[1], D.shape[1] + E.shape[1]

        def curvature(r: Array, pi: Array) -> Array:
            H = np.zeros((len(r), q, q))
            H[:, m:, m:] = second(r)
            of_gate = score.second(router, bias, shared, x)
            if of_gate is not None:
                H[:, :m, :m] = np.einsum("kpqn,kn->kpq", of_gate, r - pi)
            return H

        J = np.concatenate([D, E], axis=1)
        return Terms(s + f, s, J, coordinate_index(layout), m, curvature)

    def levels(self, G: MixingMeasure, x: Array, y: Array) -> tuple[Array, Array]:
        """Return u and s of a block."""
        s = self.gate_scores(G, x)
        return s + self.law.log(G.expert, x, y), s

    def gate_scores(self, G: MixingMeasure, x: Array) -> Array:
        """Return the scores of the gate, minus infinity where an atom is not selected, (k, B)."""
        self.gate.score.check(G.router, G.shared, x)
        return self._selected(self.gate.score.value(G.router, G.bias, G.shared, x), G.bias)

    def _selected(self, z: Array, bias: Array) -> Array:
        # The literature selects by the router alone and adds biases afterwards: a copy of an
        # expert that carries half of its weight is then selected wherever the expert is.
        if self.gate.top is None or self.gate.top >= len(z):
            return z
        order = np.argsort(bias[:, None] - z, axis=0, kind="stable")[: self.gate.top]
        s = np.full_like(z, -np.inf)
        np.put_along_axis(s, order, np.take_along_axis(z, order, axis=0), axis=0)
        return s

    def _check_sizes(self, G: MixingMeasure, d: int) -> None:
        p, q, s = self.gate.score.router_size(d), self.law.size(d), self.gate.score.shared
        found = (G.router.shape[1], G.expert.shape[1], len(G.shared))
        if found != (p, q, s):
            raise ValueError(
                f"G: expected router (k, {p}), expert (k, {q}) and {s} shared parameters for "
                f"d = {d} inputs, got {found[0]}, {found[1]} and {found[2]}"
            )
        self.gate.check(G.atoms)

    def _draw(self, G: MixingMeasure, x: Array, rng: np.random.Generator) -> Array:
        _, pi = responsibilities(s := self.gate_scores(G, x), s)
        below = np.cumsum(pi, axis=0)[:-1]
        # One uniform number a sample, kept off 1.0, which a rounded cumulative sum may not reach.
        who = (rng.random(x.shape[1]) > below).sum(axis=0)
        return self.law.draw(G.expert, x, rng)[who, np.arange(x.shape[1])]


class GaussianMoE(_GatedMoE):
    r"""Softmax-gated mixture of normal experts.

    Parameters
    ----------
    gate : str or Gate, default "linear"
        A softmax gate; with ``top`` the K largest of the scores without bias are kept.
    mean : str or Neuron, default "affine"
        The experts' means.

    Notes
    -----
    .. math:: p_G(y \mid x) = \sum_i \mathrm{softmax}_i(z(x))\, N(y \mid h(x, \eta_i), \nu_i)

    An expert row of G is the parameters of the mean, then :math:`\log \nu_i`.

    References
    ----------
    arXiv 2309.13850 (top-K), 2401.13875 (temperature).

    Examples
    --------
    >>> G = MixingMeasure([[2.0], [0.0]], [0.0, 0.0], [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    >>> GaussianMoE().log_density(G, [[0.0]], [0.0]).round(6)
    array([-0.918939])
    """

    def __init__(self, gate: str | Gate = "linear", mean: str | Neuron = "affine") -> None:
        super().__init__(Gaussian(expert(mean)), gate)

    def mean(self, G: MixingMeasure, X) -> Array:
        """Return E[y | x], (n,)."""
        X, _ = self.check(G, X, None)
        x = X.T
        _, pi = responsibilities(s := self.gate_scores(G, x), s)
        return np.sum(pi * self.law.mean.value(G.expert[:, :-1], x), axis=0)


class MultinomialMoE(_GatedMoE):
    r"""Softmax-gated mixture of multinomial logistic experts.

    Parameters
    ----------
    classes : int
        S >= 2; responses are 0..S-1, the last class has slope and intercept 0 in every expert.
    gate : str or Gate, default "linear"
        A softmax gate.

    Notes
    -----
    .. math:: p_G(s \mid x) = \sum_i \mathrm{softmax}_i(z(x))\,
        \mathrm{softmax}_s(d_{is}^\top x + l_{is})

    An expert row of G is (d_1, l_1), ..., (d_{S-1}, l_{S-1}).

    References
    ----------
    arXiv 2310.14188.

    Examples
    --------
    >>> G = MixingMeasure([[2.0], [0.0]], [0.0, 0.0], [[0.0, 1.0], [0.0, -1.0]])
    >>> MultinomialMoE(2).probabilities(G, [[0.0]])
    array([[0.5, 0.5]])
    """

    def __init__(self, classes: int, gate: str | Gate = "linear") -> None:
        whole = isinstance(classes, int | np.integer) and not isinstance(classes, bool)
        if not (whole and classes >= 2):
            raise ValueError(f"classes: expected an integer >= 2, got {classes!r}")
        self.classes = int(classes)
        super().__init__(Multinomial(self.classes), gate)

    def probabilities(self, G: MixingMeasure, X) -> Array:
        """Return p(s | x), (n, S)."""
        X, _ = self.check(G, X, None)
        x = X.T
        _, pi = responsibilities(s := self.gate_scores(G, x), s)
        return np.einsum("kn,ksn->ns", pi, np.exp(self.law.log_probabilities(G.expert, x)))


def coordinate_index(layout: Layout) -> Array:
    """Positions of each atom's coordinates in the free vector, p where pinned, (k, m + q)."""
    position = np.full(len(layout.values), layout.size)
    position[layout.free] = np.arange(layout.size)
    router, bias, eta, shared = layout.blocks(position)
    shared = np.broadcast_to(shared, (layout.atoms, len(shared)))
    return np.concatenate([router, bias[:, None], shared, eta], axis=1)


def _blocks(X: Array, y: Array) -> Iterator[tuple[Array, Array]]:
    for begin in range(0, len(X), BLOCK_SIZE):
        part = slice(begin, begin + BLOCK_SIZE)
        yield np.ascontiguousarray(X[part].T), y[part]
