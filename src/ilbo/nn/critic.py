"""The critic Q_ψ: a layer-normalised ReLU network on normalised states and actions."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ilbo.mdp.bounds import in_units_of_bounds
from ilbo.nn.layers import MLP, Dense
from ilbo.nn.policy import OnProblem

ENCODING = 32
"""Units that encode the state, and the action, before the critic's hidden layers."""


class CriticNetwork(eqx.Module):
    """Hidden layers behind an encoding of the state and one of the action."""

    encode_state: Dense
    encode_action: Dense
    hidden: MLP

    @classmethod
    def init(cls, key: Key[Array, ""], states: int, actions: int, layers: Sequence[int]):
        key_state, key_action, key = jax.random.split(key, 3)
        return cls(
            Dense.init(key_state, states, ENCODING, gain=2**0.5),
            Dense.init(key_action, actions, ENCODING, gain=2**0.5),
            MLP.init(key, 2 * ENCODING, layers, 1, gain=0.1),
        )

    def __call__(self, state: Float[Array, "*b n"], action: Float[Array, "*b m"]) -> Array:
        encoded = [self.encode_state(state), self.encode_action(action)]
        return self.hidden(jax.nn.relu(jnp.concatenate(encoded, axis=-1)))[..., 0]


class Critic(OnProblem):
    """Q_ψ(s, a) with the time left as a further input, in units of the reward scale.

    A stationary critic is one that is always shown the same time.
    """

    @staticmethod
    def draw(
        key: Key[Array, ""], states: int, actions: int, layers: Sequence[int]
    ) -> CriticNetwork:
        return CriticNetwork.init(key, states + 1, actions, layers)

    def __call__(
        self, state: Float[Array, "*b n"], action: Float[Array, "*b m"], time_left: Array
    ) -> Float[Array, "*b"]:
        """Args: state, action, time_left [*b]: share of the horizon that remains, in [0, 1]."""
        seen = jnp.concatenate([self.scaling(state), 2 * time_left[..., None] - 1], axis=-1)
        return self.network(seen, in_units_of_bounds(action, *self.bounds(state)))
