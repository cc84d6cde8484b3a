"""Reservoir: release water down a chain of reservoirs to keep each level within its bounds."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ilbo.errors import UserError
from ilbo.mdp.laws.gamma import Gamma
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Origin, Problem
from ilbo.mdp.shapes import Action, Noise, State

EVAPORATION = 0.05
LOW_PENALTY, HIGH_PENALTY = -5.0, -10.0


class Reservoir(Model):
    """Level of each reservoir of a chain; the action is the outflow, at most the level.

    What leaves reservoir i, released or overflowing, reaches reservoir i + 1. The reward is on the
    next level: a linear penalty below the lower and above the upper bound.
    """

    rain_scale: Float[Array, " n"]
    capacity: Float[Array, " n"]
    lower: Float[Array, " n"]
    upper: Float[Array, " n"]
    law: Gamma

    def transition(self, state: State, action: Action, noise: Noise) -> State:
        rain = self.rain_scale * noise
        evaporated = EVAPORATION * (state / self.capacity) ** 2 * state
        overflow = jnp.maximum(0.0, state - action - self.capacity)
        leaving = action + overflow
        inflow = jnp.concatenate([jnp.zeros(1), leaving[:-1]])
        return jnp.maximum(0.0, state + rain - evaporated - leaving + inflow)

    def reward(self, state: State, action: Action, next_state: State) -> Float[Array, ""]:
        below = jnp.maximum(0.0, self.lower - next_state)
        above = jnp.maximum(0.0, next_state - self.upper)
        return jnp.sum(LOW_PENALTY * below + HIGH_PENALTY * above)

    def costs(self, state: State, action: Action, next_state: State) -> dict[str, Float[Array, ""]]:
        """How far the highest level is above its upper bound, the lowest below its lower one."""
        return {
            "above": jnp.max(next_state - self.upper),
            "below": jnp.max(self.lower - next_state),
        }

    def bounds(self, state: State) -> tuple[Action, Action]:
        return jnp.zeros_like(state), jnp.maximum(state, 0.0)

    def heuristic(self, state: State) -> Action:
        """Release what is above 1.3 times the lower bound."""
        return jnp.clip(state - 1.3 * self.lower, 0.0, state)


def chain(name: str, facts: dict[str, Any], origin: Origin) -> Problem:
    capacity = jnp.array(facts["max_res_cap"])
    size = len(capacity)
    model = Reservoir(
        rain_scale=jnp.array(facts["rain_scale"]),
        capacity=capacity,
        lower=jnp.array(facts["lower_bound"]),
        upper=jnp.array(facts["upper_bound"]),
        law=Gamma(jnp.array(facts["rain_shape"])),
    )
    return Problem(
        model,
        name=name,
        origin=origin,
        initial_state=facts["initial_level"],
        horizon=facts["horizon"],
        discount=facts["discount"],
        region=(0.0, capacity),
        domain=(0.0, np.inf),
        state_names=tuple(f"level {i + 1}" for i in range(size)),
        action_names=tuple(f"outflow {i + 1}" for i in range(size)),
    )


def reservoir(n: int, seed: int = 0) -> Problem:
    """A chain of n reservoirs whose figures are drawn from the ranges of the published instances.

    Args:
        n: Number of reservoirs, 1 to 1,000.
        seed: Seed of the draw; the same (n, seed) is the same problem.
    """
    if not 1 <= n <= 1000:
        raise UserError(f"A reservoir chain has 1 to 1,000 reservoirs, not {n}.")
    draw = np.random.default_rng(seed)
    capacity = draw.uniform(360, 1000, n)
    level = np.full(n, 50.0)
    level[0] = 75.0
    return chain(
        f"reservoir({n}, {seed})",
        {
            "rain_shape": draw.uniform(1, 3, n),
            "rain_scale": draw.uniform(1, 10, n),
            "max_res_cap": capacity,
            "upper_bound": capacity * draw.uniform(0.75, 0.87, n),
            "lower_bound": capacity * draw.uniform(0.10, 0.15, n),
            "initial_level": level,
            "horizon": 40,
            "discount": 1.0,
        },
        Origin("built-in"),
    )
