"""The deep reactive policy μ_θ: a layer-normalised ReLU network on normalised states."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ilbo.mdp.bounds import into_bounds
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Problem
from ilbo.nn.layers import MLP, Packed, unpack


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
