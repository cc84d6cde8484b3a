"""The critic Q_ψ: a layer-normalised ReLU network on normalised states and actions."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from ilbo.mdp.bounds import bounds_at, in_units_of_bounds
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Problem
from ilbo.nn.components import Components
from ilbo.nn.mlp import MLP, Dense
from ilbo.nn.parameters import Parameters, fixed, unpack
from ilbo.nn.policy import Scaling

ENCODING = 32
"""Units that encode the state, and the action, before the critic's hidden layers."""


class CriticNetwork(eqx.Module):
    """Hidden layers behind an encoding of the state and one of the action."""

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
        return self.hidden(jax.nn.relu(jnp.concatenate(encoded, axis=-1)))[..., 0]

    def fixed(self) -> CriticNetwork:
        return eqx.tree_at(lambda network: network.hidden, self, self.hidden.fixed())


class SharedCriticNetwork(eqx.Module):
    """The mean over components of one network that all of them share."""

    each: MLP

    def __call__(
        self, seen: Float[Array, "*b n inputs"], action: Float[Array, "*b n actions"]
    ) -> Float[Array, "*b"]:
        return jnp.mean(self.each(jnp.concatenate([seen, action], axis=-1))[..., 0], axis=-1)

    def fixed(self) -> SharedCriticNetwork:
        return eqx.tree_at(lambda network: network.each, self, self.each.fixed())


@functools.lru_cache
def _shared_shape_of(inputs: int, layers: tuple[int, ...]) -> SharedCriticNetwork:
    def draw(key: Key[Array, ""]) -> SharedCriticNetwork:
        return SharedCriticNetwork(MLP.init(key, inputs, layers, 1, gain=0.1))

    return jax.eval_shape(draw, jax.random.key(0))


@functools.lru_cache
def _shape_of(states: int, actions: int, layers: tuple[int, ...]) -> CriticNetwork:
    def draw(key: Key[Array, ""]) -> CriticNetwork:
        return CriticNetwork.init(key, states, actions, layers)

    return jax.eval_shape(draw, jax.random.key(0))


class Critic(eqx.Module):
    """Q_ψ(s, a) with the time left as a further input, in units of the reward scale.

    A stationary critic is one that is always shown the same time.
    """

    network: CriticNetwork | SharedCriticNetwork
    scaling: Scaling
    model: Model
    components: Components | None = None
    """What it sees of each component, where it shares what it knows between them."""

    @classmethod
    def init(
        cls,
        key: Key[Array, ""],
        problem: Problem,
        layers: Sequence[int],
        parts: Components | None = None,
    ) -> Critic:
        """With a fresh network."""
        if parts is not None:
            shared = SharedCriticNetwork(MLP.init(key, parts.inputs + 4, layers, 1, gain=0.1))
            return cls(shared, Scaling.of(problem), problem.model, parts)
        network = CriticNetwork.init(key, problem.state_size + 1, problem.action_size, layers)
        return cls(network, Scaling.of(problem), problem.model)

    @classmethod
    def of(
        cls,
        parameters: Parameters,
        problem: Problem,
        layers: tuple[int, ...],
        parts: Components | None = None,
    ) -> Critic:
        """With the network of these parameters."""
        if parts is not None:
            shared = unpack(parameters, _shared_shape_of(parts.inputs + 4, layers))
            return cls(shared, Scaling.of(problem), problem.model, parts)
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
        if self.components is not None:
            return self._shared(state, action, time_left, time)
        seen = jnp.concatenate([self.scaling(state), 2 * time_left[..., None] - 1], axis=-1)
        bounds = bounds_at(self.model, state, time)
        return self.network(
            seen.astype(jnp.float32), in_units_of_bounds(action, *bounds).astype(jnp.float32)
        )

    def _shared(self, state: Array, action: Array, time_left: Array, time: Any) -> Array:
        assert self.components is not None
        seen = self.components.see(self.scaling(state).astype(jnp.float32))
        units = in_units_of_bounds(action, *bounds_at(self.model, state, time)).astype(jnp.float32)
        mixing = self.components.mixing
        left = jnp.broadcast_to(2 * time_left[..., None] - 1, units.shape)
        columns = [units, units @ mixing[0].T, units @ mixing[2].T, left.astype(jnp.float32)]
        return self.network(seen, jnp.stack(columns, axis=-1))
