"""Models: continuous MDPs as pure functions of explicit noise."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ilbo.errors import UserError
from ilbo.mdp import density
from ilbo.mdp.laws.law import Law
from ilbo.mdp.shapes import Action, Noise, State

MAY_SEE_TIME = (
    *("transition", "reward", "bounds", "log_density"),
    *("violations", "observe", "heuristic", "costs"),
)


@functools.cache
def timed_methods(kind: type) -> frozenset[str]:
    """Which methods of a class of models declare the time."""
    return frozenset(
        name
        for name in MAY_SEE_TIME
        if "time" in inspect.signature(inspect.unwrap(getattr(kind, name))).parameters
    )


class Model(eqx.Module):
    """A continuous MDP as pure functions of explicit noise.

    All methods take single, unbatched arrays and are traced by JAX; batching is `jax.vmap`.
    A subclass sets `law`, the law of the noise ξ of one step, which may not depend on the state or
    the action, and writes `transition`, `reward` and `bounds`; the rest has defaults.

    A method that declares a further argument `time`, such as
    `transition(self, state, action, noise, time)`, is given the number of steps taken so far, a
    whole number [] from 0 on.
    """

    if TYPE_CHECKING:  # at run time a class attribute or a field, as suits the subclass

        @property
        def law(self) -> Law: ...

    @property
    def sees_time(self) -> bool:
        """Whether one of its methods declares the time."""
        return bool(timed_methods(type(self)))

    def at(self, time: Any) -> Model:
        """The model at this step, with methods that need not be told; itself where none declares
        the time. None will do where what is called declares none."""
        return At(self, time) if self.sees_time else self

    def noise(self, key: Key[Array, ""]) -> Noise:
        """Draws the noise ξ [k] of one step."""
        return self.law.sample(key)

    @abstractmethod
    def transition(self, state: State, action: Action, noise: Noise) -> State:
        """The next state s' [n]: deterministic and differentiable given the noise."""

    @abstractmethod
    def reward(self, state: State, action: Action, next_state: State) -> Float[Array, ""]:
        """The reward r of the step."""

    @abstractmethod
    def bounds(self, state: State) -> tuple[Action, Action]:
        """Lowest and highest action [m] at the state; ±inf where there is no bound."""

    def log_density(self, state: State, action: Action, next_state: State) -> Float[Array, ""]:
        """ln T(s, a, s'), derived from `transition` and `law` where that can be done."""
        return density.log_density(self, state, action, next_state)

    def terminal(self, state: State) -> Bool[Array, ""]:
        """Whether the episode has ended in this state: no further reward."""
        return jnp.array(False)

    def costs(self, state: State, action: Action, next_state: State) -> dict[str, Float[Array, ""]]:
        """What a step costs beside its reward, by name: scalars, such as {"energy": action[0]}.
        Limits of the problem are on these."""
        return {}

    def parameters(self) -> dict[str, Any]:
        """The numbers of the model that may be set or be uncertain, by name: its fields."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if not field.metadata.get("static", False) and _is_number(getattr(self, field.name))
        }

    def preparing(self, names: Sequence[str]) -> Model:
        """A model that bears these parameters to be set as it runs."""
        return self

    def with_parameters(self, values: Mapping[str, Any]) -> Model:
        """The model with some of `parameters` changed."""
        return eqx.tree_at(
            lambda model: [getattr(model, name) for name in values], self, list(values.values())
        )

    def relaxed(self, factor: Float[Array, ""]) -> Model:
        """The model with its relaxation, where it has one, so many times as wide."""
        return self

    def violations(self, state: State, action: Action) -> Int[Array, ""]:
        """How many constraints that `bounds` cannot express the action breaks."""
        return jnp.array(0)

    def constraints(self) -> tuple[str, ...]:
        """What `violations` counts, in words; none where `broken` cannot tell them apart."""
        return ()

    def broken(self, state: State, action: Action) -> Int[Array, " constraints"]:
        """How many violations there are of each of `constraints`."""
        return jnp.zeros(0, int)

    def observe(self, state: State, action: Action) -> dict[str, Float[Array, ""]]:
        """Further quantities of a step that pictures show, by name: scalars."""
        return {}

    def draw(self, axes: Any, trajectories: Any) -> None:
        """Draws simulated episodes (`ilbo.Trajectories`) on Matplotlib's axes; a model that has
        this method is drawn by it, instead of a panel for each component."""
        raise NotImplementedError

    def heuristic(self, state: State) -> Action:
        """A hand-written controller, to compare trained policies with."""
        raise UserError(
            f"{type(self).__name__} has no hand-written controller: "
            "write its `heuristic` method or choose another policy."
        )


def _is_number(value: Any) -> bool:
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return jnp.issubdtype(value.dtype, jnp.floating)
    return isinstance(value, float)


class At(Model):
    """A model at one step: none of its methods takes the time."""

    model: Model
    time: Any

    @property
    def law(self) -> Law:
        return self.model.law

    def _told(self, method: str) -> tuple[Any, ...]:
        return (self.time,) if method in timed_methods(type(self.model)) else ()

    def noise(self, key: Key[Array, ""]) -> Noise:
        return self.model.noise(key)

    def transition(self, state: State, action: Action, noise: Noise) -> State:
        return self.model.transition(state, action, noise, *self._told("transition"))

    def reward(self, state: State, action: Action, next_state: State) -> Float[Array, ""]:
        return self.model.reward(state, action, next_state, *self._told("reward"))

    def bounds(self, state: State) -> tuple[Action, Action]:
        return self.model.bounds(state, *self._told("bounds"))

    def log_density(self, state: State, action: Action, next_state: State) -> Float[Array, ""]:
        if type(self.model).log_density is Model.log_density:
            return density.log_density(self, state, action, next_state)
        return self.model.log_density(state, action, next_state, *self._told("log_density"))

    def terminal(self, state: State) -> Bool[Array, ""]:
        return self.model.terminal(state)

    def violations(self, state: State, action: Action) -> Int[Array, ""]:
        return self.model.violations(state, action, *self._told("violations"))

    def observe(self, state: State, action: Action) -> dict[str, Float[Array, ""]]:
        return self.model.observe(state, action, *self._told("observe"))

    def costs(self, state: State, action: Action, next_state: State) -> dict[str, Float[Array, ""]]:
        return self.model.costs(state, action, next_state, *self._told("costs"))

    def heuristic(self, state: State) -> Action:
        return self.model.heuristic(state, *self._told("heuristic"))
