"""Networks at fixed parameters, for long chains of gradients in their inputs alone.

The same functions as those of `networks`, arranged for speed where one batch of a few states after
another passes through them, forward and in reverse:

- A layer norm takes the mean off its inputs. Here it is taken off the columns of the weights
  beforehand, which comes to the same and leaves one reduction a layer, in each direction.
- What does not change from step to step is laid out once, behind a barrier: without it XLA would
  fold it into each use again.
- Each layer keeps what its reverse pass reads, and nothing else: see `KEPT`.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.lax import optimization_barrier
from jaxtyping import Array, Float

from ilbo.nn.critic import Critic
from ilbo.nn.layers import (
    LEAST_VARIANCE,
    MLP,
    Folded,
    Hidden,
    across,
    row_mean,
    times,
    times_transposed,
)
from ilbo.nn.policy import Policy

KEPT = "activations"
"""Name of what a reverse pass needs, for `jax.checkpoint` to keep."""


class FrozenHidden(eqx.Module):
    """A `Hidden` layer; each row of its weights, and its bias, has mean 0."""

    weight: Float[Array, "inputs outputs"]
    others: Float[Array, "3 outputs"]
    """Bias, scale and shift: in one array, the less to lay out."""
    average: Float[Array, " outputs"]
    """Row means are products with it."""

    @classmethod
    def of(cls, layer: Hidden) -> FrozenHidden:
        weight = layer.dense.weight - row_mean(layer.dense.weight)
        others = jnp.stack([layer.dense.bias, layer.scale, layer.shift])
        others -= row_mean(others) * np.array([[1.0], [0.0], [0.0]])
        average = jnp.full(len(layer.scale), 1 / len(layer.scale))
        return optimization_barrier(cls(weight, others, average))


class FrozenMLP(eqx.Module):
    """An `MLP` at fixed parameters."""

    first: Folded | None
    """The first layer, where it is much wider than its inputs: nothing but these is kept."""
    hidden: tuple[FrozenHidden, ...]
    """The others."""
    output: Float[Array, "outputs inputs"]
    """Transposed: of few outputs, this is the faster way round."""
    bias: Float[Array, " outputs"]

    @classmethod
    def of(cls, network: MLP) -> FrozenMLP:
        first = network.hidden[0].quick()
        folded = optimization_barrier(first) if isinstance(first, Folded) else None
        return cls(
            folded,
            tuple(FrozenHidden.of(layer) for layer in network.hidden[folded is not None :]),
            optimization_barrier(network.output.weight.T),
            network.output.bias,
        )

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        if self.first:
            x = self.first(x)
        return _through(x, self)


def frozen_policy(policy: Policy) -> Policy:
    """The same policy, quick to compute and to differentiate in the state."""
    return eqx.tree_at(lambda p: p.network, policy, FrozenMLP.of(policy.network))


def frozen_critic(critic: Critic) -> Critic:
    """The same critic, likewise in state and action."""
    hidden = FrozenMLP.of(critic.network.hidden)
    return eqx.tree_at(lambda c: c.network.hidden, critic, hidden)


def _forward(x: Array, network: FrozenMLP):
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


def _reverse(saved, g: Array):
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
def _through(x: Array, network: FrozenMLP) -> Array:
    return _forward(x, network)[0]


_through.defvjp(_forward, _reverse)
