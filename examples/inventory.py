"""A shop that orders goods which arrive two weeks later, while the demand is random.

ilbo plan examples/inventory.py:problem --episodes 300
"""

import jax.numpy as jnp

import ilbo


class Shop(ilbo.Model):
    """Goods in stock, those that arrive after this week and after the next, and what customers
    asked for last week; the action is the order."""

    price: float = 5.0
    cost: float = 2.0
    storing: float = 0.2
    missed: float = 3.0
    """What a good that was asked for and not there costs beside its price."""
    law = ilbo.Gamma(jnp.array([4.0]))  # times 5: a demand of 20 ± 10 a week

    def transition(self, state, action, noise):
        stock, soon, later, _ = state
        demand = 5 * noise[0]
        return jnp.array([jnp.maximum(stock - demand, 0.0) + soon, later, action[0], demand])

    def reward(self, state, action, next_state):
        stock, demand = state[0], next_state[3]
        earned = self.price * jnp.minimum(stock, demand) - self.cost * action[0]
        left, short = jnp.maximum(stock - demand, 0.0), jnp.maximum(demand - stock, 0.0)
        return earned - self.storing * left - self.missed * short

    def bounds(self, state):
        return jnp.zeros(1), jnp.full(1, 60.0)

    def heuristic(self, state):
        """Orders what is missing to 80 goods, in stock and on their way."""
        return jnp.clip(80.0 - jnp.sum(state[:3]), 0.0, 60.0)[None]


problem = ilbo.Problem(
    Shop(),
    name="inventory",
    initial_state=[40.0, 20.0, 20.0, 20.0],
    horizon=26,
    region=(0.0, [100.0, 60.0, 60.0, 60.0]),
    domain=(0.0, jnp.inf),
    state_names=("stock", "arrives next week", "in two weeks", "demand"),
    action_names=("order",),
)

if __name__ == "__main__":
    plan = ilbo.plan(problem, episodes=300, progress="bar")
    found = ilbo.compare(problem, plan.policy, "heuristic", 1, episodes=512)
    print(f"trained {found.first.mean:.0f} €, order-up-to rule {found.second.mean:.0f} €")
