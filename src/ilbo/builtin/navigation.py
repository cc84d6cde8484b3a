"""Navigation: reach a goal in the plane through zones that slow every move down."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ilbo.mdp.laws.gaussian import Gaussian
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Origin, Problem
from ilbo.mdp.shapes import Action, Noise, State


class Navigation(Model):
    """Location in the plane; the action is a move in [−1, 1]².

    The move is multiplied by the deceleration 2 / (1 + exp(−decay · distance)) − 1 of each zone
    and blurred by Gaussian noise; the reward is minus the distance from the goal.
    """

    goal: Float[Array, " 2"]
    centers: Float[Array, "zones 2"]
    decays: Float[Array, " zones"]
    move_variance: Float[Array, " 2"]
    law = Gaussian(2)

    def deceleration(self, location: Float[Array, " 2"]) -> Float[Array, ""]:
        """Fraction of a move that is left at the location."""
        distances = jax.vmap(lambda center: _norm(location - center))(self.centers)
        return jnp.prod(2 / (1 + jnp.exp(-self.decays * distances)) - 1)

    def transition(self, state: State, action: Action, noise: Noise) -> State:
        return state + self.deceleration(state) * action + jnp.sqrt(self.move_variance) * noise

    def reward(self, state: State, action: Action, next_state: State) -> Float[Array, ""]:
        return -_norm(self.goal - state)

    def bounds(self, state: State) -> tuple[Action, Action]:
        return -jnp.ones(2), jnp.ones(2)

    def heuristic(self, state: State) -> Action:
        """Straight at the goal on each axis, as far as a move goes."""
        return jnp.clip(self.goal - state, -1.0, 1.0)


def _norm(vector: Float[Array, " n"]) -> Float[Array, ""]:
    """Euclidean norm with gradient 0, not NaN, at the origin."""
    square = jnp.sum(vector**2)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def navigation(name: str, facts: dict[str, Any], origin: Origin) -> Problem:
    model = Navigation(
        goal=jnp.array(facts["goal"]),
        centers=jnp.array([zone["center"] for zone in facts["zones"]]),
        decays=jnp.array([zone["decay"] for zone in facts["zones"]]),
        move_variance=jnp.array(facts["move_variance"]),
    )
    return Problem(
        model,
        name=name,
        origin=origin,
        initial_state=facts["initial_location"],
        horizon=facts["horizon"],
        discount=facts["discount"],
        region=(0.0, 20.0),
        state_names=("x", "y"),
        action_names=("move x", "move y"),
    )
