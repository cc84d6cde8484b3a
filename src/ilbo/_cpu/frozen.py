"""A network at fixed parameters, for long chains of gradients in its inputs alone.

The same function as hidden layers and a linear output, arranged for speed where one batch of a few
states after another passes through it, forward and in reverse:

- A layer norm takes the mean off its inputs. Here it is taken off the columns of the weights
  beforehand, which comes to the same and leaves one reduction a layer, in each direction.
- What does not change from step to step is laid out once, behind a barrier: without it XLA would
  fold it into each use again.
- Each layer keeps what its reverse pass reads, and nothing else: see `KEPT`.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.lax import optimization_barrier
from jaxtyping import Array, Float

from ilbo._cpu.layers import LEAST_VARIANCE, Arrays, Folded
from ilbo._cpu.products import across, row_mean, times, times_transposed

KEPT = "activations"
"""Name of what a reverse pass needs, for `jax.checkpoint` to keep."""


class FrozenLayer(eqx.Module):
    """A hidden layer; each row of its weights, and its bias, has mean 0."""

    weight: Float[Array, "inputs outputs"]
    others: Float[Array, "3 outputs"]
    """Bias, scale and shift in one array, so that fewer arrays are laid out."""
    average: Float[Array, " outputs"]
    """Row means are products with it."""

    @classmethod
    def of(cls, layer: Arrays) -> FrozenLayer:
        weight = layer.weight - row_mean(layer.weight)
        others = jnp.stack([layer.bias, layer.scale, layer.shift])
        others -= row_mean(others) * np.array([[1.0], [0.0], [0.0]], np.float32)
        average = jnp.full(len(layer.scale), 1 / len(layer.scale), layer.scale.dtype)
        return optimization_barrier(cls(weight, others, average))


class Frozen(eqx.Module):
    """Hidden layers and a linear output at fixed parameters."""

    first: Folded | None
    """The first layer, where it is much wider than its inputs: nothing but these is kept."""
    hidden: tuple[FrozenLayer, ...]
    """The others."""
    output: Float[Array, "outputs inputs"]
    """Transposed, which is faster for few outputs."""
    bias: Float[Array, " outputs"]

    @classmethod
    def of(
        cls,
        layers: Sequence[Arrays],
        weight: Float[Array, "inputs outputs"],
        bias: Float[Array, " outputs"],
    ) -> Frozen:
        folded = optimization_barrier(Folded.of(layers[0])) if layers[0].is_wide else None
        return cls(
            folded,
            tuple(FrozenLayer.of(layer) for layer in layers[folded is not None :]),
            optimization_barrier(weight.T),
            bias,
        )

    def __call__(self, x: Float[Array, "*b inputs"]) -> Float[Array, "*b outputs"]:
        if self.first:
            x = self.first(x)
        return _through(x, self)


Activations = list[tuple[Array, Array]]


def _forward(x: Array, network: Frozen) -> tuple[Array, tuple[Activations, Frozen]]:
    kept = []
    for layer in network.hidden:
        bias, scale, shift = layer.others
        y = checkpoint_name(times(x, layer.weight) + bias, KEPT)
        variance = ((y * y) @ layer.average)[..., None]
        factor = checkpoint_name(jax.lax.rsqrt(variance + LEAST_VARIANCE), KEPT)
        kept.append((y, factor))
        x = jax.nn.relu(y * factor * scale + shift)
    output = checkpoint_name(across(x, network.output) + network.bias, KEPT)
    return output, (kept, network)


def _reverse(saved: tuple[Activations, Frozen], g: Array) -> tuple[Array, None]:
    kept, network = saved
    g = g @ network.output
    for layer, (y, factor) in zip(reversed(network.hidden), reversed(kept), strict=True):
        _, scale, shift = layer.others
        normal = y * factor
        g = jnp.where(normal * scale + shift > 0, g * scale, 0.0)
        # Of the derivative of the norm, the mean of g is missing: the centred weights remove it.
        slope = factor * (g - normal * ((g * normal) @ layer.average)[..., None])
        g = times_transposed(slope, layer.weight)
    return g, None


@jax.custom_vjp
def _through(x: Array, network: Frozen) -> Array:
    return _forward(x, network)[0]


_through.defvjp(_forward, _reverse)
