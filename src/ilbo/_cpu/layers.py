"""A hidden layer, relu(layer norm(x W + b)), with its derivative written by hand."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ilbo._cpu.products import dense, outer, product, row_mean, times_transposed, weighted_sum

WIDE = 64
"""Outputs for each input from which on a layer is better `Folded`."""
LEAST_VARIANCE = 1e-5
"""Added to the variance in a layer norm."""


class Arrays(eqx.Module):
    """The parameters of a hidden layer."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]
    scale: Float[Array, " outputs"]
    shift: Float[Array, " outputs"]

    @property
    def is_wide(self) -> bool:
        """Whether the layer is so much wider than its inputs that folding it pays."""
        inputs, outputs = self.weight.shape
        return outputs >= WIDE * inputs


def hidden(x: Float[Array, "*b inputs"], layer: Arrays) -> Float[Array, "*b outputs"]:
    """relu(scale · (y − mean y) / std y + shift) of y = x W + b."""
    return Folded.of(layer)(x) if layer.is_wide else _hidden(x, layer)


@jax.custom_vjp
def _hidden(x: Array, layer: Arrays) -> Array:
    return _hidden_forward(x, layer)[0]


def _hidden_forward(x: Array, layer: Arrays) -> tuple[Array, tuple[Array, Array, Array, Arrays]]:
    y = dense(x, layer.weight, layer.bias)
    y -= row_mean(y)
    factor = jax.lax.rsqrt(row_mean(y * y) + LEAST_VARIANCE)
    return jax.nn.relu(y * factor * layer.scale + layer.shift), (x, y, factor, layer)


def _hidden_reverse(kept: tuple[Array, Array, Array, Arrays], g: Array) -> tuple[Array, Arrays]:
    """Sums over rows and columns are products, which are fast."""
    x, y, factor, layer = kept
    scale, outputs = layer.scale, y.shape[-1]
    g = jnp.where(y * factor * scale + layer.shift > 0, g, 0.0)
    along_y = g * y
    along = (along_y @ scale)[..., None] * (factor / outputs)
    slope = factor * (g * scale - (g @ scale)[..., None] / outputs - y * factor * along)
    ones = jnp.ones(y.shape[:-1], y.dtype)
    gradient = Arrays(
        outer(x, slope),
        weighted_sum(ones, slope),
        weighted_sum(factor[..., 0], along_y),
        weighted_sum(ones, g),
    )
    return times_transposed(slope, layer.weight), gradient


_hidden.defvjp(_hidden_forward, _hidden_reverse)


class Folded(eqx.Module):
    """A hidden layer of few inputs as one product: relu([f·x, f, 1] K).

    Of the layer norm, the mean is taken off the weights, the factor f comes from the inputs (the
    variance of the outputs is a quadratic form in them) and goes onto them, and scale and shift are
    rows of K. Nothing but the relu runs over the outputs, of which there are many more.
    """

    table: Float[Array, "rows outputs"]
    """K: weights and bias, centred and scaled, and the shift."""
    variance: Float[Array, "columns columns"]

    @classmethod
    def of(cls, layer: Arrays) -> Folded:
        rows = jnp.concatenate([layer.weight, layer.bias[None]])
        rows -= row_mean(rows)
        variance = _exact(rows, rows.T) / rows.shape[1]
        return cls(jnp.concatenate([rows * layer.scale, layer.shift[None]]), variance)

    def __call__(self, x: Float[Array, "*b inputs"]) -> Float[Array, "*b outputs"]:
        one = jnp.ones((*x.shape[:-1], 1), x.dtype)
        seen = jnp.concatenate([x, one], axis=-1)
        variance = _form(seen, self.variance)
        factor = jax.lax.rsqrt(jnp.maximum(variance, 0.0) + LEAST_VARIANCE)
        return jax.nn.relu(product(jnp.concatenate([factor * seen, one], axis=-1), self.table))


@jax.custom_vjp
def _form(x: Float[Array, "*b n"], symmetric: Float[Array, "n n"]) -> Float[Array, "*b 1"]:
    """The quadratic form xᵀ S x."""
    return _form_forward(x, symmetric)[0]


def _form_forward(x: Array, symmetric: Array) -> tuple[Array, tuple[Array, Array]]:
    projected = _exact(x, symmetric)
    return jnp.sum(projected * x, axis=-1, keepdims=True), (x, projected)


def _form_reverse(kept: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    x, projected = kept
    rows, weighed = (y.reshape(-1, x.shape[-1]) for y in (x, g * x))
    return 2 * g * projected, _exact(rows.T, weighed)


_form.defvjp(_form_forward, _form_reverse)


def _exact(x: Array, y: Array) -> Array:
    """A product in full precision also where products are otherwise rounded."""
    return jnp.matmul(x, y, precision=jax.lax.Precision.HIGHEST)
