r"""Expert means of a flat mixture: a neuron of any activation, with two derivatives.

An expert with a linear, a polynomial or no bias is a neuron too: identity, power, ``bias=False``.
Arrays are features first: inputs (d, n), values (k, n).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from hmoe_lib.activations import Activation, activation

Array = np.ndarray

__all__ = ["Neuron", "expert"]


@dataclass(frozen=True)
class Neuron:
    r"""The expert :math:`h(x, \eta) = c\, \varphi(a^\top x + b)`.

    Parameters
    ----------
    phi : Activation
        The identity for an affine expert, ``power2`` for a polynomial one.
    bias : bool, default True
        Whether b is a parameter, or 0.
    amplitude : bool, default False
        Whether c is a parameter, or 1.

    Notes
    -----
    Parameters of an atom come in the order (a, b, c).

    Examples
    --------
    >>> h = expert("relu")
    >>> h.value(np.array([[2.0, -1.0]]), np.array([[1.0, 0.0]]))
    array([[1., 0.]])
    """

    phi: Activation
    bias: bool = True
    amplitude: bool = False

    def size(self, d: int) -> int:
        """Return q, the parameters of one expert for inputs with d entries."""
        return d + self.bias + self.amplitude

    def value(self, eta: Array, x: Array) -> Array:
        """Return the experts' values, (k, n)."""
        return self._scale(eta) * self.phi(self._argument(eta, x))

    def derivatives(self, eta: Array, x: Array) -> tuple[Array, Array]:
        """Return the values (k, n) and their derivatives in (a, b, c), (k, q, n)."""
        phi, first = self.phi.value_and_first(self._argument(eta, x))
        c, d = self._scale(eta), len(x)
        E = np.empty((len(eta), self.size(d), x.shape[1]))
        slope = c * first
        E[:, :d] = slope[:, None] * x
        if self.bias:
            E[:, d] = slope
        if self.amplitude:
            E[:, -1] = phi
        return c * phi, E

    def second(self, eta: Array, x: Array) -> Array:
        """Return the second derivatives, (k, q, q, n)."""
        z, d = self._argument(eta, x), len(x)
        extended = np.concatenate([x, np.ones((1, x.shape[1]))]) if self.bias else x
        inner = len(extended)
        S = np.zeros((len(eta), self.size(d), self.size(d), x.shape[1]))
        curve = self._scale(eta) * self.phi.second_derivative(z)
        S[:, :inner, :inner] = curve[:, None, None] * (extended[:, None] * extended)
        if self.amplitude:
            S[:, :inner, -1] = S[:, -1, :inner] = self.phi.first_derivative(z)[:, None] * extended
        return S

    def _argument(self, eta: Array, x: Array) -> Array:
        d = len(x)
        z = eta[:, :d] @ x
        return z + eta[:, d, None] if self.bias else z

    def _scale(self, eta: Array) -> Array | float:
        return eta[:, -1:] if self.amplitude else 1.0


_ALIASES = {"affine": "identity", "polynomial": "power2"}


def expert(name: str | Neuron, bias: bool | None = None, amplitude: bool = False) -> Neuron:
    """Return the expert of that name.

    Parameters
    ----------
    name : str or Neuron
        ``"linear"`` (no bias), ``"affine"``, ``"polynomialP"`` for (a^T x + b)^P, or the name of
        an activation of the library.
    bias : bool, optional
        By default True, except for ``"linear"``.
    amplitude : bool, default False
        A free output weight.

    Raises
    ------
    ValueError
        For an unknown name; the closest one is suggested.

    Examples
    --------
    >>> expert("linear").size(3), expert("affine").size(3), expert("gelu", amplitude=True).size(3)
    (3, 4, 5)
    >>> expert("polynomial3").phi.name
    'power3'
    """
    if isinstance(name, Neuron):
        return name
    if name == "linear":
        return Neuron(activation("identity"), bool(bias), amplitude)
    if isinstance(name, str):
        name = _ALIASES.get(name, re.sub(r"^polynomial(?=\d)", "power", name))
    return Neuron(activation(name), bias is not False, amplitude)
