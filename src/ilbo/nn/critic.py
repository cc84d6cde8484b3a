"""The critic Q_ψ: a layer-normalised ReLU network on normalised states and actions."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from ilbo.mdp.bounds import bounds_at, in_units_of_bounds
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Problem
from ilbo.nn.mlp import MLP, Dense
from ilbo.nn.parameters import Parameters, fixed, unpack
from ilbo.nn.policy import Scaling

ENCODING = 32
"""Units that encode the state, and the action, before the critic's hidden layers."""


LINEAR = 500.0
"""Size up to which the output is nearly that of the hidden layers, in units of the reward scale."""


class CriticNetwork(eqx.Module):
    """Hidden layers behind an encoding of the state and one of the action.

    Their output z becomes c sinh(z / c). Weights move by a learning rate a step at the most, so
    that z stays within some thousand in a usual run, while values that differ by orders of
    magnitude, such as those of −1 / s, go beyond.
    """

    encode_state: Dense
    encode_action: Dense
    hidden: MLP

    @classmethod
    def init(
        cls, key: Key[Array, ""], states: int, actions: int, layers: Sequence[int]
    ) -> CriticNetwork:
        key_state, key_action, key = jax.random.split(key, 3)
        return cls(
            Dense.init(key_state, states, ENCODING, gain=2**0.5),
            Dense.init(key_action, actions, ENCODING, gain=2**0.5),
            MLP.init(key, 2 * ENCODING, layers, 1, gain=0.1),
        )

    def __call__(
        self, state: Float[Array, "*b n"], action: Float[Array, "*b m"]
    ) -> Float[Array, "*b"]:
        encoded = [self.encode_state(state), self.encode_action(action)]
        z = self.hidden(jax.nn.relu(jnp.concatenate(encoded, axis=-1)))[..., 0]
        return LINEAR * jnp.sinh(z / LINEAR)

    def fixed(self) -> CriticNetwork:
        return eqx.tree_at(lambda network: network.hidden, self, self.hidden.fixed())


@functools.lru_cache
def _shape_of(states: int, actions: int, layers: tuple[int, ...]) -> CriticNetwork:
    def draw(key: Key[Array, ""]) -> CriticNetwork:
        return CriticNetwork.init(key, states, actions, layers)

    return jax.eval_shape(draw, jax.random.key(0))


class Critic(eqx.Module):
    """Q_ψ(s, a) with the time left as a further input, in units of the reward scale.

    A stationary critic is one that is always shown the same time.
    """

    network: CriticNetwork
    scaling: Scaling
    model: Model

    @classmethod
    def init(cls, key: Key[Array, ""], problem: Problem, layers: Sequence[int]) -> Critic:
        """With a fresh network."""
        network = CriticNetwork.init(key, problem.state_size + 1, problem.action_size, layers)
        return cls(network, Scaling.of(problem), problem.model)

    @classmethod
    def of(cls, parameters: Parameters, problem: Problem, layers: tuple[int, ...]) -> Critic:
        """With the network of these parameters."""
        shape = _shape_of(problem.state_size + 1, problem.action_size, layers)
        return cls(unpack(parameters, shape), Scaling.of(problem), problem.model)

    def fixed(self) -> Critic:
        """The same critic at fixed parameters, fast to differentiate in state and action."""
        return eqx.tree_at(lambda c: c.network, self, fixed(self.network))

    def __call__(
        self,
        state: Float[Array, "*b n"],
        action: Float[Array, "*b m"],
        time_left: Float[Array, "*b"],
        time: Int[Array, "*b"] | None = None,
    ) -> Float[Array, "*b"]:
        """Args: state, action, time_left [*b]: share of the horizon that remains, in [0, 1]; time
        [*b]: steps taken so far, for a model that sees it."""
        seen = jnp.concatenate([self.scaling(state), 2 * time_left[..., None] - 1], axis=-1)
        bounds = bounds_at(self.model, state, time)
        return self.network(
            seen.astype(jnp.float32), in_units_of_bounds(action, *bounds).astype(jnp.float32)
        )
