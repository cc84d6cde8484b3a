"""Matrix products laid out for XLA on a CPU, and sums written as products."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

SHORT = 32
"""Columns up to which a matrix of more rows is better kept and handled transposed."""


def is_tall(shape: tuple[int, ...]) -> bool:
    """Whether a parameter of this shape is a matrix that is kept transposed."""
    return len(shape) == 2 and shape[1] < shape[0] and shape[1] <= SHORT


def times(
    x: Float[Array, "*b inputs"], weight: Float[Array, "inputs outputs"]
) -> Float[Array, "*b outputs"]:
    """x W."""
    return across(x, weight.T) if is_tall(weight.shape) else x @ weight


def times_transposed(
    x: Float[Array, "*b outputs"], weight: Float[Array, "inputs outputs"]
) -> Float[Array, "*b inputs"]:
    """x Wᵀ."""
    return x @ weight.T if is_tall(weight.shape) else across(x, weight)


@custom_vmap
def across(x: Float[Array, "*b n"], rows: Float[Array, "m n"]) -> Float[Array, "*b m"]:
    """x Rᵀ: the products of all rows of the one with all of the other."""
    count = math.prod(x.shape[:-1])  # no number yet where a program for any batch is exported
    if not isinstance(count, int) or count > len(rows):
        return x @ rows.T
    # The second matrix of a product is laid out anew, so let that be the smaller one. Without the
    # barrier XLA turns the product round again.
    turned = jax.lax.optimization_barrier(rows @ x.reshape(count, -1).T)
    return turned.T.reshape(*x.shape[:-1], len(rows))


@across.def_vmap
def _across_many(
    size: Any, batched: list[bool], x: Array, rows: Array
) -> tuple[Float[Array, "..."], bool]:
    """Which layout is better depends on the whole batch of x."""
    if batched[1]:
        return jax.vmap(lambda x, rows: x @ rows.T, (0 if batched[0] else None, 0))(x, rows), True
    return across(x, rows), True


def outer(
    x: Float[Array, "*b inputs"], y: Float[Array, "*b outputs"]
) -> Float[Array, "inputs outputs"]:
    """Σ x yᵀ over the batch; far faster with the longer side last where the other is short."""
    x, y = x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])
    tall = is_tall((x.shape[1], y.shape[1]))
    return jax.lax.optimization_barrier(y.T @ x).T if tall else x.T @ y


def weighted_sum(weights: Float[Array, "*b"], rows: Float[Array, "*b n"]) -> Float[Array, " n"]:
    """Σ w y over the batch."""
    return weights.reshape(-1) @ rows.reshape(-1, rows.shape[-1])


def row_mean(x: Float[Array, "*b n"]) -> Float[Array, "*b 1"]:
    """As a product with ones: XLA would split the sum of a long row into several small programs."""
    return (x @ jnp.full(x.shape[-1], 1 / x.shape[-1], x.dtype))[..., None]


@jax.custom_vjp
def product(
    x: Float[Array, "*b inputs"], weight: Float[Array, "inputs outputs"]
) -> Float[Array, "*b outputs"]:
    """x W, whose derivative keeps to the same layouts."""
    return times(x, weight)


product.defvjp(
    lambda x, weight: (times(x, weight), (x, weight)),
    lambda kept, g: (times_transposed(g, kept[1]), outer(kept[0], g)),
)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def repeat(row: Float[Array, " n"], shape: tuple[int, ...]) -> Float[Array, "*shape n"]:
    """The row for each element of a batch; the derivative sums over the batch by a product."""
    return jnp.broadcast_to(row, (*shape, len(row)))


repeat.defvjp(
    lambda row, shape: (repeat(row, shape), None),
    lambda shape, _, g: (weighted_sum(jnp.ones(shape, g.dtype), g),),
)


def dense(
    x: Float[Array, "*b inputs"],
    weight: Float[Array, "inputs outputs"],
    bias: Float[Array, " outputs"],
) -> Float[Array, "*b outputs"]:
    """x W + b."""
    return product(x, weight) + repeat(bias, x.shape[:-1])
