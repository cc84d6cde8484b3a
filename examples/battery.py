"""A battery that trades on hourly prices: charge while power is cheap, sell while it is dear.

ilbo plan examples/battery.py:problem --out runs/battery
ilbo plan examples/battery.py:make --arg capacity=20 --out runs/larger
"""

import jax.numpy as jnp

import ilbo

NIGHT_AND_MORNING = [42.0, 38, 35, 33, 33, 36, 48, 67, 78, 72, 61, 52]
AFTERNOON_AND_EVENING = [45.0, 40, 38, 41, 53, 74, 95, 99, 88, 70, 57, 48]
PRICES = jnp.array(NIGHT_AND_MORNING + AFTERNOON_AND_EVENING)
"""Usual price in €/MWh at each hour of the day."""


class Battery(ilbo.Model):
    """Energy in MWh, the price's deviation from the usual in €/MWh, and the hour of the day; the
    action is the energy sold in an hour, below zero bought."""

    law = ilbo.Gaussian(1)
    capacity: float = 10.0
    power: float = 4.0
    loss: float = 0.1
    """Share of what is bought that is lost."""

    def price(self, state):
        _, deviation, hour = state
        return jnp.interp(hour, jnp.arange(24.0), PRICES) + deviation

    def transition(self, state, action, noise):
        energy, deviation, hour = state
        sold, bought = jnp.maximum(action[0], 0), jnp.maximum(-action[0], 0)
        energy = jnp.clip(energy - sold + (1 - self.loss) * bought, 0, self.capacity)
        return jnp.array([energy, 0.8 * deviation + 6 * noise[0], (hour + 1) % 24])

    def reward(self, state, action, next_state):
        return self.price(state) * action[0] - 0.2 * action[0] ** 2  # the cells wear

    def bounds(self, state):
        room = (self.capacity - state[0]) / (1 - self.loss)
        least, most = -jnp.minimum(self.power, room), jnp.minimum(self.power, state[0])
        return least[None], most[None]

    def heuristic(self, state):
        """Sells above 65 €/MWh and buys below 45, as much as it can."""
        low, high = self.bounds(state)
        price = self.price(state)
        return jnp.where(price > 65, high, jnp.where(price < 45, low, 0.0))


def make(capacity: float = 10.0, power: float = 4.0) -> ilbo.Problem:
    return ilbo.Problem(
        Battery(capacity=capacity, power=power),
        name="battery",
        initial_state=[0.0, 0.0, 0.0],
        horizon=48,
        region=([0.0, -20.0, 0.0], [capacity, 20.0, 23.0]),
        state_names=("energy", "deviation", "hour"),
        action_names=("sold",),
        state_units=("MWh", "€/MWh", "h"),
        action_units=("MWh",),
    )


problem = make()

if __name__ == "__main__":
    plan = ilbo.plan(problem, episodes=200, progress="bar", out="runs/battery-script")
    found = ilbo.compare(problem, plan.policy, problem.model.heuristic, 1, episodes=512)
    print(f"trained {found.first.mean:.0f} €, rule {found.second.mean:.0f} €")
