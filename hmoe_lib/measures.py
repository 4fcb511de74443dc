"""Mixing measures: the parameters (omega, M, a) of a hierarchical mixture of experts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hmoe_lib import relabelling
from hmoe_lib.arguments import frozen_array

Array = np.ndarray

__all__ = ["HierarchicalMeasure", "Shape"]


class Shape(NamedTuple):
    """Sizes of a measure, and where each block of parameters sits in its vector.

    Examples
    --------
    >>> Shape(heads=2, experts=2, channels=2, dim=2).size
    26
    """

    heads: int
    experts: int
    channels: int
    dim: int

    @property
    def pairs(self) -> int:
        """Free entries of one symmetric matrix, d(d+1)/2."""
        return self.dim * (self.dim + 1) // 2

    @property
    def slices(self) -> dict[str, slice]:
        """Slices of the parameter vector, by name of the block, in its order."""
        H, N, K, d = self
        n_M = H * (N - 1) * self.pairs
        n_a = H * N * K * d
        return {
            "M": slice(0, n_M),
            "a": slice(n_M, n_M + n_a),
            "omega": slice(n_M + n_a, n_M + n_a + H * K),
        }

    @property
    def size(self) -> int:
        """Number of free parameters."""
        return self.slices["omega"].stop

    def split(self, theta: Array) -> tuple[Array, Array, Array]:
        """Return views on a parameter vector: M (H, N-1, pairs), a (H, N, K, d), omega (H, K)."""
        H, N, K, d = self
        at = self.slices
        return (
            theta[at["M"]].reshape(H, N - 1, self.pairs),
            theta[at["a"]].reshape(H, N, K, d),
            theta[at["omega"]].reshape(H, K),
        )


@dataclass(frozen=True, eq=False)
class HierarchicalMeasure:
    r"""Parameters of a hierarchical mixture of experts, checked and read-only.

    Parameters
    ----------
    omega : array_like, shape (H, K)
        Channel weights, nonnegative unless ``signed``.
    M : array_like, shape (H, N, d, d)
        Symmetric quadratic gate matrices; ``M[:, -1]`` is zero.
    a : array_like, shape (H, N, K, d)
        Expert vectors.
    signed : bool, default False
        Allow negative weights, which real attention heads have and assumption (A.2) excludes.

    Raises
    ------
    ValueError
        If a shape, the symmetry of M, the zero of its last expert, a sign or finiteness is wrong.

    Notes
    -----
    The measure is :math:`G = \sum_{h,k} \omega_{h,k}\, \delta_{\theta_{h,k}}` with one point a
    channel, :math:`\theta_{h,k} = (M_{h,i}, a_{h,i,k})_{i \le N}`. The softmax over experts ignores
    a matrix added to all of a head, hence the pin :math:`M_{h,N} = 0`; :meth:`normalized` brings
    any M to that form.

    References
    ----------
    Section 3 of the paper, model (2) and assumptions (A.2), (A.3).

    Examples
    --------
    >>> G = HierarchicalMeasure([[1.0]], [[[[2.0]], [[0.0]]]], [[[[1.0]], [[-1.0]]]])
    >>> G.heads, G.experts, G.channels, G.dim
    (1, 2, 1, 1)
    >>> G.to_vector()
    array([ 2.,  1., -1.,  1.])
    """

    omega: Array
    M: Array
    a: Array
    signed: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.signed, bool | np.bool_):
            raise ValueError(f"signed: expected True or False, got {self.signed!r}")
        for name, letters in (("omega", "HK"), ("M", "HNdd"), ("a", "HNKd")):
            object.__setattr__(self, name, frozen_array(name, getattr(self, name), len(letters)))
        _check_shapes(self.omega, self.M, self.a)
        if not np.allclose(self.M, self.M.swapaxes(-1, -2), rtol=1e-12, atol=1e-12):
            raise ValueError(
                "M: expected symmetric matrices, got asymmetric ones; see normalized()"
            )
        if np.any(self.M[:, -1]):
            raise ValueError("M: expected M[:, -1] = 0 (the pinned expert); see normalized()")
        if not self.signed and np.any(self.omega < 0):
            raise ValueError(
                f"omega: expected weights >= 0, got {self.omega.min():g}; signed=True allows it"
            )

    @classmethod
    def normalized(cls, omega, M, a, signed: bool = False) -> HierarchicalMeasure:
        """Make a measure from any M: take symmetric parts and subtract the last expert's matrix.

        Neither step changes a softmax gate, so the function of the measure stays what it was.

        Examples
        --------
        >>> M = [[[[3.0]], [[1.0]]]]
        >>> HierarchicalMeasure.normalized([[1.0]], M, [[[[1.0]], [[0.0]]]]).M.ravel()
        array([2., 0.])
        """
        M = frozen_array("M", M, 4)
        if M.shape[2] != M.shape[3]:
            raise ValueError(f"M: expected shape (H, N, d, d), got {M.shape}")
        M = M - M[:, -1:]
        return cls(omega, 0.5 * (M + M.swapaxes(-1, -2)), a, signed)

    # ---- sizes and vectors -------------------------------------------------------------------

    @property
    def heads(self) -> int:
        """H, the number of heads."""
        return self.omega.shape[0]

    @property
    def experts(self) -> int:
        """N, the number of experts of each head."""
        return self.M.shape[1]

    @property
    def channels(self) -> int:
        """K, the number of channels of each head."""
        return self.omega.shape[1]

    @property
    def dim(self) -> int:
        """d, the number of inputs."""
        return self.M.shape[2]

    @property
    def shape(self) -> Shape:
        """(H, N, K, d) with the layout of the parameter vector."""
        return Shape(self.heads, self.experts, self.channels, self.dim)

    def to_vector(self) -> Array:
        """Return the free parameters: upper triangles of M (i < N), then a, then omega."""
        p, q = np.triu_indices(self.dim)
        return np.concatenate([self.M[:, :-1, p, q].ravel(), self.a.ravel(), self.omega.ravel()])

    def from_vector(self, vector: Array) -> HierarchicalMeasure:
        """Return a measure of this shape from a parameter vector, the inverse of to_vector."""
        vector = frozen_array("vector", vector, 1)
        if vector.shape != (self.shape.size,):
            raise ValueError(f"vector: expected shape {(self.shape.size,)}, got {vector.shape}")
        M_free, a, omega = self.shape.split(vector)
        M = np.zeros_like(self.M)
        p, q = np.triu_indices(self.dim)
        M[:, :-1, p, q] = M_free
        M[:, :-1, q, p] = M_free
        return HierarchicalMeasure(omega, M, a, self.signed)

    def __setstate__(self, state: dict) -> None:
        # Copies and pickles would come back writeable.
        for name, value in state.items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    # ---- the same function, other parameters -------------------------------------------------

    def permuted(
        self,
        heads: Sequence[int] | None = None,
        channels: Sequence[int] | None = None,
        experts: Sequence[int] | None = None,
    ) -> HierarchicalMeasure:
        """Reorder heads, channels or experts; the function of the measure stays the same.

        ``channels`` and ``experts`` are orders for every head, (K,) and (N,), or one a head,
        (H, K) and (H, N). Experts are pinned again after the reordering: M_{h,pi(i)} - M_{h,pi(N)}.

        Examples
        --------
        >>> G = HierarchicalMeasure([[1.0]], [[[[2.0]], [[0.0]]]], [[[[1.0]], [[-1.0]]]])
        >>> twin = G.permuted(experts=[1, 0])
        >>> twin.M.ravel(), twin.a.ravel()
        (array([-2.,  0.]), array([-1.,  1.]))
        """
        H, N, K, _ = self.shape
        order = _order("heads", heads, (H,))
        channel = _order("channels", channels, (H, K))[order]
        expert = _order("experts", experts, (H, N))[order]
        h = order[:, None]
        M = self.M[h, expert]
        a = self.a[h[:, :, None], expert[:, :, None], channel[:, None, :]]
        return HierarchicalMeasure(self.omega[h, channel], M - M[:, -1:], a, self.signed)

    def twins(self) -> Iterator[HierarchicalMeasure]:
        """Yield the re-pinned expert orders of every head: (N!)^H measures with one function."""
        orders = list(itertools.permutations(range(self.experts)))
        for choice in itertools.product(orders, repeat=self.heads):
            yield self.permuted(experts=np.array(choice))

    def canonical(self, reference: HierarchicalMeasure | None = None) -> HierarchicalMeasure:
        """Return the representative of this measure's relabellings nearest to a reference.

        Parameters
        ----------
        reference : HierarchicalMeasure, optional
            A measure with the same H, N and d, and any K. Without it the order is by size of
            the entries: experts, channels and heads each sorted lexicographically.

        Raises
        ------
        ValueError
            If the reference is no measure or has another H, N or d.

        Examples
        --------
        >>> G = HierarchicalMeasure([[1.0]], [[[[2.0]], [[0.0]]]], [[[[1.0]], [[-1.0]]]])
        >>> G.permuted(experts=[1, 0]).canonical(G) == G
        True
        """
        if reference is None:
            return relabelling.by_size(self)
        if not isinstance(reference, HierarchicalMeasure):
            found = type(reference).__name__
            raise ValueError(f"reference: expected a HierarchicalMeasure, got {found}")
        return relabelling.nearest(self, reference)

    # ---- text --------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the measure as JSON text that from_json reads back to the last bit."""
        fields = {name: getattr(self, name).tolist() for name in ("omega", "M", "a")}
        return json.dumps({"format": "hmoe measure 1", **fields, "signed": self.signed})

    @classmethod
    def from_json(cls, text: str) -> HierarchicalMeasure:
        """Read a measure from the text of to_json; damaged text is a ValueError."""
        try:
            fields = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"text: expected the JSON of a measure, got {error}") from None
        found = fields.get("format") if isinstance(fields, dict) else type(fields).__name__
        if found != "hmoe measure 1":
            raise ValueError(f"text: expected format 'hmoe measure 1', got {found!r}")
        missing = {"omega", "M", "a"} - fields.keys()
        if missing:
            raise ValueError(f"text: expected fields omega, M and a, missing {sorted(missing)}")
        signed = fields.get("signed", False)
        if not isinstance(signed, bool):
            raise ValueError(f"signed: expected true or false, got {signed!r}")
        return cls(fields["omega"], fields["M"], fields["a"], signed)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HierarchicalMeasure):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("omega", "M", "a")
        )

    def __hash__(self) -> int:
        # Adding 0.0 turns -0.0 into 0.0: equal measures must have equal hashes.
        return hash(((self.to_vector() + 0.0).tobytes(), self.shape))

    def __repr__(self) -> str:
        H, N, K, d = self.shape
        return f"HierarchicalMeasure(H={H}, N={N}, K={K}, d={d})"


# ---- checks --------------------------------------------------------------------------------------


def _check_shapes(omega: Array, M: Array, a: Array) -> None:
    H, K = omega.shape
    _, N, d, _ = M.shape
    if M.shape != (H, N, d, d):
        raise ValueError(f"M: expected shape (H, N, d, d) with H = {H}, got {M.shape}")
    if a.shape != (H, N, K, d):
        raise ValueError(f"a: expected shape (H, N, K, d) = {(H, N, K, d)}, got {a.shape}")


def _order(name: str, order, shape: tuple[int, ...]) -> Array:
    """Return an order of the last axis, broadcast over the heads and checked."""
    size = shape[-1]
    order = np.arange(size) if order is None else np.asarray(order)
    try:
        order = np.broadcast_to(order, shape)
    except ValueError:
        raise ValueError(f"{name}: expected an order of shape {shape}, got {order.shape}") from None
    whole = order.dtype.kind in "iu"  # an index of truth values or floats means something else
    if not whole or not np.array_equal(np.sort(order), np.broadcast_to(np.arange(size), shape)):
        raise ValueError(f"{name}: expected a permutation of 0..{size - 1}, got {order.tolist()}")
    return order
