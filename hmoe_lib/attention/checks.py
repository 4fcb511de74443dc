"""What the functions of this package accept; every refusal names the field."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hmoe_lib.arguments import is_finite, real_array

Array = np.ndarray


class Weights(NamedTuple):
    """The four projections of every head, checked against each other."""

    W_Q: Array
    W_K: Array
    W_V: Array
    W_O: Array

    @property
    def heads(self) -> int:
        """H."""
        return self.W_Q.shape[0]

    @property
    def features(self) -> int:
        """d, the features of one token."""
        return self.W_Q.shape[1]

    @property
    def channels(self) -> int:
        """d_v, the columns of one head's values."""
        return self.W_V.shape[2]

    @property
    def outputs(self) -> int:
        """d_out, the columns of the result."""
        return self.W_O.shape[2]


def array(name: str, value, letters: str) -> Array:
    """Return a finite float64 array with one axis a letter."""
    axes = f"({', '.join(letters.split())})"
    result = real_array(name, value, f"an array of real numbers of shape {axes}")
    if result.ndim != len(letters.split()) or 0 in result.shape:
        raise ValueError(f"{name}: expected shape {axes}, no axis empty, got {result.shape}")
    if not np.all(np.isfinite(result)):
        raise ValueError(f"{name}: expected finite numbers, got NaN or infinity")
    return result


def queries_and_keys(W_Q, W_K) -> tuple[Array, Array]:
    """Return both projections; they have one shape."""
    W_Q, W_K = array("W_Q", W_Q, "H d d_k"), array("W_K", W_K, "H d d_k")
    if W_K.shape != W_Q.shape:
        raise ValueError(f"W_K: expected the shape of W_Q, {W_Q.shape}, got {W_K.shape}")
    return W_Q, W_K


def weights(W_Q, W_K, W_V, W_O) -> Weights:
    """Return the projections; W_Q sets H, d and d_k, W_V sets d_v."""
    W_Q, W_K = queries_and_keys(W_Q, W_K)
    H, d, _ = W_Q.shape
    W_V = array("W_V", W_V, "H d d_v")
    if W_V.shape[:2] != (H, d):
        raise ValueError(
            f"W_V: expected shape (H, d, d_v) with H = {H}, d = {d} as in W_Q, got {W_V.shape}"
        )
    d_v = W_V.shape[2]
    W_O = array("W_O", W_O, "H d_v d_out")
    if W_O.shape[:2] != (H, d_v):
        raise ValueError(
            f"W_O: expected shape (H, d_v, d_out) with H = {H}, d_v = {d_v} as in W_V, "
            f"got {W_O.shape}"
        )
    return Weights(W_Q, W_K, W_V, W_O)


def tokens_matrix(X, features: int) -> Array:
    """Return X, one token a row, with as many columns as W_Q has rows a head."""
    X = array("X", X, "N d")
    if X.shape[1] != features:
        raise ValueError(
            f"X: expected shape (N, d) with d = {features} as in W_Q (one token a row), "
            f"got {X.shape}"
        )
    return X


def within_range(name: str, computed: Array) -> Array:
    """Return a computed array, or refuse what left the range of float64."""
    if not np.all(np.isfinite(computed)):
        raise ValueError(
            f"{name}: expected finite numbers, got overflow; X or the weights too large"
        )
    return computed


def scale_factor(scale, d_k: int) -> float:
    """Return the factor on the scores, 1/sqrt(d_k) by default."""
    if scale is None:
        return 1.0 / np.sqrt(d_k)
    if not is_finite(scale):
        raise ValueError(f"scale: expected one finite number, got {scale!r}")
    return float(scale)


def allowed_tokens(mask, N: int) -> Array | None:
    """Return the mask, or None; every row must be allowed to attend to something."""
    if mask is None:
        return None
    mask = np.asarray(mask)
    if mask.dtype != bool:
        raise ValueError(
            f"mask: expected booleans, True where row i may attend to token j, got {mask.dtype}"
        )
    if mask.shape != (N, N):
        raise ValueError(f"mask: expected shape (N, N) = {(N, N)}, got {mask.shape}")
    if not mask.any(axis=1).all():
        row = int(np.argmin(mask.any(axis=1)))
        raise ValueError(f"mask: expected an allowed token in every row, row {row} has none")
    return mask


def index(name: str, value, size: int) -> int:
    """Return an index counted from 0."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 0 <= value < size:
        raise ValueError(f"{name}: expected an integer from 0 to {size - 1}, got {value!r}")
    return int(value)


def positive(name: str, value) -> int:
    """Return a count of at least 1."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}: expected an integer >= 1, got {value!r}")
    return int(value)
