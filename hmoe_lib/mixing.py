"""Mixing measures of a flat mixture of experts: k atoms of router, bias and expert parameters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hmoe_lib.arguments import frozen_array

Array = np.ndarray

__all__ = ["BLOCKS", "Layout", "MixingMeasure", "Parts"]


class Parts(NamedTuple):
    """The blocks of a measure, with the indices of its free entries among all of them."""

    router: Array
    bias: Array
    expert: Array
    shared: Array
    free: Array


BLOCKS = ("router", "bias", "expert", "shared")


@dataclass(frozen=True, eq=False)
class Layout:
    """Sizes of a measure, which entries are free, and where each block sits in the free vector.

    ``values`` is the whole vector, router, bias, expert and shared one after the other; an
    estimator changes its entries at ``free`` and leaves the pinned ones.
    """

    atoms: int
    router: int
    expert: int
    shared: int
    free: Array
    values: Array

    @property
    def sizes(self) -> dict[str, int]:
        """Entries of each block, pinned ones included."""
        k, p, q, s = self.atoms, self.router, self.expert, self.shared
        return {"router": k * p, "bias": k, "expert": k * q, "shared": s}

    @property
    def size(self) -> int:
        """Number of free parameters."""
        return len(self.free)

    @property
    def slices(self) -> dict[str, slice]:
        """Slices of the free vector by name of the block."""
        ends = np.searchsorted(self.free, np.cumsum(list(self.sizes.values())))
        starts = [0, *ends[:-1]]
        return {
            name: slice(int(a), int(b)) for name, a, b in zip(BLOCKS, starts, ends, strict=True)
        }

    def split(self, theta: Array) -> Parts:
        """Return router (k, p), bias (k,), expert (k, q), shared (s,) of a free vector."""
        whole = self.values.copy()
        whole[self.free] = theta
        return Parts(*self.blocks(whole), self.free)

    def blocks(self, whole: Array) -> tuple[Array, Array, Array, Array]:
        """Return views on a whole vector, or on an array whose first axis is one."""
        ends = np.cumsum(list(self.sizes.values()))
        router, bias, expert, shared = np.split(whole, ends[:-1])
        k, rest = self.atoms, whole.shape[1:]
        return router.reshape(k, -1, *rest), bias, expert.reshape(k, -1, *rest), shared


@dataclass(frozen=True, eq=False)
class MixingMeasure:
    r"""Parameters of a flat mixture of experts, checked and read-only.

    Parameters
    ----------
    router : array_like, shape (k, p)
        What the gate's score is made of: a vector, or a vector and the triangle of a matrix.
    bias : array_like, shape (k,)
        Biases of the scores.
    expert : array_like, shape (k, q)
        Parameters of the experts.
    shared : array_like, shape (s,), default ()
        Parameters of the gate that all atoms have in common, such as a temperature.
    pinned : sequence of four masks, optional
        Entries of router, bias, expert and shared that are held where they are; see
        :meth:`pinned_for`. By default none.
    note : str
        Where the measure came from; a fit repeats it.

    Raises
    ------
    ValueError
        If a shape is wrong, a number not finite, or nothing is free.

    Notes
    -----
    The measure is :math:`G = \sum_i e^{b_i} \delta_{(\beta_i, \eta_i)}` for a softmax. Pins take
    out what is exactly unidentifiable, and nothing else does: :meth:`to_vector` is the free part.

    Examples
    --------
    >>> G = MixingMeasure([[1.0], [0.0]], [0.5, 0.0], [[2.0, 3.0], [4.0, 5.0]])
    >>> G.pinned_for(([[False], [True]], [False, True], [])).to_vector()
    array([1. , 0.5, 2. , 3. , 4. , 5. ])
    """

    router: Array
    bias: Array
    expert: Array
    shared: Array = ()
    pinned: tuple[Array, Array, Array, Array] | None = None
    note: str = ""

    def __post_init__(self) -> None:
        for name, ndim in (("router", 2), ("bias", 1), ("expert", 2)):
            object.__setattr__(self, name, frozen_array(name, getattr(self, name), ndim))
        shared = np.zeros(0) if len(self.shared) == 0 else frozen_array("shared", self.shared, 1)
        object.__setattr__(self, "shared", shared)
        for name in ("router", "expert"):
            if len(getattr(self, name)) != len(self.bias):
                raise ValueError(
                    f"{name}: expected {len(self.bias)} rows, one for each bias, got shape "
                    f"{getattr(self, name).shape}"
                )
        masks = (None,) * 4 if self.pinned is None else tuple(self.pinned)
        if len(masks) != 4:
            raise ValueError(f"pinned: expected four masks, got {len(masks)}")
        masks = tuple(
            _mask(name, mask, getattr(self, name).shape)
            for name, mask in zip(BLOCKS, masks, strict=True)
        )
        object.__setattr__(self, "pinned", masks)
        if all(mask.all() for mask in masks):
            raise ValueError("pinned: expected at least one free parameter, all are pinned")

    # ---- sizes and vectors -------------------------------------------------------------------

    @property
    def atoms(self) -> int:
        """k, the number of atoms."""
        return len(self.bias)

    @property
    def shape(self) -> Layout:
        """Sizes, the free entries and the values of the pinned ones."""
        free = np.flatnonzero(~np.concatenate([mask.ravel() for mask in self.pinned]))
        blocks = (getattr(self, name).ravel() for name in BLOCKS)
        k, p, q = self.atoms, self.router.shape[1], self.expert.shape[1]
        return Layout(k, p, q, len(self.shared), free, np.concatenate(list(blocks)))

    def pinned_for(self, pins: Sequence) -> MixingMeasure:
        """Return the measure with the pins of a gate: masks of router, bias and shared.

        ``G.pinned_for(gate.pins(G.router))`` is the identifiable parametrisation of a gate. Pins
        hold values; they do not move them: a router that is pinned at 0 has to be 0 already.
        """
        router, bias, shared = pins
        if len(shared) != len(self.shared):
            raise ValueError(f"shared: expected {len(shared)} parameters, got {len(self.shared)}")
        return MixingMeasure(
            self.router,
            self.bias,
            self.expert,
            self.shared,
            (router, bias, self.pinned[2], shared),
            self.note,
        )

    def to_vector(self) -> Array:
        """Return the free parameters, in the order router, bias, expert, shared."""
        layout = self.shape
        return layout.values[layout.free]

    def from_vector(self, vector: Array, note: str = "") -> MixingMeasure:
        """Return a measure of this shape and these pins from a free vector."""
        vector = frozen_array("vector", vector, 1)
        layout = self.shape
        if vector.shape != (layout.size,):
            raise ValueError(f"vector: expected shape {(layout.size,)}, got {vector.shape}")
        return MixingMeasure(*layout.split(vector)[:4], self.pinned, note)

    def split_atom(self, i: int, shares: Sequence[float], weight: str) -> MixingMeasure:
        """Return the measure with atom i in several copies, put before it, that share its weight.

        ``weight`` says what a weight is: ``"exp"`` for a softmax, e^b, or ``"sigmoid"``; then the
        copies are the atom only where its router is zero. A bias that is pinned keeps its value
        for the last copy, and all others are relative to it.
        """
        shares = frozen_array("shares", shares, 1)
        if not (0 <= i < self.atoms and (shares > 0).all() and abs(shares.sum() - 1) < 1e-9):
            raise ValueError(f"shares: expected positive numbers of sum 1 and an atom, got {i}")
        at = np.insert(np.arange(self.atoms), i, np.full(len(shares) - 1, i))
        bias = self.bias[at].copy()
        copies = slice(i, i + len(shares))
        if weight == "exp":
            bias[copies] += np.log(shares)
            if self.pinned[1][i]:
                bias -= np.log(shares[-1])
        elif weight == "sigmoid":
            w = shares / (1.0 + np.exp(-self.bias[i]))
            bias[copies] = np.log(w) - np.log1p(-w)
        else:
            raise ValueError(f"weight: expected 'exp' or 'sigmoid', got {weight!r}")
        masks = [mask[at].copy() for mask in self.pinned[:3]]
        masks[0][copies][:-1], masks[1][copies][:-1] = False, False
        pinned = (*masks, self.pinned[3])
        return MixingMeasure(self.router[at], bias, self.expert[at], self.shared, pinned, self.note)

    # ---- text --------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the measure as JSON text that from_json reads back to the last bit."""
        fields = {name: getattr(self, name).tolist() for name in BLOCKS}
        pinned = [mask.tolist() for mask in self.pinned]
        return json.dumps({"format": "hmoe mixing 1", **fields, "pinned": pinned})

    @classmethod
    def from_json(cls, text: str) -> MixingMeasure:
        """Read a measure from the text of to_json; damaged text is a ValueError."""
        try:
            fields = json.loads(text)
            if fields["format"] != "hmoe mixing 1":
                raise ValueError(f"format {fields['format']!r}")
            return cls(**{name: fields[name] for name in (*BLOCKS, "pinned")})
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"text: expected the JSON of a mixing measure, got {error}") from None

    def __reduce__(self):
        # Copies and pickles would come back writeable.
        blocks = (getattr(self, name) for name in BLOCKS)
        return MixingMeasure, (*blocks, self.pinned, self.note)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MixingMeasure):
            return NotImplemented
        return all(np.array_equal(getattr(self, n), getattr(other, n)) for n in BLOCKS)

    def __hash__(self) -> int:
        # Adding 0.0 turns -0.0 into 0.0: equal measures must have equal hashes.
        return hash((self.shape.values + 0.0).tobytes())

    def __repr__(self) -> str:
        layout = self.shape
        return (
            f"MixingMeasure(k={layout.atoms}, p={layout.router}, q={layout.expert}, "
            f"s={layout.shared}; {layout.size} free)"
        )


def _mask(name: str, mask, shape: tuple[int, ...]) -> Array:
    mask = np.zeros(shape, bool) if mask is None else np.array(mask)
    if mask.shape != shape or (mask.dtype != bool and mask.size):
        raise ValueError(f"pinned: expected a mask of shape {shape} for {name}, got {mask!r}")
    mask = mask.astype(bool)
    mask.flags.writeable = False
    return mask
