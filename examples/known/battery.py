"""A battery that trades on hourly prices known a day ahead; the optimum is a linear program's."""

import jax.numpy as jnp
import numpy as np
from scipy.optimize import linprog

import ilbo
from known import Known, Truth

DAY = [42.0, 38, 35, 33, 33, 36, 48, 67, 78, 72, 61, 52, 45, 40, 38, 41, 53, 74, 95, 99, 88, 70]
PRICES = np.array([*DAY, 57.0, 48, *(np.array(DAY) * 0.8 + 20), 62.0, 50], np.float32)
"""€/MWh in each of 48 hours."""
CAPACITY, POWER, KEPT = 10.0, 4.0, 0.9
"""MWh; MWh in an hour; share of what is bought that arrives."""


class Battery(ilbo.Model):
    """The energy held and the hour; the action is the energy sold, below 0 bought."""

    law = ilbo.Gaussian(0)

    def transition(self, state, action, noise):
        energy, hour = state
        moved = jnp.where(action[0] > 0, action[0], KEPT * action[0])
        return jnp.stack([jnp.clip(energy - moved, 0, CAPACITY), hour + 1])

    def reward(self, state, action, next_state):
        hour = jnp.clip(state[1], 0, len(PRICES) - 1).astype(int)
        return jnp.asarray(PRICES)[hour] * action[0]

    def bounds(self, state):
        room = (CAPACITY - state[0]) / KEPT
        return -jnp.minimum(POWER, room)[None], jnp.minimum(POWER, state[0])[None]


def best_trades() -> np.ndarray:
    """The energy sold in each hour where buying b_t and selling s_t earns most while the energy
    stays within its limits."""
    hours = len(PRICES)
    until = np.tril(np.ones((hours, hours)))
    held = np.concatenate([KEPT * until, -until], axis=1)  # after each hour, from (b, s)
    found = linprog(
        np.concatenate([PRICES, -PRICES]),
        A_ub=np.concatenate([held, -held]),
        b_ub=np.concatenate([np.full(hours, CAPACITY), np.zeros(hours)]),
        bounds=(0, POWER),
    )
    return found.x[hours:] - found.x[:hours]


def battery() -> Known:
    problem = ilbo.Problem(
        Battery(),
        name="battery",
        initial_state=[0.0, 0.0],
        horizon=len(PRICES),
        region=([0.0, 0.0], [CAPACITY, len(PRICES) - 1.0]),
        domain=([0.0, 0.0], [CAPACITY, float(len(PRICES))]),
    )
    value = float(best_trades() @ PRICES)
    return Known(problem, lambda: Truth(value, "linear program"), episodes=16)
