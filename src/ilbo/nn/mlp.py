"""Multi-layer perceptrons with layer norms and ReLUs."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ilbo._cpu.frozen import Frozen
from ilbo._cpu.layers import Arrays, hidden
from ilbo._cpu.products import dense
from ilbo.mdp import sampling


class Dense(eqx.Module):
    """x W + b."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    @classmethod
    def init(cls, key: Key[Array, ""], inputs: int, outputs: int, gain: float = 1.0) -> Dense:
        limit = gain * (3 / inputs) ** 0.5
        rows = limit * (2 * sampling.uniform(key, (inputs + 1, outputs)) - 1)
        return cls(rows[:-1], rows[-1])

    def __call__(self, x: Float[Array, "*b inputs"]) -> Float[Array, "*b outputs"]:
        return dense(x, self.weight, self.bias)


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
        return cls(dense, jnp.ones(outputs, jnp.float32), jnp.zeros(outputs, jnp.float32))

    @property
    def arrays(self) -> Arrays:
        return Arrays(self.dense.weight, self.dense.bias, self.scale, self.shift)

    def __call__(self, x: Float[Array, "*b inputs"]) -> Float[Array, "*b outputs"]:
        return hidden(x, self.arrays)


class MLP(eqx.Module):
    """Hidden layers and a linear output; inputs may have leading axes."""

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

    @property
    def sizes(self) -> list[int]:
        """Of the hidden layers."""
        return [layer.dense.weight.shape[1] for layer in self.hidden]

    def __call__(self, x: Float[Array, "*b inputs"]) -> Float[Array, "*b outputs"]:
        for layer in self.hidden:
            x = layer(x)
        return self.output(x)

    def fixed(self) -> Frozen:
        """The same function at fixed parameters, fast to evaluate and to differentiate in x."""
        layers = [layer.arrays for layer in self.hidden]
        return Frozen.of(layers, self.output.weight, self.output.bias)
