"""Heat a house through two cold days, with a weather forecast and prices by the hour.

Thick walls keep heat: it pays to heat them while power is cheap.

ilbo plan examples/house.py:problem --episodes 300
"""

import jax.numpy as jnp

import ilbo

OUTSIDE = [-2, -2, -3, -3, -4, -4, -4, -3, -1, 1, 2, 3, 4, 4, 4, 3, 2, 1, 0, 0, -1, -1, -2, -2]
"""°C at each hour of the first day; the second is 4 °C colder."""
PRICE = [20, 18, 17, 17, 18, 22, 30, 38, 40, 35, 30, 28, 27, 26, 27, 30, 38, 45, 46, 42, 35, 30]
PRICE += [25, 22]


class House(ilbo.Model):
    """Temperature of the air and of the walls, and how much warmer it is outside than forecast;
    the action is the heating power in kW."""

    outside: ilbo.Series
    price: ilbo.Series
    """Cents for a kWh."""
    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise, time):
        air, walls, warmer = state
        outside = self.outside[time] + warmer
        into_walls = 0.5 * (air - walls)
        air = air + 0.5 * action[0] - into_walls - 0.08 * (air - outside)
        walls = walls + 0.15 * into_walls - 0.01 * (walls - outside)
        return jnp.array([air, walls, 0.9 * warmer + 0.5 * noise[0]])

    def reward(self, state, action, next_state, time):
        cold, hot = jnp.maximum(20 - next_state[0], 0), jnp.maximum(next_state[0] - 23, 0)
        return -self.price[time] * action[0] - 200 * (cold**2 + hot**2)

    def bounds(self, state):
        return jnp.zeros(1), jnp.full(1, 8.0)

    def heuristic(self, state):
        """A thermostat at 20.5 °C."""
        return jnp.clip(4.0 + 3.0 * (20.5 - state[0]), 0.0, 8.0)[None]

    def observe(self, state, action, time):
        return {"outside (°C)": self.outside[time] + state[2], "price (ct)": self.price[time]}


problem = ilbo.Problem(
    House(ilbo.series(OUTSIDE + [x - 4 for x in OUTSIDE]), ilbo.series(PRICE, cyclic=True)),
    name="house",
    initial_state=[20.0, 19.0, 0.0],
    horizon=48,
    region=([17.0, 16.0, -3.0], [25.0, 23.0, 3.0]),
    state_names=("air", "walls", "warmer than forecast"),
    action_names=("heating",),
    state_units=("°C", "°C", "°C"),
    action_units=("kW",),
)

if __name__ == "__main__":
    plan = ilbo.plan(problem, episodes=300, progress="bar")
    found = ilbo.compare(problem, plan.policy, "heuristic", 1, episodes=512)
    print(f"trained {-found.first.mean / 100:.2f} €, thermostat {-found.second.mean / 100:.2f} €")
