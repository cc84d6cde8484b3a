"""The deep reactive policy μ_θ: a network on normalised states, its output in the bounds."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ilbo.errors import UserError
from ilbo.mdp.bounds import FixedBounds, bounds_at, into_bounds
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Problem
from ilbo.mdp.widened import Widened
from ilbo.nn.calling import call
from ilbo.nn.components import Components
from ilbo.nn.mlp import MLP
from ilbo.nn.parameters import Parameters, fixed, unpack
from ilbo.nn.shared import SharedLayers, SharedNetwork
from ilbo.nn.timed import AroundPlan, TimedLayers

Maker = Callable[[Key[Array, ""], int, int], Any]
"""(key, inputs, outputs) → a module [inputs] → [outputs], drawn by the key."""


@dataclass(frozen=True)
class Layers:
    """Makes an `MLP` with these hidden layers."""

    sizes: tuple[int, ...]

    def __call__(self, key: Key[Array, ""], inputs: int, outputs: int) -> MLP:
        return MLP.init(key, inputs, self.sizes, outputs, gain=0.1)


def plain_maker(layers: tuple[int, ...], problem: Problem) -> Maker:
    """Makes networks of these hidden layers, that see the time where the model does."""
    return TimedLayers(layers, problem.horizon) if problem.sees_time else Layers(layers)


class PerState(eqx.Module):
    """A module [inputs] → [outputs], mapped over leading axes."""

    module: Any

    def __call__(self, x: Float[Array, "*b inputs"]) -> Float[Array, "*b outputs"]:
        return jnp.vectorize(self.module, signature="(n)->(m)")(x)


def make_network(make: Maker, key: Key[Array, ""], inputs: int, outputs: int) -> Any:
    """A fresh network that takes leading axes."""
    network = make(key, inputs, outputs)
    return network if isinstance(network, MLP | AroundPlan | SharedNetwork) else PerState(network)


def sees_time(make: Maker) -> bool:
    """Whether the networks made take the share of the episode that is gone as their last input."""
    return isinstance(make, TimedLayers)


@functools.lru_cache
def shape_of(make: Maker, inputs: int, outputs: int) -> Any:
    """The network with the shapes of its parameters in their places."""

    def draw(key: Key[Array, ""]) -> Any:
        return make_network(make, key, inputs, outputs)

    shape = eqx.filter_eval_shape(draw, jax.random.key(0))
    for leaf in jax.tree.leaves(shape):
        if isinstance(leaf, jax.ShapeDtypeStruct) and not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise UserError(
                f"The policy's network holds an array of {leaf.dtype}: it may hold arrays of "
                "floating-point numbers, which are learnt, and plain Python values."
            )
    if not isinstance(shape, PerState):
        return shape
    states = jax.ShapeDtypeStruct((inputs,), jnp.float32)
    output = eqx.filter_eval_shape(lambda network, x: network(x), shape, states)
    if output.shape != (outputs,):
        raise UserError(
            f"The policy's network gives an output of shape {output.shape} for {inputs} inputs; "
            f"it must be ({outputs},)."
        )
    return shape


class Scaling(eqx.Module):
    """Maps the problem's start region onto [−1, 1]."""

    center: Float[Array, " n"]
    half: Float[Array, " n"]

    @classmethod
    def of(cls, problem: Problem) -> Scaling:
        low, high = problem.region
        half = (high - low) / 2
        return cls((low + high) / 2, jnp.where(half > 0, half, 1.0))

    def __call__(self, state: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
        return ((state - self.center) / self.half).astype(self.half.dtype)


class Policy(eqx.Module):
    """A deep reactive policy: state [n] → action [m] within the model's bounds at the state.

    One that sees the time (`timed`) is called with the number of steps taken so far as well. States
    may have leading axes, and times then too.
    """

    network: Any
    """Normalised state [*b, n] → what is mapped into the bounds [*b, m]; where the policy sees the
    time, the share of the episode that is gone is a further input."""
    scaling: Scaling
    model: Model | FixedBounds
    """What knows the action bounds."""
    horizon: int | None = eqx.field(static=True, default=None)
    """Steps of an episode, where the policy sees the time."""
    components: Components | None = None
    """What it sees of each component, where it shares what it knows between them."""
    sees_return: bool = eqx.field(static=True, default=False)
    """Whether the return so far stands after the state that it is given."""
    sees_drawn: bool = eqx.field(static=True, default=False)
    """Whether the parameters that were drawn for the episode do."""

    @classmethod
    def init(
        cls, key: Key[Array, ""], problem: Problem, make: Maker, parts: Components | None = None
    ) -> Policy:
        """With a fresh network."""
        network = make_network(make, key, _inputs(problem, make, parts), problem.action_size)
        return cls.with_network(network, problem, make, parts)

    @classmethod
    def of(
        cls, parameters: Parameters, problem: Problem, make: Maker, parts: Components | None = None
    ) -> Policy:
        """With the network of these parameters."""
        shape = shape_of(make, _inputs(problem, make, parts), problem.action_size)
        return cls.with_network(unpack(parameters, shape), problem, make, parts)

    @classmethod
    def blank(cls, problem: Problem, make: Maker, parts: Components | None = None) -> Policy:
        """With a network of zeros, for programs that are compiled ahead; compiles nothing."""
        shape = shape_of(make, _inputs(problem, make, parts), problem.action_size)

        def zeros(leaf: Any) -> Any:
            known = isinstance(leaf, jax.ShapeDtypeStruct)
            return jax.device_put(np.zeros(leaf.shape, leaf.dtype)) if known else leaf

        return cls.with_network(jax.tree.map(zeros, shape), problem, make, parts)

    @classmethod
    def with_network(
        cls, network: Any, problem: Problem, make: Maker, parts: Components | None = None
    ) -> Policy:
        """With this network, which `make` made."""
        horizon = problem.horizon if sees_time(make) else None
        return cls(
            network, Scaling.of(problem), problem.model, horizon, parts, *_sight(problem.model)
        )

    @property
    def timed(self) -> bool:
        """Whether it sees the time."""
        return self.horizon is not None

    @property
    def goes_anywhere(self) -> bool:
        """Whether it can be used on problems of another number of components."""
        return self.components is not None and self.network.whole is None

    def on(self, problem: Problem) -> Policy:
        """The same policy on another problem of the same model, of any number of components."""
        if not self.goes_anywhere:
            raise UserError(
                f"This policy sees the state as a whole and cannot go to {problem.name}: one that "
                "can is trained with the setting policy=shared."
            )
        parts = Components.of(problem, self.components)
        return Policy(self.network, Scaling.of(problem), problem.model, None, parts)

    def fixed(self) -> Policy:
        """The same policy at fixed parameters, fast to differentiate in the state."""
        return eqx.tree_at(lambda p: p.network, self, fixed(self.network))

    def bounds(self, state: Float[Array, "*b n"], time: Any = None) -> tuple[Array, Array]:
        """The model's action bounds [*b, m] after `time` [*b] steps."""
        return bounds_at(self.model, state, time)

    def inputs(self, state: Float[Array, "*b n"], time: Any = None) -> Float[Array, "..."]:
        """What the network sees of a state [*b, n] after `time` [*b] steps: [*b, inputs], or
        [*b, n, inputs] of the components where they share."""
        x = self.scaling(state)
        if self.components is not None:
            return self.components.see(x)
        if self.horizon is None:
            return x
        gone = jnp.asarray(time, x.dtype) / self.horizon
        return jnp.concatenate([x, jnp.broadcast_to(gone, x.shape[:-1])[..., None]], axis=-1)

    def __call__(self, state: Any, time: Any = None) -> Float[Array, "*b m"]:
        """The action [*b, m] at a state [*b, n]: an array of JAX's or NumPy's, or a list.

        A policy that sees the time is given the number of steps taken so far as well, [*b].
        """
        if self.timed and time is None:
            raise UserError(
                "This policy sees the time: call it as policy(state, time), with the number of "
                "steps taken so far."
            )
        times = (time,) if self.timed else ()
        return call(self, Policy.plain, self.scaling.center.shape[-1], state, *times)

    def __hash__(self) -> int:
        return id(self)  # `jax.jit(policy)` needs one; arrays have none

    def __eq__(self, other: object) -> Any:
        return self is other or super().__eq__(other)

    def plain(self, state: Float[Array, "*b n"], time: Any = None) -> Float[Array, "*b m"]:
        """The same, as its equations say, operation by operation."""
        return into_bounds(self.network(self.inputs(state, time)), *self.bounds(state, time))


def _sight(model: Model) -> tuple[bool, bool]:
    """What a policy of this model sees beside the state: the return so far, drawn parameters."""
    if not isinstance(model, Widened):
        return False, False
    return model.earned, model.uncertain is not None


def _inputs(problem: Problem, make: Maker, parts: Components | None = None) -> int:
    if isinstance(make, SharedLayers):
        assert parts is not None
        return parts.inputs
    return problem.state_size + sees_time(make)
