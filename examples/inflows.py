"""Two dams whose inflows are 30 years of monthly records: noise from data, with seasons.

python examples/inflows.py
"""

import jax.numpy as jnp
import numpy as np

import ilbo

MONTHS, YEARS = 12, 30
PRICE = 50 + 20 * np.cos(2 * np.pi * np.arange(MONTHS) / MONTHS)  # power is dear in winter
ROOM = np.array([120.0, 80.0])


def records() -> np.ndarray:
    """Inflows [years, months, dams]: snow melts in May, and wet years are wet in both valleys."""
    draw = np.random.default_rng(0)
    mean = 12 + 10 * np.cos(2 * np.pi * (np.arange(MONTHS) - 4) / MONTHS)
    both = draw.normal(size=(YEARS, MONTHS, 1))
    each = draw.normal(size=(YEARS, MONTHS, 2))
    return mean[:, None] * np.array([1.0, 0.6]) * np.exp(0.5 * (0.8 * both + 0.6 * each))


class Dams(ilbo.Model):
    """State: the levels of both dams and the month; action: the water through each turbine.

    The lower dam gets what the upper one releases or spills.
    """

    law: ilbo.Seasonal

    def transition(self, state, action, noise):
        inflow = self.law.of(noise, state[2])  # a row of this month's record
        upper = state[0] - action[0] + inflow[0]
        spilled = jnp.maximum(upper - ROOM[0], 0.0)
        lower = state[1] - action[1] + inflow[1] + action[0] + spilled
        levels = jnp.minimum(jnp.stack([upper, lower]), ROOM)
        return jnp.append(levels, (state[2] + 1) % MONTHS)

    def reward(self, state, action, next_state):
        price = jnp.asarray(PRICE, jnp.float32)[state[2].astype(int) % MONTHS]
        head = 0.5 + 0.5 * state[:2] / ROOM  # a full dam presses harder
        power = head * action - 0.01 * action**2
        low = jnp.maximum(0.3 * ROOM - next_state[:2], 0.0)  # fish need some water
        return price * jnp.sum(power) / 1000 - 0.05 * jnp.sum(low)

    def bounds(self, state):
        return jnp.zeros(2), jnp.minimum(state[:2], 40.0)

    def heuristic(self, state):
        """What is above two thirds of the room goes through the turbines."""
        return jnp.clip(state[:2] - 2 / 3 * ROOM, *self.bounds(state))


def problem() -> ilbo.Problem:
    months = records().swapaxes(0, 1)  # [months, years, dams]
    return ilbo.Problem(
        Dams(ilbo.Seasonal([ilbo.Empirical(rows) for rows in months])),
        name="dams",
        initial_state=[80.0, 50.0, 0.0],
        horizon=2 * MONTHS,
        region=([0.0, 0.0, 0.0], [*ROOM, MONTHS - 1.0]),
        state_names=("upper", "lower", "month"),
        action_names=("through upper", "through lower"),
    )


if __name__ == "__main__":
    dams = problem()
    plan = ilbo.plan(dams, episodes=300)
    found = ilbo.compare(dams, plan.policy, dams.model.heuristic, 0, episodes=2048)
    print(f"trained policy  {found.first.mean:.2f}")
    print(f"rule of thumb   {found.second.mean:.2f}")
    low, high = found.ci95
    print(f"difference      {found.difference:.2f}, 95 % [{low:.2f}, {high:.2f}]")
