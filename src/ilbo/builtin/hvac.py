"""HVAC: heat the rooms of a building into their comfort band."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ilbo.mdp.laws.gaussian import Gaussian
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Origin, Problem
from ilbo.mdp.shapes import Action, Noise, State

R_OUTSIDE, R_HALL, R_WALL = 4.0, 2.0, 1.5
CAP, CAP_AIR, COST_AIR, TIME_DELTA = 80.0, 1.006, 1.0, 1.0
TEMP_AIR, TEMP_UP, TEMP_LOW = 40.0, 23.5, 20.0
TEMP_MIDDLE = (TEMP_UP + TEMP_LOW) / 2
PENALTY, AIR_MAX = 20_000.0, 10.0
OUTSIDE_MEAN, OUTSIDE_VARIANCE = 6.0, 1.0
HALL_MEAN, HALL_VARIANCE = 10.0, 3.0


class HVAC(Model):
    """Temperature of each room; the action is the heated air blown into it.

    Heat leaks to neighbours, outside and hall. The outside and hall terms stand inside the sum over
    spaces of the original instance, so each counts once per space, not once.
    """

    adjacent: Float[Array, "rooms rooms"]
    outside: Float[Array, " rooms"]
    """1 where the room has an outside wall."""
    hall: Float[Array, " rooms"]
    """1 where the room has a wall to the hall."""
    law: Gaussian

    def transition(self, state: State, action: Action, noise: Noise) -> State:
        rooms = len(state)
        temp_outside = OUTSIDE_MEAN + OUTSIDE_VARIANCE**0.5 * noise[:rooms]
        temp_hall = HALL_MEAN + HALL_VARIANCE**0.5 * noise[rooms:]
        heating = action * CAP_AIR * (TEMP_AIR - state)
        leak = (
            (self.adjacent @ state - jnp.sum(self.adjacent, axis=1) * state) / R_WALL
            + rooms * self.outside * (temp_outside - state) / R_OUTSIDE
            + rooms * self.hall * (temp_hall - state) / R_HALL
        )
        return state + TIME_DELTA / CAP * (heating + leak)

    def reward(self, state: State, action: Action, next_state: State) -> Float[Array, ""]:
        uncomfortable = (state < TEMP_LOW) | (state > TEMP_UP)
        return -jnp.sum(
            action * COST_AIR + PENALTY * uncomfortable + 10 * jnp.abs(TEMP_MIDDLE - state)
        )

    def costs(self, state: State, action: Action, next_state: State) -> dict[str, Float[Array, ""]]:
        """The heated air, and the degrees by which rooms are out of their comfort band."""
        outside = jnp.maximum(TEMP_LOW - next_state, 0.0) + jnp.maximum(next_state - TEMP_UP, 0.0)
        return {"energy": jnp.sum(action) * COST_AIR, "discomfort": jnp.sum(outside)}

    def bounds(self, state: State) -> tuple[Action, Action]:
        return jnp.zeros_like(state), jnp.full_like(state, AIR_MAX)

    def heuristic(self, state: State) -> Action:
        """The air that brings each room to the middle of its band."""
        return self.air_for(TEMP_MIDDLE, state)

    def air_for(self, wanted: float, state: State) -> Action:
        """The air that brings each room to a temperature in one step, noise aside."""
        drift = self.transition(state, jnp.zeros_like(state), jnp.zeros(self.law.size))
        per_air = TIME_DELTA / CAP * CAP_AIR * jnp.maximum(TEMP_AIR - state, 1e-3)
        return jnp.clip((wanted - drift) / per_air, 0.0, AIR_MAX)


def hvac(name: str, facts: dict[str, Any], origin: Origin) -> Problem:
    rooms = facts["rooms"]
    adjacent = np.zeros((rooms, rooms), np.float32)
    for i, j in facts["adjacent"]:
        adjacent[i, j] = adjacent[j, i] = 1
    outside, hall = (
        np.isin(np.arange(rooms), facts[wall]).astype(np.float32)
        for wall in ("adj_outside", "adj_hall")
    )
    model = HVAC(
        adjacent=jnp.asarray(adjacent),
        outside=jnp.asarray(outside),
        hall=jnp.asarray(hall),
        law=Gaussian(2 * rooms),
    )
    return Problem(
        model,
        name=name,
        origin=origin,
        initial_state=np.full(rooms, facts["initial_temp"]),
        horizon=facts["horizon"],
        discount=facts["discount"],
        region=(0.0, 30.0),
        state_names=tuple(f"room {i + 1}" for i in range(rooms)),
        action_names=tuple(f"air {i + 1}" for i in range(rooms)),
        state_units=("°C",) * rooms,
        action_units=("kg/s",) * rooms,
    )
