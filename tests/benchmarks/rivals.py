"""Setting I's loss and gradient by JAX and by PyTorch, at a parameter vector of the library."""

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

torch.set_num_threads(1)


def symmetric(d: int) -> np.ndarray:
    """Return the map from the free entries of a symmetric matrix to the matrix, (pairs, d, d)."""
    p, q = np.triu_indices(d)
    basis = np.zeros((len(p), d, d))
    pair = np.arange(len(p))
    basis[pair, p, q] = basis[pair, q, p] = 1.0
    return basis


def idiomatic_jax(shape, X, y, bias: float):
    """What one writes first: einsum over (n, h, i, k), softmax, sigmoid, value_and_grad, jit."""
    basis = symmetric(shape.dim)
    X, y = jnp.asarray(X), jnp.asarray(y)

    def loss(theta, X, y):
        upper, a, omega = shape.split(theta)
        M = jnp.einsum("hiu,upq->hipq", upper, basis)
        M = jnp.concatenate([M, jnp.zeros_like(M[:, :1])], axis=1)
        s = jax.nn.softmax(jnp.einsum("np,hipq,nq->nhi", X, M, X), axis=-1)
        E = jax.nn.sigmoid(jnp.einsum("hikp,np->nhik", a, X) + bias)
        f = jnp.einsum("hk,nhi,nhik->n", omega, s, E)
        return jnp.mean((f - y) ** 2)

    compiled = jax.jit(jax.value_and_grad(loss))
    return lambda theta: jax.block_until_ready(compiled(jnp.asarray(theta), X, y))


def idiomatic_torch(shape, X, y, bias: float):
    """The same with PyTorch's autograd."""
    basis = torch.from_numpy(symmetric(shape.dim))
    X, y = torch.from_numpy(X), torch.from_numpy(y)

    def loss_and_gradient(theta):
        theta = torch.tensor(theta, requires_grad=True)
        upper, a, omega = shape.split(theta)
        M = torch.einsum("hiu,upq->hipq", upper, basis)
        M = torch.cat([M, torch.zeros_like(M[:, :1])], dim=1)
        s = torch.softmax(torch.einsum("np,hipq,nq->nhi", X, M, X), dim=-1)
        E = torch.sigmoid(torch.einsum("hikp,np->nhik", a, X) + bias)
        f = torch.einsum("hk,nhi,nhik->n", omega, s, E)
        loss = torch.mean((f - y) ** 2)
        loss.backward()
        return loss.item(), theta.grad.numpy()

    return loss_and_gradient


def careful_jax(shape, X, y, bias: float, size: int = 4000):
    """JAX with the library's tricks: features first, a scan over blocks, one exponential a gate.

    For two experts and n a multiple of the block's size.
    """
    assert shape.experts == 2 and len(X) % size == 0
    p, q = np.triu_indices(shape.dim)
    factor = np.where(p == q, 1.0, 2.0)
    X = jnp.asarray(X.reshape(-1, size, shape.dim).swapaxes(1, 2))
    y = jnp.asarray(y.reshape(-1, size))

    def loss(theta, x, y):
        M, a, omega = shape.split(theta)
        features = factor[:, None] * x[p] * x[q]
        score = jnp.einsum("hu,ub->hb", M[:, 0], features)
        gate = 1.0 / (1.0 + jnp.exp(-score))
        E = 1.0 / (1.0 + jnp.exp(-(jnp.einsum("hikp,pb->hikb", a, x) + bias)))
        f = jnp.einsum("hk,hikb->hib", omega, E)
        r = jnp.sum(f[:, 1] + gate * (f[:, 0] - f[:, 1]), axis=0) - y
        return r @ r

    step = jax.value_and_grad(loss)

    def total(theta, X, y):
        def add(sums, block):
            return jax.tree.map(jnp.add, sums, step(theta, *block)), None

        zero = (jnp.zeros(()), jnp.zeros_like(theta))
        (value, gradient), _ = lax.scan(add, zero, (X, y))
        return value / y.size, gradient / y.size

    compiled = jax.jit(total)
    return lambda theta: jax.block_until_ready(compiled(jnp.asarray(theta), X, y))
