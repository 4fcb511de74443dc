r"""Scores of a gate: one formula :math:`z_i(x)` each, with its derivatives.

An atom i has a router vector, a bias and, with all others, shared parameters (a temperature).
Arrays are features first: inputs (d, n), scores (k, n).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hmoe_lib.activations import Activation, activation
from hmoe_lib.arguments import number

Array = np.ndarray

__all__ = ["Cosine", "Linear", "Monomial", "Polynomial", "Score", "Temperature", "Transformed"]


class Score:
    """What the score formulas share; an atom's parameters are (router (p,), bias, shared (s,))."""

    shared = 0

    def router_size(self, d: int) -> int:
        """Return p, the entries of a router vector for inputs with d entries."""
        return d

    def check(self, router: Array, shared: Array, x: Array) -> None:
        """Refuse parameters or inputs at which the score is not defined."""

    def pins(self, router: Array) -> tuple[Array, Array, Array]:
        """Return masks of the entries that a softmax of these scores needs pinned, at 0."""
        pinned = np.zeros(router.shape, bool)
        pinned[-1] = True
        return pinned, np.arange(len(router)) == len(router) - 1, np.zeros(self.shared, bool)

    def value(self, router: Array, bias: Array, shared: Array, x: Array) -> Array:
        """Return the scores z, (k, n)."""
        raise NotImplementedError

    def derivatives(self, router: Array, bias: Array, shared: Array, x: Array):
        """Return z (k, n) and its derivatives in (router, bias, shared), (k, p + 1 + s, n)."""
        raise NotImplementedError

    def second(self, router: Array, bias: Array, shared: Array, x: Array) -> Array | None:
        """Return the second derivatives, (k, p + 1 + s, p + 1 + s, n), or None if all are zero."""
        return None


@dataclass(frozen=True)
class Linear(Score):
    r""":math:`z_i = \beta_i^\top x + b_i`; shift invariant in router and bias."""

    def features(self, x: Array) -> Array:
        """Return what the router vector is multiplied with, (p, n)."""
        return x

    def value(self, router, bias, shared, x):
        """Return the scores z, (k, n)."""
        return router @ self.features(x) + bias[:, None]

    def derivatives(self, router, bias, shared, x):
        """Return z and the features with a row of ones, the same for every atom."""
        phi = self.features(x)
        D = np.ones((len(router), len(phi) + 1, x.shape[1]))
        D[:, :-1] = phi
        return router @ phi + bias[:, None], D


@dataclass(frozen=True)
class Monomial(Linear):
    r""":math:`z_i = x^\top A_i x + b_i`; the router is the upper triangle of a symmetric A_i."""

    def router_size(self, d: int) -> int:
        """Return d(d+1)/2."""
        return d * (d + 1) // 2

    def features(self, x: Array) -> Array:
        """Return x_p^2 and, off the diagonal, 2 x_p x_q."""
        p, q = np.triu_indices(len(x))
        return np.where(p == q, 1.0, 2.0)[:, None] * x[p] * x[q]


@dataclass(frozen=True)
class Polynomial(Monomial):
    r""":math:`z_i = x^\top A_i x + B_i^\top x + b_i`; the router is A_i's triangle, then B_i."""

    def router_size(self, d: int) -> int:
        """Return d(d+1)/2 + d."""
        return super().router_size(d) + d

    def features(self, x: Array) -> Array:
        """Return the quadratic features, then x."""
        return np.concatenate([super().features(x), x])


@dataclass(frozen=True)
class Transformed(Linear):
    r""":math:`z_i = \beta_i^\top m(x) + b_i`, an activation on every entry of the input."""

    m: Activation = field(default_factory=lambda: activation("tanh"))

    def features(self, x: Array) -> Array:
        """Return m(x)."""
        return self.m(x)


@dataclass(frozen=True)
class Cosine(Score):
    r"""The cosine of router and input, perturbed if a tau is positive.

    Parameters
    ----------
    tau : float, default 0
        Added to the norm of the router vector, at least 0.
    tau_x : float, optional
        Added to the norm of the input; by default tau.
    temperature : float, default 1
        T > 0, known.
    pin_norms : bool, default False
        Let :meth:`pins` hold the largest entry of every router vector: a chart of directions.

    Notes
    -----
    .. math:: z_i = \frac1T \frac{\beta_i^\top x}{(\|\beta_i\| + \tau)(\|x\| + \tau_x)} + b_i

    With tau = 0 the norm of a router vector has no influence, and a zero vector no direction: by
    convention its score is then b_i, and :meth:`pins` pins it as the reference. With tau > 0 the
    map :math:`\beta \mapsto \beta/(\|\beta\| + \tau)` is a bijection onto the unit ball, where a
    common shift changes no softmax: the last router vector is pinned.
    """

    tau: float = 0.0
    tau_x: float | None = None
    temperature: float = 1.0
    pin_norms: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", number("tau", self.tau, least=0.0))
        tau_x = self.tau if self.tau_x is None else number("tau_x", self.tau_x, least=0.0)
        object.__setattr__(self, "tau_x", tau_x)
        object.__setattr__(self, "temperature", number("temperature", self.temperature, above=0.0))

    def check(self, router: Array, shared: Array, x: Array) -> None:
        """Refuse zero vectors where they have no cosine; a zero last router is the reference."""
        if self.tau_x == 0 and (zero := ~x.any(axis=0)).any():
            raise ValueError(
                f"X: expected rows other than zero, row {int(np.argmax(zero))} has no cosine; "
                "tau_x > 0 gives it one"
            )
        if self.tau == 0 and (zero := ~router[:-1].any(axis=1)).any():
            raise ValueError(
                f"router: expected vectors other than zero, atom {int(np.argmax(zero))} has no "
                "cosine; tau > 0 gives it one"
            )

    def pins(self, router: Array) -> tuple[Array, Array, Array]:
        """Pin the last bias; the last router if tau > 0 or if it is zero; norms on demand."""
        pinned, bias, shared = super().pins(router)
        if self.tau == 0:
            pinned = np.broadcast_to(~router.any(axis=1)[:, None], router.shape).copy()
            if self.pin_norms:
                pinned[np.arange(len(router)), np.abs(router).argmax(axis=1)] = True
        return pinned, bias, shared

    def value(self, router, bias, shared, x):
        """Return the scores z, (k, n)."""
        _, over = self._norms(router)
        return (router * over[:, None]) @ self._direction(x) + bias[:, None]

    def derivatives(self, router, bias, shared, x):
        """Return z and its derivatives; the radial one is tau s / (norm + tau) / norm."""
        r, over = self._norms(router)
        xi = self._direction(x)
        D = np.ones((len(router), len(xi) + 1, x.shape[1]))
        m = router @ xi
        D[:, :-1] = over[:, None, None] * xi
        D[:, :-1] -= (router * (over**2 * _inverse(r))[:, None])[:, :, None] * m[:, None]
        return over[:, None] * m + bias[:, None], D

    def second(self, router, bias, shared, x):
        """Return the second derivatives; the bias enters linearly."""
        r, over = self._norms(router)
        xi = self._direction(x)
        m, d = (router @ xi)[:, None, None], len(xi)
        S = np.zeros((len(router), d + 1, d + 1, x.shape[1]))
        g = (over**2 * _inverse(r))[:, None, None, None]
        mixed = router[:, :, None, None] * xi
        S[:, :d, :d] = -g * (mixed + mixed.swapaxes(1, 2) + np.eye(d)[..., None] * m)
        radial = (3 * r + self.tau) * _inverse(r) ** 3 * over**3
        S[:, :d, :d] += (
            radial[:, None, None, None] * m * np.einsum("ip,iq->ipq", router, router)[..., None]
        )
        return S

    def _norms(self, router: Array) -> tuple[Array, Array]:
        """Norms r (k,) and 1 / (r + tau), zero for the zero vector of the vanilla cosine."""
        r = np.linalg.norm(router, axis=1)
        return r, _inverse(r + self.tau)

    def _direction(self, x: Array) -> Array:
        return x / (self.temperature * (np.linalg.norm(x, axis=0) + self.tau_x))


@dataclass(frozen=True)
class Temperature(Score):
    r"""Scores divided by a shared temperature, the dense-to-sparse gate.

    Parameters
    ----------
    phi : Activation, optional
        Acts on the linear score first: the activated dense-to-sparse gate.

    Notes
    -----
    .. math:: z_i = (\varphi(\beta_i^\top x) + b_i) / \tau , \qquad \tau > 0

    Without phi the scaling of (router, bias, tau) is exact, and nothing but pinning tau repairs
    it; :meth:`pins` leaves tau free, as the literature does. With phi a common shift of the router
    vectors is not exact any more, so only the last bias is pinned.
    """

    phi: Activation | None = None
    shared = 1

    def check(self, router: Array, shared: Array, x: Array) -> None:
        """Refuse a temperature that is not positive."""
        if shared[0] <= 0:
            raise ValueError(f"shared: expected a temperature > 0, got {shared[0]:g}")

    def pins(self, router: Array) -> tuple[Array, Array, Array]:
        """Pin the last bias, and the last router where the score is linear in it."""
        pinned, bias, shared = super().pins(router)
        return pinned & (self.phi is None), bias, shared

    def value(self, router, bias, shared, x):
        """Return the scores z, (k, n)."""
        u = router @ x
        return ((u if self.phi is None else self.phi(u)) + bias[:, None]) / shared[0]

    def derivatives(self, router, bias, shared, x):
        """Return z and its derivatives, the last in tau."""
        u, tau = router @ x, shared[0]
        slope = 1.0 if self.phi is None else self.phi.first_derivative(u)[:, None]
        z = ((u if self.phi is None else self.phi(u)) + bias[:, None]) / tau
        D = np.empty((len(router), len(x) + 2, x.shape[1]))
        D[:, :-2], D[:, -2], D[:, -1] = slope * x / tau, 1.0 / tau, -z / tau
        return z, D

    def second(self, router, bias, shared, x):
        """Return the second derivatives; those in tau do not vanish."""
        z, D = self.derivatives(router, bias, shared, x)
        S = np.zeros((len(router), D.shape[1], *D.shape[1:]))
        S[:, -1] = S[:, :, -1] = -D / shared[0]
        S[:, -1, -1] = 2.0 * z / shared[0] ** 2
        if self.phi is not None:
            curve = self.phi.second_derivative(router @ x) / shared[0]
            S[:, :-2, :-2] = curve[:, None, None] * (x[:, None] * x)
        return S


def _inverse(r: Array) -> Array:
    return np.divide(1.0, r, out=np.zeros_like(r), where=r > 0)
