"""Layers with layer norms and ReLUs, their products in the quicker way round, their parameters.

A layer's derivative is written by hand where that is faster than what JAX and XLA make of it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float, Key

from ilbo.mdp import sampling

SHORT = 32
"""Columns up to which a matrix of more rows is better kept and handled transposed."""
LARGE = 8192
"""Numbers from which on a parameter is `Packed` by itself."""
WIDE = 64
"""Outputs for each input from which on a layer is better `Folded`."""
LEAST_VARIANCE = 1e-5
"""Added to the variance in a layer norm."""


class Dense(eqx.Module):
    """x W + b."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    @classmethod
    def init(cls, key: Key[Array, ""], inputs: int, outputs: int, gain: float = 1.0) -> Dense:
        limit = gain * (3 / inputs) ** 0.5
        rows = limit * (2 * sampling.uniform(key, (inputs + 1, outputs)) - 1)
        return cls(rows[:-1], rows[-1])

    def __call__(self, x: Array) -> Array:
        return _product(x, self.weight) + _for_all(self.bias, x.shape[:-1])


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _for_all(bias: Float[Array, " n"], shape: tuple[int, ...]) -> Float[Array, "*shape n"]:
    """The same for a whole batch; the derivative sums over it by a product, which is fast."""
    return jnp.broadcast_to(bias, (*shape, len(bias)))


_for_all.defvjp(
    lambda bias, shape: (_for_all(bias, shape), None),
    lambda shape, _, g: (_sum(jnp.ones(shape), g),),
)


@jax.custom_vjp
def _product(x: Float[Array, "*b inputs"], weight: Float[Array, "inputs outputs"]) -> Array:
    return times(x, weight)


_product.defvjp(
    lambda x, weight: (times(x, weight), (x, weight)),
    lambda kept, g: (times_transposed(g, kept[1]), outer(kept[0], g)),
)


def is_tall(shape: tuple[int, ...]) -> bool:
    """Whether a parameter of this shape is a matrix that is kept transposed: see `pack`."""
    return len(shape) == 2 and shape[1] < shape[0] and shape[1] <= SHORT


def times(x: Float[Array, "*b inputs"], weight: Float[Array, "inputs outputs"]) -> Array:
    """x W, in the way that is quicker for its shape."""
    return across(x, weight.T) if is_tall(weight.shape) else x @ weight


def times_transposed(x: Float[Array, "*b outputs"], weight: Float[Array, "inputs outputs"]):
    """x Wᵀ likewise."""
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
def _across_many(size, batched, x, rows):
    """Which way round is better depends on all of x."""
    if batched[1]:
        return jax.vmap(lambda x, rows: x @ rows.T, (0 if batched[0] else None, 0))(x, rows), True
    return across(x, rows), True


def outer(x: Float[Array, "*b inputs"], y: Float[Array, "*b outputs"]) -> Array:
    """Σ x yᵀ over the batch; far faster with the longer side last where the other is short."""
    x, y = x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])
    tall = is_tall((x.shape[1], y.shape[1]))
    return jax.lax.optimization_barrier(y.T @ x).T if tall else x.T @ y


class Hidden(eqx.Module):
    """relu(layer norm(x W + b)).

    The bias inside the norm matters: without it the first layer would see only the direction of
    its input, not its length.
    """

    dense: Dense
    scale: Float[Array, " outputs"]
    shift: Float[Array, " outputs"]

    @classmethod
    def init(cls, key: Key[Array, ""], inputs: int, outputs: int) -> Hidden:
        dense = Dense.init(key, inputs, outputs, gain=2**0.5)
        return cls(dense, jnp.ones(outputs), jnp.zeros(outputs))

    def __call__(self, x: Array) -> Array:
        return _hidden(x, self)

    def quick(self) -> Hidden | Folded:
        """The same function, in the way that is quicker for these sizes."""
        inputs, outputs = self.dense.weight.shape
        return Folded.of(self) if outputs >= WIDE * inputs else self


@jax.custom_vjp
def _hidden(x: Array, layer: Hidden) -> Array:
    return _hidden_forward(x, layer)[0]


def row_mean(x: Float[Array, "*b n"]) -> Float[Array, "*b 1"]:
    """As a product with ones: XLA would split the sum of a long row into several small programs."""
    return (x @ jnp.full(x.shape[-1], 1 / x.shape[-1]))[..., None]


def _hidden_forward(x: Array, layer: Hidden):
    y = layer.dense(x)
    y -= row_mean(y)
    factor = jax.lax.rsqrt(row_mean(y * y) + LEAST_VARIANCE)
    return jax.nn.relu(y * factor * layer.scale + layer.shift), (x, y, factor, layer)


def _hidden_reverse(kept, g: Array):
    """The derivative by hand: sums over rows and columns are products, which are fast."""
    x, y, factor, layer = kept
    scale, outputs = layer.scale, y.shape[-1]
    g = jnp.where(y * factor * scale + layer.shift > 0, g, 0.0)
    product = g * y
    along = (product @ scale)[..., None] * (factor / outputs)
    slope = factor * (g * scale - (g @ scale)[..., None] / outputs - y * factor * along)
    ones = jnp.ones(y.shape[:-1])
    gradient = Hidden(
        Dense(outer(x, slope), _sum(ones, slope)),
        _sum(factor[..., 0], product),
        _sum(ones, g),
    )
    return times_transposed(slope, layer.dense.weight), gradient


def _sum(weights: Array, rows: Array) -> Array:
    """Σ w y over the batch."""
    return weights.reshape(-1) @ rows.reshape(-1, rows.shape[-1])


_hidden.defvjp(_hidden_forward, _hidden_reverse)


class Folded(eqx.Module):
    """A hidden layer of few inputs as one product: relu([f·x, f, 1] K).

    Of the layer norm, the mean is taken off the weights, the factor f comes from the inputs (the
    variance of the outputs is a quadratic form in them) and goes onto them, and scale and shift are
    rows of K. Nothing but the relu runs over the outputs, of which there are many more.
    """

    table: Float[Array, "inputs+2 outputs"]
    """K: weights and bias, centred and scaled, and the shift."""
    variance: Float[Array, "inputs+1 inputs+1"]

    @classmethod
    def of(cls, layer: Hidden) -> Folded:
        rows = jnp.concatenate([layer.dense.weight, layer.dense.bias[None]])
        rows -= row_mean(rows)
        variance = _exact(rows, rows.T) / rows.shape[1]
        return cls(jnp.concatenate([rows * layer.scale, layer.shift[None]]), variance)

    def __call__(self, x: Float[Array, "*b inputs"]) -> Float[Array, "*b outputs"]:
        one = jnp.ones((*x.shape[:-1], 1))
        seen = jnp.concatenate([x, one], axis=-1)
        variance = _form(seen, self.variance)
        factor = jax.lax.rsqrt(jnp.maximum(variance, 0.0) + LEAST_VARIANCE)
        return jax.nn.relu(_product(jnp.concatenate([factor * seen, one], axis=-1), self.table))


@jax.custom_vjp
def _form(x: Float[Array, "*b n"], symmetric: Float[Array, "n n"]) -> Float[Array, "*b 1"]:
    """The quadratic form xᵀ S x."""
    return _form_forward(x, symmetric)[0]


def _form_forward(x: Array, symmetric: Array):
    product = _exact(x, symmetric)
    return jnp.sum(product * x, axis=-1, keepdims=True), (x, product)


def _form_reverse(kept, g: Array):
    x, product = kept
    rows, weighed = (y.reshape(-1, x.shape[-1]) for y in (x, g * x))
    return 2 * g * product, _exact(rows.T, weighed)


_form.defvjp(_form_forward, _form_reverse)


def _exact(x: Array, y: Array) -> Array:
    """A product in full precision also where products are otherwise rounded."""
    return jnp.matmul(x, y, precision=jax.lax.Precision.HIGHEST)


class MLP(eqx.Module):
    """Hidden layers and a linear output."""

    hidden: tuple[Hidden, ...]
    output: Dense

    @classmethod
    def init(
        cls, key: Key[Array, ""], inputs: int, layers: Sequence[int], outputs: int, gain: float
    ) -> MLP:
        keys = jax.random.split(key, len(layers) + 1)
        sizes = [inputs, *layers]
        hidden = tuple(
            Hidden.init(k, i, o) for k, i, o in zip(keys[:-1], sizes[:-1], sizes[1:], strict=True)
        )
        return cls(hidden, Dense.init(keys[-1], sizes[-1], outputs, gain))

    def __call__(self, x: Array) -> Array:
        for layer in self.hidden:
            x = layer.quick()(x)
        return self.output(x)


Packed = tuple[Float[Array | np.ndarray, "..."], ...]
"""Parameters as few arrays: each large one by itself, then one vector of all the small ones."""


def pack(network) -> Packed:
    """So that optimisers and averages take few turns, and products find their weights in place, the
    tall ones transposed."""
    leaves = [leaf.T if is_tall(leaf.shape) else leaf for leaf in jax.tree.leaves(network)]
    large = [leaf for leaf in leaves if leaf.size >= LARGE]
    small = [jnp.ravel(leaf) for leaf in leaves if leaf.size < LARGE]
    return (*large, jnp.concatenate(small))


def unpack(packed: Packed, shape):
    """The network of this shape with these parameters."""
    leaves, structure = jax.tree.flatten(shape)
    *large, small = packed
    numpy = isinstance(small, np.ndarray)
    parts, at, rest = [], 0, iter(large)
    for leaf in leaves:
        tall = is_tall(leaf.shape)
        if leaf.size >= LARGE:
            part = next(rest)
        else:
            part = small[at : at + leaf.size].reshape(leaf.shape[::-1] if tall else leaf.shape)
            at += leaf.size
        parts.append(part.T if tall else part)
    return jax.tree.unflatten(structure, jax.device_put(parts) if numpy else parts)
