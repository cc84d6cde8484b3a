"""Networks at fixed parameters, for long chains of gradients in their inputs alone.

The same functions as those of `networks`, arranged for speed where one batch of a few states after
another passes through them, forward and in reverse:

- A layer norm takes the mean off its inputs. Here it is taken off the columns of the weights
  beforehand, which comes to the same and leaves one reduction a layer, in each direction.
- A reverse pass multiplies by the transposed weights, which are laid out once, not at every step.
- Each layer keeps what its reverse pass reads, and nothing else: see `KEPT`.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from ilbo.networks import LEAST_VARIANCE, MLP, Dense, Policy, row_mean

KEPT = "activations"
"""Name of what a reverse pass needs, for `jax.checkpoint` to keep."""


class FrozenDense(eqx.Module):
    """x W + b."""

    weight: Float[Array, "inputs outputs"]
    transposed: Float[Array, "outputs inputs"]
    bias: Float[Array, " outputs"]

    @classmethod
    def of(cls, dense: Dense, centred: bool = False) -> FrozenDense:
        weight, bias = dense.weight, dense.bias
        if centred:
            weight -= jnp.mean(weight, axis=1, keepdims=True)
            bias -= jnp.mean(bias)
        # Without barriers XLA folds these into each product again.
        weight = jax.lax.optimization_barrier(weight)
        return cls(weight, jax.lax.optimization_barrier(weight.T), bias)


class FrozenMLP(eqx.Module):
    """An `MLP` at fixed parameters."""

    hidden: tuple[FrozenDense, ...]
    """Centred: each row of the weights, and the bias, has mean 0."""
    scales: tuple[Float[Array, " outputs"], ...]
    shifts: tuple[Float[Array, " outputs"], ...]
    output: FrozenDense

    @classmethod
    def of(cls, network: MLP) -> FrozenMLP:
        return cls(
            tuple(FrozenDense.of(layer.dense, centred=True) for layer in network.hidden),
            tuple(layer.scale for layer in network.hidden),
            tuple(layer.shift for layer in network.hidden),
            FrozenDense.of(network.output),
        )

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        return _through(x, self)


def frozen(policy: Policy) -> Policy:
    """The same policy, quick to differentiate in the state."""
    return Policy(FrozenMLP.of(policy.network), policy.scaling, policy.model)


def _forward(x: Array, network: FrozenMLP):
    kept = []
    layers = zip(network.hidden, network.scales, network.shifts, strict=True)
    for dense, scale, shift in layers:
        y = x @ dense.weight + dense.bias
        y = checkpoint_name(y, KEPT)
        factor = checkpoint_name(jax.lax.rsqrt(row_mean(y * y) + LEAST_VARIANCE), KEPT)
        kept.append((y, factor))
        x = jax.nn.relu(y * factor * scale + shift)
    output = checkpoint_name(x @ network.output.weight + network.output.bias, KEPT)
    return output, (kept, network)


def _reverse(saved, g: Array):
    kept, network = saved
    g = g @ network.output.transposed
    layers = zip(network.hidden, network.scales, network.shifts, kept, strict=True)
    for dense, scale, shift, (y, factor) in reversed(list(layers)):
        normal = y * factor
        g = jnp.where(normal * scale + shift > 0, g * scale, 0.0)
        # Of the derivative of the norm, the mean of g is missing: the centred weights remove it.
        g = (factor * (g - normal * row_mean(g * normal))) @ dense.transposed
    return g, None


@jax.custom_vjp
def _through(x: Array, network: FrozenMLP) -> Array:
    return _forward(x, network)[0]


_through.defvjp(_forward, _reverse)
