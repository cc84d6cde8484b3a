"""Models: continuous MDPs as pure functions of explicit noise."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from ilbo.errors import UserError
from ilbo.mdp import density
from ilbo.mdp.laws.law import Law
from ilbo.mdp.shapes import Action, Noise, State


class Model(eqx.Module):
    """A continuous MDP as pure functions of explicit noise.

    All methods take single, unbatched arrays and are traced by JAX; batching is `jax.vmap`.
    A subclass sets `law`, the law of the noise ξ of one step, which may not depend on the state or
    the action, and writes `transition`, `reward` and `bounds`; the rest has defaults.
    """

    if TYPE_CHECKING:  # at run time a class attribute or a field, as suits the subclass

        @property
        def law(self) -> Law: ...

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
