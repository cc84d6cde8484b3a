"""Stocks that orders fill and random demand empties; what is missing is owed (backlog)."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import ilbo
from known import Known, Truth, by_grid

DISCOUNT, STEPS, JUDGED = 0.95, 50, 200
"""Planned on 50 steps, judged on 200, of which the last counts 4e-5."""
DEMAND, PRICE, HOLDING, OWED = 800.0, 35.0, 1.0, 15.0
"""The demand is uniform on [0, DEMAND]; costs of a unit ordered, held over a step, owed."""


class Stock(ilbo.Model):
    """The stock, below 0 what is owed; the action is what is ordered, which comes at once."""

    law = ilbo.Uniform(0.0, DEMAND)

    def transition(self, state, action, noise):
        return state + action - noise

    def reward(self, state, action, next_state):
        held, owed = jnp.maximum(next_state[0], 0), jnp.maximum(-next_state[0], 0)
        return -PRICE * action[0] - HOLDING * held - OWED * owed

    def bounds(self, state):
        return jnp.zeros(1), jnp.full(1, 1500.0)


class UpTo(eqx.Module):
    """Orders up to a level."""

    level: float

    def __call__(self, state):
        return jnp.maximum(self.level - state[:1], 0.0)


def best_level() -> float:
    """Hillier and Lieberman: 662.5."""
    return DEMAND * (OWED - PRICE * (1 - DISCOUNT)) / (OWED + HOLDING)


def stock() -> Known:
    """From 10 the least cost is 297,868.75."""

    def make(horizon: int) -> ilbo.Problem:
        return ilbo.Problem(
            Stock(), name="stock", initial_state=[10.0], horizon=horizon, discount=DISCOUNT,
            region=(-800.0, 1500.0),
        )  # fmt: skip

    level = best_level()
    a_step = (HOLDING * level**2 + OWED * (DEMAND - level) ** 2) / (2 * DEMAND)
    a_step += PRICE * (1 - DISCOUNT) * level + DISCOUNT * PRICE * DEMAND / 2
    truth = Truth(PRICE * 10 - a_step / (1 - DISCOUNT), "closed form", UpTo(level))
    return Known(make(STEPS), lambda: truth, make(JUDGED), 4096)


class LeadTime(ilbo.Model):
    """The stock and what comes next; an order, of 15 at the most, comes a step later than that.

    The demand of a step is uniform on [0, 20]."""

    law = ilbo.Uniform(0.0, 20.0)

    def transition(self, state, action, noise):
        return jnp.stack([state[0] + state[1] - noise[0], action[0]])

    def reward(self, state, action, next_state):
        return -jnp.maximum(next_state[0], 0) - 9 * jnp.maximum(-next_state[0], 0)

    def bounds(self, state):
        return jnp.zeros(1), jnp.full(1, 15.0)


def lead_time() -> Known:
    """No closed form, since orders are limited."""

    def make(horizon: int) -> ilbo.Problem:
        return ilbo.Problem(
            LeadTime(), name="lead-time", initial_state=[10.0, 10.0], horizon=horizon,
            discount=DISCOUNT, region=([-20.0, 0.0], [40.0, 15.0]),
        )  # fmt: skip

    long, box = make(JUDGED), (np.array([-80.0, 0.0]), np.array([60.0, 15.0]))
    return Known(make(STEPS), lambda: by_grid(long, (71, 141), box, 8, stationary=True), long)
