r"""The three regression models: plain attention, a gate after the values, a gate after the output.

Each model is one formula for one block of samples, with its derivatives written out; everything
else (checks, loops over blocks, sampling) is shared. Inside a block, arrays are features first:
scores and gates (H, N, B), experts (H, N, K, B), channels (H, K, B).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hmoe_lib.activations import Activation, activation
from hmoe_lib.blocks import Block, Samples
from hmoe_lib.measures import HierarchicalMeasure, Shape

Array = np.ndarray

__all__ = ["HierarchicalModel", "Mha", "NormalEquations", "OutputGated", "ValueGated"]


class NormalEquations(NamedTuple):
    """Least squares at one parameter: mean squared residual, J^T r / n and J^T J / n."""

    loss: float
    gradient: Array
    gram: Array


class HierarchicalModel:
    """What the three models share; use :class:`Mha`, :class:`ValueGated`, :class:`OutputGated`."""

    # ---- for readers: measures in, arrays out ------------------------------------------------

    def predict(self, G: HierarchicalMeasure, X) -> Array:
        """Return the regression function at every row of X, shape (n,)."""
        samples = _matching(G, Samples(X))
        parts = G.shape.split(G.to_vector())
        return np.concatenate([self._value(parts, block) for block in samples])

    def components(self, G: HierarchicalMeasure, X) -> Array:
        """Return the channel functions f^{h,k} at every row of X, shape (n, H, K)."""
        samples = _matching(G, Samples(X))
        parts = G.shape.split(G.to_vector())
        return np.concatenate([self._channels(parts, b).transpose(2, 0, 1) for b in samples])

    def jacobian(self, G: HierarchicalMeasure, X) -> Array:
        """Return the derivatives of predict in the order of G.to_vector(), shape (n, p)."""
        samples = _matching(G, Samples(X))
        parts = G.shape.split(G.to_vector())
        return np.concatenate([self._jacobian(parts, block)[1].T for block in samples])

    def sample(
        self, G: HierarchicalMeasure, n: int, noise_sd: float = 0.1, *, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Draw X uniform on [-1, 1]^d and y = predict(G, X) + Gaussian noise.

        Parameters
        ----------
        G : HierarchicalMeasure
            The truth.
        n : int
            Number of samples, at least 1.
        noise_sd : float, default 0.1
            Standard deviation of the noise, at least 0.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        X : ndarray, shape (n, d)
        y : ndarray, shape (n,)
        """
        if not isinstance(rng, np.random.Generator):
            raise ValueError(f"rng: expected a numpy Generator, got {type(rng).__name__}")
        if int(n) != n or n < 1:
            raise ValueError(f"n: expected an integer >= 1, got {n!r}")
        if not (np.isfinite(noise_sd) and noise_sd >= 0):
            raise ValueError(f"noise_sd: expected a finite number >= 0, got {noise_sd!r}")
        X = rng.uniform(-1.0, 1.0, size=(int(n), G.dim))
        return X, self.predict(G, X) + noise_sd * rng.standard_normal(int(n))

    def loss_and_gradient(self, G: HierarchicalMeasure, X, y) -> tuple[float, Array]:
        """Return the mean squared residual and its gradient in the order of G.to_vector()."""
        samples = _matching(G, Samples(X, y))
        return self.loss_and_gradient_at(G.to_vector(), G.shape, samples)

    def normal_equations(self, G: HierarchicalMeasure, X, y) -> NormalEquations:
        """Return the mean squared residual, J^T r / n and J^T J / n."""
        samples = _matching(G, Samples(X, y))
        return self.normal_equations_at(G.to_vector(), G.shape, samples)

    # ---- for estimators: parameter vectors, samples already checked --------------------------

    def loss_at(self, theta: Array, shape: Shape, samples: Samples) -> float:
        """Return the mean squared residual at a parameter vector."""
        parts = shape.split(theta)
        total = 0.0
        for block in samples:
            r = self._value(parts, block) - block.y
            total += r @ r
        return total / len(samples)

    def loss_and_gradient_at(
        self, theta: Array, shape: Shape, samples: Samples
    ) -> tuple[float, Array]:
        """Return the mean squared residual and its gradient at a parameter vector."""
        parts = shape.split(theta)
        total, gradient = 0.0, np.zeros(shape.size)
        pieces = shape.split(gradient)
        for block in samples:
            total += self._add_gradient(parts, block, pieces)
        return total / len(samples), gradient * (2.0 / len(samples))

    def normal_equations_at(self, theta: Array, shape: Shape, samples: Samples) -> NormalEquations:
        """Return the normal equations at a parameter vector."""
        parts = shape.split(theta)
        total, gradient, gram = 0.0, np.zeros(shape.size), np.zeros((shape.size, shape.size))
        for block in samples:
            f, J = self._jacobian(parts, block)
            r = f - block.y
            total += r @ r
            gradient += J @ r
            gram += J @ J.T
        return NormalEquations(total / len(samples), gradient / len(samples), gram / len(samples))

    # ---- one formula a model -----------------------------------------------------------------

    def _channels(self, parts, block: Block) -> Array:
        """Channel functions, (H, K, B)."""
        raise NotImplementedError

    def _value(self, parts, block: Block) -> Array:
        """The regression function, (B,)."""
        return np.tensordot(parts[2], self._channels(parts, block), 2)

    def _add_gradient(self, parts, block: Block, pieces) -> float:
        """Add sum_b r_b df/dtheta to the pieces (M, a, omega); return sum_b r_b^2."""
        raise NotImplementedError

    def _jacobian(self, parts, block: Block) -> tuple[Array, Array]:
        """The regression function (B,) and its derivatives (p, B)."""
        raise NotImplementedError


class Mha(HierarchicalModel):
    r"""Plain multi-head attention as a regression model, linear experts.

    Notes
    -----
    .. math::
        f_G(x) = \sum_{h,k} \omega_{h,k} \sum_i s_{h,i}(x)\, a_{h,i,k}^\top x, \qquad
        s_{h,i}(x) = \mathrm{softmax}_i(x^\top M_{h,i} x).

    With :math:`c_{h,i} = \sum_k \omega_{h,k} a_{h,i,k}` it is
    :math:`\sum_{h,i} s_{h,i}\, c_{h,i}^\top x`: no sum over channels is needed to predict, and
    none can be seen in the data.

    References
    ----------
    Model (2) of the paper.

    Examples
    --------
    >>> G = HierarchicalMeasure([[2.0]], [[[[0.0]], [[0.0]]]], [[[[1.0]], [[3.0]]]])
    >>> Mha().predict(G, [[1.0], [-0.5]])
    array([ 4., -2.])
    """

    def _channels(self, parts, block: Block) -> Array:
        M, a, _ = parts
        return np.einsum("hnb,hnkb->hkb", _gates(M, block.q), a @ block.x)

    def _value(self, parts, block: Block) -> Array:
        s, v, _ = _collapsed(parts, block)
        return np.einsum("hnb,hnb->b", s, v)

    def _add_gradient(self, parts, block: Block, pieces) -> float:
        _, a, omega = parts
        s, v, f_h = _collapsed(parts, block)
        r = f_h.sum(0) - block.y
        s *= r
        moment = s @ block.x.T  # (H, N, d): sum_b r s_{h,i} x
        pieces[0][...] += (s * (v - f_h[:, None]))[:, :-1] @ block.q.T
        pieces[1][...] += omega[:, None, :, None] * moment[:, :, None, :]
        pieces[2][...] += np.einsum("hnkd,hnd->hk", a, moment)
        return r @ r

    def _jacobian(self, parts, block: Block) -> tuple[Array, Array]:
        f, features = self._features(parts, block)
        return f, _spread(parts) @ features

    def normal_equations_at(self, theta: Array, shape: Shape, samples: Samples) -> NormalEquations:
        """Return the normal equations, summed over the few features that f depends on.

        Every derivative is a fixed combination of the s_{h,i} x and s_{h,i} (v_i - f_h) q: the
        p x p sums follow from those of the features, far fewer than p.
        """
        parts = shape.split(theta)
        B = _spread(parts)
        total, gradient, gram = 0.0, np.zeros(B.shape[1]), np.zeros((B.shape[1],) * 2)
        for block in samples:
            f, features = self._features(parts, block)
            r = f - block.y
            total += r @ r
            gradient += features @ r
            gram += features @ features.T
        n = len(samples)
        return NormalEquations(total / n, B @ gradient / n, B @ gram @ B.T / n)

    @staticmethod
    def _features(parts, block: Block) -> tuple[Array, Array]:
        s, v, f_h = _collapsed(parts, block)
        gate = (s * (v - f_h[:, None]))[:, :-1, None] * block.q
        expert = s[:, :, None] * block.x
        width = block.x.shape[1]
        return f_h.sum(0), np.concatenate([gate.reshape(-1, width), expert.reshape(-1, width)])


class ValueGated(HierarchicalModel):
    r"""Setting I: an activation after the values (position G2).

    Parameters
    ----------
    phi : str or Activation
        Activation.
    bias : float, optional
        b in phi(z + b).

    Notes
    -----
    .. math:: g_G(x) = \sum_{h,k} \omega_{h,k} \sum_i s_{h,i}(x)\, \varphi(a_{h,i,k}^\top x).

    References
    ----------
    Model (9) of the paper.

    Examples
    --------
    >>> G = HierarchicalMeasure([[2.0]], [[[[0.0]], [[0.0]]]], [[[[1.0]], [[1.0]]]])
    >>> ValueGated("power2").predict(G, [[1.0], [-0.5]])
    array([2. , 0.5])
    """

    def __init__(self, phi: str | Activation = "sigmoid", bias: float | None = None) -> None:
        self.phi = activation(phi, bias)

    def _channels(self, parts, block: Block) -> Array:
        M, a, _ = parts
        return np.einsum("hnb,hnkb->hkb", _gates(M, block.q), self.phi(a @ block.x))

    def _value(self, parts, block: Block) -> Array:
        M, a, omega = parts
        f_i = (omega[:, None, None] @ self.phi(a @ block.x))[:, :, 0]
        return np.einsum("hnb,hnb->b", _gates(M, block.q), f_i)

    def _add_gradient(self, parts, block: Block, pieces) -> float:
        M, a, omega = parts
        s = _gates(M, block.q)
        E, D = self.phi.value_and_first(a @ block.x)  # (H, N, K, B)
        f_i = (omega[:, None, None] @ E)[:, :, 0]  # (H, N, B)
        f_h = np.einsum("hnb,hnb->hb", s, f_i)
        r = f_h.sum(0) - block.y
        s *= r
        pieces[0][...] += (s * (f_i - f_h[:, None]))[:, :-1] @ block.q.T
        weighted = s[:, :, None] * block.x  # (H, N, d, B)
        pieces[1][...] += omega[:, None, :, None] * (D @ weighted.swapaxes(-1, -2))
        pieces[2][...] += (E @ s[..., None])[..., 0].sum(1)
        return r @ r

    def _jacobian(self, parts, block: Block) -> tuple[Array, Array]:
        M, a, omega = parts
        s = _gates(M, block.q)
        E, D = self.phi.value_and_first(a @ block.x)
        f_i = (omega[:, None, None] @ E)[:, :, 0]
        f_h = np.einsum("hnb,hnb->hb", s, f_i)
        D *= s[:, :, None]
        D *= omega[:, None, :, None]
        J, (J_M, J_a, J_omega) = _empty_jacobian(parts, block)
        np.multiply((s * (f_i - f_h[:, None]))[:, :-1, None], block.q, out=J_M)
        np.multiply(D[:, :, :, None], block.x, out=J_a)
        np.einsum("hnb,hnkb->hkb", s, E, out=J_omega)
        return f_h.sum(0), J


class OutputGated(HierarchicalModel):
    r"""Setting II: an activation after the output of the scaled dot product (position G1).

    Parameters
    ----------
    phi : str or Activation
        Activation.
    bias : float, optional
        b in phi(z + b).

    Notes
    -----
    .. math:: g_G(x) = \sum_{h,k} \omega_{h,k}\,
        \varphi\Bigl(\sum_i s_{h,i}(x)\, a_{h,i,k}^\top x\Bigr).

    ``components`` returns the inner sums f^{h,k}: the paper's cells compare those.

    References
    ----------
    Model (12) of the paper.

    Examples
    --------
    >>> G = HierarchicalMeasure([[2.0]], [[[[0.0]], [[0.0]]]], [[[[1.0]], [[3.0]]]])
    >>> OutputGated("power2").predict(G, [[1.0], [-0.5]])
    array([8., 2.])
    """

    def __init__(self, phi: str | Activation = "sigmoid", bias: float | None = None) -> None:
        self.phi = activation(phi, bias)

    def _channels(self, parts, block: Block) -> Array:
        M, a, _ = parts
        return np.einsum("hnb,hnkb->hkb", _gates(M, block.q), a @ block.x)

    def _value(self, parts, block: Block) -> Array:
        return np.tensordot(parts[2], self.phi(self._channels(parts, block)), 2)

    def _add_gradient(self, parts, block: Block, pieces) -> float:
        M, a, omega = parts
        s = _gates(M, block.q)
        v = a @ block.x  # (H, N, K, B)
        F = np.einsum("hnb,hnkb->hkb", s, v)
        E, D = self.phi.value_and_first(F)
        r = np.tensordot(omega, E, 2) - block.y
        pieces[2][...] += E @ r
        D *= omega[:, :, None]
        D *= r
        pull = np.einsum("hkb,hnkb->hnb", D, v) - np.einsum("hkb,hkb->hb", D, F)[:, None]
        pieces[0][...] += (s * pull)[:, :-1] @ block.q.T
        weighted = s[:, :, None] * block.x  # (H, N, d, B)
        pieces[1][...] += D[:, None] @ weighted.swapaxes(-1, -2)
        return r @ r

    def _jacobian(self, parts, block: Block) -> tuple[Array, Array]:
        M, a, omega = parts
        s = _gates(M, block.q)
        v = a @ block.x
        F = np.einsum("hnb,hnkb->hkb", s, v)
        E, D = self.phi.value_and_first(F)
        D *= omega[:, :, None]
        J, (J_M, J_a, J_omega) = _empty_jacobian(parts, block)
        pull = np.einsum("hkb,hnkb->hnb", D, v) - np.einsum("hkb,hkb->hb", D, F)[:, None]
        np.multiply((s * pull)[:, :-1, None], block.q, out=J_M)
        np.multiply((s[:, :, None] * D[:, None])[:, :, :, None], block.x, out=J_a)
        J_omega[...] = E
        return np.tensordot(omega, E, 2), J


# ---- shared pieces of the formulas ---------------------------------------------------------------


def _gates(M: Array, q: Array) -> Array:
    """Softmax over the scores of the free experts and the pinned one's zero, (H, N, B)."""
    free = M @ q
    H, n_free, width = free.shape
    s = np.empty((H, n_free + 1, width))
    if n_free == 1:
        # Two experts: one exponential instead of two. exp(-z) = inf rightly gives a zero gate.
        with np.errstate(over="ignore"):
            np.exp(np.negative(free, out=free), out=free)
        free += 1.0
        np.divide(1.0, free, out=s[:, :1])
        np.subtract(1.0, s[:, :1], out=s[:, 1:])
        return s
    top = np.maximum(free.max(axis=1, initial=0.0), 0.0)
    np.exp(free - top[:, None], out=s[:, :-1])
    np.exp(-top, out=s[:, -1])
    s /= s.sum(axis=1, keepdims=True)
    return s


def _collapsed(parts, block: Block) -> tuple[Array, Array, Array]:
    """Gates (H, N, B), experts summed over channels c_{h,i}^T x (H, N, B), heads (H, B)."""
    M, a, omega = parts
    s = _gates(M, block.q)
    v = np.einsum("hk,hnkd->hnd", omega, a) @ block.x
    return s, v, np.einsum("hnb,hnb->hb", s, v)


def _spread(parts) -> Array:
    """Matrix (p, features) that turns derivatives in M and c into derivatives in (M, a, omega)."""
    M, a, omega = parts
    H, N, K, d = a.shape
    B = np.zeros((M.size + a.size + omega.size, M.size + H * N * d))
    B[: M.size, : M.size] = np.eye(M.size)
    for h, i, k in np.ndindex(H, N, K):
        column = M.size + (h * N + i) * d
        row = M.size + ((h * N + i) * K + k) * d
        B[row : row + d, column : column + d] = omega[h, k] * np.eye(d)
        B[M.size + a.size + h * K + k, column : column + d] = a[h, i, k]
    return B


def _empty_jacobian(parts, block: Block) -> tuple[Array, tuple[Array, ...]]:
    """Uninitialised (p, B) array and its views for M, a and omega."""
    width = block.x.shape[1]
    sizes = [part.size for part in parts]
    J = np.empty((sum(sizes), width))
    ends = np.cumsum(sizes)[:-1]
    views = np.split(J, ends)
    return J, tuple(
        view.reshape(*part.shape, width) for view, part in zip(views, parts, strict=True)
    )


def _matching(G: HierarchicalMeasure, samples: Samples) -> Samples:
    if not isinstance(G, HierarchicalMeasure):
        raise ValueError(f"G: expected a HierarchicalMeasure, got {type(G).__name__}")
    if samples.dim != G.dim:
        raise ValueError(f"X: expected shape (n, {G.dim}) for this measure, got {samples.X.shape}")
    return samples
