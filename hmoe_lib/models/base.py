"""What the three models share: checks, loops over blocks, sampling.

A model is one formula for one block of samples, with its derivatives written out. Inside a block,
arrays are features first: scores and gates (H, N, B), experts (H, N, K, B), channels (H, K, B).
"""

from __future__ import annotations

from functools import partial
from numbers import Real
from typing import NamedTuple

import numpy as np

from hmoe_lib.arguments import number
from hmoe_lib.blocks import Block, Samples, quadratic_features
from hmoe_lib.measures import HierarchicalMeasure, Shape
from hmoe_lib.models.formulas import Curvature

Array = np.ndarray

__all__ = ["HierarchicalModel", "NormalEquations", "RegressionModel", "quiet", "usable"]

# A step of an estimator may reach parameters where float64 overflows. The loss is then infinite
# or NaN, which the estimator refuses: that is its own business, not a warning to the reader.
quiet = np.errstate(over="ignore", invalid="ignore")


def usable(loss: float, *derivatives: Array) -> float:
    """Return the loss, or infinity where a derivative is not finite: no step can begin there."""
    return loss if all(np.isfinite(array).all() for array in derivatives) else np.inf


class NormalEquations(NamedTuple):
    """Least squares at one parameter, in means over the sample.

    loss: mean squared residual; gradient: J^T r / n; gram: J^T J / n; curvature: sum of
    r times the second derivatives of the function, over n. Half the Hessian of the loss is
    gram + curvature; curvature is None unless asked for. Where a derivative overflows, the loss
    is infinite.
    """

    loss: float
    gradient: Array
    gram: Array
    curvature: Array | None


class RegressionModel:
    """What every regression on a measure's parameters has, hierarchical or flat."""

    # ---- for readers: measures in, arrays out ------------------------------------------------

    @quiet
    def predict(self, G, X) -> Array:
        """Return the regression function at every row of X, shape (n,)."""
        samples = self.matching(G, Samples(X))
        parts = G.shape.split(G.to_vector())
        return _joined([self._value(parts, block) for block in samples])

    @quiet
    def jacobian(self, G, X) -> Array:
        """Return the derivatives of predict in the order of G.to_vector(), shape (n, p)."""
        samples = self.matching(G, Samples(X))
        parts = G.shape.split(G.to_vector())
        return _joined([self._jacobian(parts, block)[1].T for block in samples])

    def loss_and_gradient(self, G, X, y) -> tuple[float, Array]:
        """Return the mean squared residual and its gradient in the order of G.to_vector()."""
        samples = self.matching(G, Samples.pairs(X, y))
        return self.loss_and_gradient_at(G.to_vector(), G.shape, samples)

    def normal_equations(self, G, X, y, curvature: bool = False) -> NormalEquations:
        """Return loss, gradient, gram and, on demand, curvature of least squares at a measure."""
        samples = self.matching(G, Samples.pairs(X, y))
        return self.normal_equations_at(G.to_vector(), G.shape, samples, curvature)

    # ---- for estimators: parameter vectors, samples already checked --------------------------

    def loss_at(self, theta: Array, shape, samples: Samples) -> float:
        """Return the mean squared residual at a parameter vector."""
        (total,) = samples.sums(partial(self._loss_sums, theta, shape))
        return total / len(samples)

    def loss_and_gradient_at(self, theta: Array, shape, samples: Samples) -> tuple[float, Array]:
        """Return the mean squared residual and its gradient at a parameter vector."""
        total, gradient = samples.sums(partial(self._gradient_sums, theta, shape))
        return usable(total, gradient) / len(samples), gradient * (2.0 / len(samples))

    @quiet
    def normal_equations_at(
        self, theta: Array, shape, samples: Samples, curvature: bool = False
    ) -> NormalEquations:
        """Return the normal equations at a parameter vector; the curvature only on demand."""
        work = partial(self._normal_sums, theta, shape, curvature)
        total, *sums = samples.sums(work)
        found = self._normal_equations(theta, shape, sums)
        gradient, gram, second = (part if part is None else part / len(samples) for part in found)
        loss = usable(total, *(part for part in found if part is not None)) / len(samples)
        return NormalEquations(loss, gradient, gram, second)

    # ---- sums over a part of the sample: what workers compute --------------------------------

    @quiet
    def _loss_sums(self, theta: Array, shape, samples: Samples) -> tuple[float]:
        parts, total = shape.split(theta), 0.0
        for block in samples:
            r = self._value(parts, block) - block.y
            total += r @ r
        return (total,)

    @quiet
    def _gradient_sums(self, theta: Array, shape, samples: Samples) -> tuple[float, Array]:
        parts, total, gradient = shape.split(theta), 0.0, np.zeros(shape.size)
        for block in samples:
            f, J = self._jacobian(parts, block)
            r = f - block.y
            total += r @ r
            gradient += J @ r
        return total, gradient

    @quiet
    def _normal_sums(self, theta: Array, shape, curvature: bool, samples: Samples) -> tuple:
        parts = shape.split(theta)
        total, gradient, gram = 0.0, np.zeros(shape.size), np.zeros((shape.size, shape.size))
        sums = self._no_curvature(shape) if curvature else ()
        for block in samples:
            f, J = (
                self._second_order(parts, block, sums)
                if curvature
                else self._jacobian(parts, block)
            )
            r = f - block.y
            total += r @ r
            gradient += J @ r
            gram += J @ J.T
        return total, gradient, gram, *sums

    def _normal_equations(self, theta: Array, shape, sums: list) -> tuple:
        """Gradient, gram and curvature, None where its sums are not there, from the sums."""
        gradient, gram, *sums = sums
        second = type(self._no_curvature(shape))(*sums).matrix(shape) if sums else None
        return gradient, gram, second

    # ---- one formula a model -----------------------------------------------------------------

    def matching(self, G, samples: Samples) -> Samples:
        """Return the samples, or refuse a measure that is not this model's or not of their size."""
        raise NotImplementedError

    def _value(self, parts, block: Block) -> Array:
        """The regression function, (B,)."""
        raise NotImplementedError

    def _jacobian(self, parts, block: Block) -> tuple[Array, Array]:
        """The regression function (B,) and its derivatives (p, B)."""
        raise NotImplementedError

    def _no_curvature(self, shape):
        """Sums over no sample, with a method ``matrix(shape)``."""
        raise NotImplementedError

    def _second_order(self, parts, block: Block, sums) -> tuple[Array, Array]:
        """As _jacobian, and add r times the second derivatives to the sums."""
        raise NotImplementedError


class HierarchicalModel(RegressionModel):
    """What the three models share; use :class:`Mha`, :class:`ValueGated`, :class:`OutputGated`."""

    @quiet
    def components(self, G: HierarchicalMeasure, X) -> Array:
        """Return the channel functions f^{h,k} at every row of X, shape (n, H, K)."""
        samples = self.matching(G, Samples(X))
        parts = G.shape.split(G.to_vector())
        return _joined([self._channels(parts, block).transpose(2, 0, 1) for block in samples])

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
        _check_measure(G)
        if not isinstance(rng, np.random.Generator):
            raise ValueError(f"rng: expected a numpy Generator, got {type(rng).__name__}")
        if not (isinstance(n, Real) and n >= 1 and n % 1 == 0):
            raise ValueError(f"n: expected an integer >= 1, got {n!r}")
        noise_sd = number("noise_sd", noise_sd, least=0.0)
        X = rng.uniform(-1.0, 1.0, size=(int(n), G.dim))
        return X, self.predict(G, X) + noise_sd * rng.standard_normal(int(n))

    def sample_block(
        self, G: HierarchicalMeasure, n: int, noise_sd: float, *, rng: np.random.Generator
    ) -> Block:
        """Draw what sample draws, without its checks, as the block of a Stream."""
        x = np.ascontiguousarray(rng.uniform(-1.0, 1.0, size=(n, G.dim)).T)
        block = Block(x, quadratic_features(x), None)
        f = self._value(G.shape.split(G.to_vector()), block)
        return block._replace(y=f + noise_sd * rng.standard_normal(n))

    @quiet
    def _gradient_sums(self, theta: Array, shape: Shape, samples: Samples) -> tuple[float, Array]:
        parts, total, gradient = shape.split(theta), 0.0, np.zeros(shape.size)
        pieces = shape.split(gradient)
        for block in samples:
            total += self._add_gradient(parts, block, pieces)
        return total, gradient

    def matching(self, G: HierarchicalMeasure, samples: Samples) -> Samples:
        """Return the samples, or refuse what is no measure or of another dimension."""
        _check_measure(G)
        if samples.dim != G.dim:
            raise ValueError(
                f"X: expected shape (n, {G.dim}) for this measure, got ({len(samples)}, "
                f"{samples.dim})"
            )
        return samples

    def _no_curvature(self, shape: Shape) -> Curvature:
        return Curvature.zeros(shape)

    def _channels(self, parts, block: Block) -> Array:
        """Channel functions, (H, K, B)."""
        raise NotImplementedError

    def _add_gradient(self, parts, block: Block, pieces) -> float:
        """Add sum_b r_b df/dtheta to the pieces (M, a, omega); return sum_b r_b^2."""
        raise NotImplementedError


def _joined(blocks: list[Array]) -> Array:
    """Join the blocks of a result, or refuse one that left the range of float64."""
    result = np.concatenate(blocks)
    if not np.isfinite(result).all():
        raise ValueError("X: expected a finite result, got overflow; X or G too large")
    return result


def _check_measure(G) -> None:
    if not isinstance(G, HierarchicalMeasure):
        raise ValueError(f"G: expected a HierarchicalMeasure, got {type(G).__name__}")
