"""The policy μ_θ and the critic Q_ψ: layer-normalised ReLU networks on normalised inputs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ilbo.layers import MLP, Dense, Packed, unpack
from ilbo.model import Model, Problem

ENCODING = 32
"""Units that encode the state, and the action, before the critic's hidden layers."""


class Scaling(eqx.Module):
    """Maps the problem's start region onto [−1, 1]."""

    center: Float[Array, " n"]
    half: Float[Array, " n"]

    @classmethod
    def of(cls, problem: Problem) -> Scaling:
        low, high = problem.region
        half = (high - low) / 2
        return cls((low + high) / 2, jnp.where(half > 0, half, 1.0))

    def __call__(self, state: Array) -> Array:
        return (state - self.center) / self.half


class OnProblem(eqx.Module):
    """A network with what it must know of a problem; states and actions may have leading axes."""

    network: Any
    """What `draw` gives, or another way to compute the same."""
    scaling: Scaling
    model: Model

    @staticmethod
    def draw(key: Key[Array, ""], states: int, actions: int, layers: Sequence[int]) -> Any:
        """A fresh network for so many components."""
        raise NotImplementedError

    @classmethod
    def init(cls, key: Key[Array, ""], problem: Problem, layers: Sequence[int]) -> Self:
        network = cls.draw(key, problem.state_size, problem.action_size, layers)
        return cls(network, Scaling.of(problem), problem.model)

    @classmethod
    def of(cls, packed: Packed, problem: Problem, layers: tuple[int, ...]) -> Self:
        """With the network of these parameters."""
        shape = shape_of(cls, problem.state_size, problem.action_size, layers)
        return cls(unpack(packed, shape), Scaling.of(problem), problem.model)

    @classmethod
    def blank(cls, problem: Problem, layers: tuple[int, ...]) -> Self:
        """With a network of zeros, for programs that are to be ready in time; compiles nothing."""
        shape = shape_of(cls, problem.state_size, problem.action_size, layers)
        zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shape)
        return cls(jax.device_put(zeros), Scaling.of(problem), problem.model)

    def bounds(self, state: Float[Array, "*b n"]) -> tuple[Array, Array]:
        """The model's action bounds [*b, m]."""
        return jnp.vectorize(self.model.bounds, signature="(n)->(m),(m)")(state)


@functools.lru_cache
def shape_of(kind: type[OnProblem], states: int, actions: int, layers: tuple[int, ...]) -> Any:
    """A network with the shapes of its parameters in their places."""
    return jax.eval_shape(lambda key: kind.draw(key, states, actions, layers), jax.random.key(0))


class Policy(OnProblem):
    """A deep reactive policy: state [n] → action [m] within the model's bounds at the state."""

    @staticmethod
    def draw(key: Key[Array, ""], states: int, actions: int, layers: Sequence[int]) -> MLP:
        return MLP.init(key, states, layers, actions, gain=0.1)

    def __call__(self, state: Float[Array, "*b n"]) -> Float[Array, "*b m"]:
        return into_bounds(self.network(self.scaling(state)), *self.bounds(state))


def into_bounds(x: Array, low: Array, high: Array) -> Array:
    """Maps real numbers into [low, high]; a bound may be infinite.

    Between two bounds by a logistic curve, beyond a single one by softplus, else unchanged.
    """
    has_low, has_high = jnp.isfinite(low), jnp.isfinite(high)
    floor, ceiling = jnp.where(has_low, low, 0.0), jnp.where(has_high, high, 0.0)
    both = floor + (ceiling - floor) * jax.nn.sigmoid(x)
    one = jnp.where(has_low, floor + jax.nn.softplus(x), ceiling - jax.nn.softplus(-x))
    return jnp.where(has_low & has_high, both, jnp.where(has_low | has_high, one, x))


def in_units_of_bounds(action: Array, low: Array, high: Array) -> Array:
    """Maps [low, high] onto [−1, 1]; where a bound is infinite, or the two are equal, x − bound."""
    has_low, has_high = jnp.isfinite(low), jnp.isfinite(high)
    floor, ceiling = jnp.where(has_low, low, 0.0), jnp.where(has_high, high, 0.0)
    both = has_low & has_high & (high > low)
    middle = jnp.where(both, (floor + ceiling) / 2, floor + ceiling)
    half = jnp.where(both, (ceiling - floor) / 2, 1.0)
    return (action - middle) / half


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
