"""Three reservoirs in a row through a year of rain: dry summers, floods in spring and autumn.

ilbo plan examples/year_of_rain.py:problem --episodes 300
"""

import jax.numpy as jnp
import numpy as np

import ilbo

MONTHS = [60, 55, 75, 90, 70, 35, 15, 10, 30, 80, 95, 75]
"""Usual rain of each month, in units of the first reservoir's inflow a week."""
WEEKS = np.interp(np.arange(52) * 12 / 52, np.arange(12), MONTHS)


class Reservoirs(ilbo.Model):
    """Water in each; the action is what each releases in a week, into the next one below."""

    rain: ilbo.Series
    capacity: float = 1000.0
    law = ilbo.Gamma(jnp.full(3, 3.0))

    def transition(self, state, action, noise, time):
        inflow = self.rain[time] * jnp.array([1.0, 0.5, 0.3]) * noise / 3
        passed = jnp.concatenate([jnp.zeros(1), action[:-1]])
        return jnp.maximum(0.98 * state + inflow - action + passed, 0.0)

    def reward(self, state, action, next_state, time):
        over = jnp.maximum(next_state - 0.9 * self.capacity, 0.0)
        under = jnp.maximum(0.2 * self.capacity - next_state, 0.0)
        wanted = 60.0 + 30.0 * jnp.sin(jnp.pi * time / 52)  # the fields need most in summer
        missing = jnp.maximum(wanted - action[-1], 0.0)
        return -jnp.sum(over + 0.2 * under) / 100 - missing / 10

    def bounds(self, state):
        return jnp.zeros(3), jnp.minimum(state, 250.0)

    def heuristic(self, state):
        """Releases a tenth of what is held."""
        return jnp.minimum(0.1 * state, 250.0)

    def observe(self, state, action, time):
        return {"usual rain": self.rain[time]}


problem = ilbo.Problem(
    Reservoirs(ilbo.series(WEEKS, cyclic=True)),
    name="a year of rain",
    initial_state=[500.0, 500.0, 500.0],
    horizon=52,
    region=(100.0, 1000.0),
    domain=(0.0, jnp.inf),
    state_names=("upper", "middle", "lower"),
    action_names=("upper release", "middle release", "lower release"),
)

if __name__ == "__main__":
    plan = ilbo.plan(problem, episodes=300, progress="bar")
    found = ilbo.compare(problem, plan.policy, "heuristic", 1, episodes=512)
    print(f"trained {found.first.mean:.0f}, a tenth each week {found.second.mean:.0f}")
