"""A battery with a table of hourly prices: the model sees the time, the state needs no clock.

ilbo plan examples/hourly_prices.py:problem --episodes 300
"""

import jax.numpy as jnp

import ilbo

NIGHT_AND_MORNING = [42.0, 38, 35, 33, 33, 36, 48, 67, 78, 72, 61, 52]
AFTERNOON_AND_EVENING = [45.0, 40, 38, 41, 53, 74, 95, 99, 88, 70, 57, 48]


class Battery(ilbo.Model):
    """Energy in MWh, and the price's deviation from the usual in €/MWh; the action is the energy
    sold in an hour, below zero bought."""

    price: ilbo.Series
    """Usual price at each hour, €/MWh."""
    capacity: float = 10.0
    power: float = 4.0
    loss: float = 0.1
    """Share of what is bought that is lost."""
    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        energy, deviation = state
        sold, bought = jnp.maximum(action[0], 0), jnp.maximum(-action[0], 0)
        energy = jnp.clip(energy - sold + (1 - self.loss) * bought, 0, self.capacity)
        return jnp.array([energy, 0.8 * deviation + 6 * noise[0]])

    def reward(self, state, action, next_state, time):
        price = self.price[time] + state[1]
        return price * action[0] - 0.2 * action[0] ** 2  # the cells wear

    def bounds(self, state):
        room = (self.capacity - state[0]) / (1 - self.loss)
        least, most = -jnp.minimum(self.power, room), jnp.minimum(self.power, state[0])
        return least[None], most[None]

    def heuristic(self, state, time):
        """Sells above 65 €/MWh and buys below 45, as much as it can."""
        low, high = self.bounds(state)
        price = self.price[time] + state[1]
        return jnp.where(price > 65, high, jnp.where(price < 45, low, 0.0))

    def observe(self, state, action, time):
        return {"price (€/MWh)": self.price[time] + state[1]}


problem = ilbo.Problem(
    Battery(ilbo.series(NIGHT_AND_MORNING + AFTERNOON_AND_EVENING, cyclic=True)),
    name="hourly prices",
    initial_state=[0.0, 0.0],
    horizon=48,
    region=([0.0, -20.0], [10.0, 20.0]),
    state_names=("energy", "deviation"),
    action_names=("sold",),
    state_units=("MWh", "€/MWh"),
    action_units=("MWh",),
)

if __name__ == "__main__":
    plan = ilbo.plan(problem, episodes=300, progress="bar")
    found = ilbo.compare(problem, plan.policy, "heuristic", 1, episodes=512)
    print(f"trained {found.first.mean:.0f} €, rule {found.second.mean:.0f} €")
    print(f"with 5 MWh at 6 in the evening it sells {plan.policy([5.0, 0.0], 18)[0]:.1f} MWh")
