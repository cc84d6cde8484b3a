"""A model of one's own: how much to catch each season from a fish stock that grows again.

python examples/own_model.py
"""

import jax.numpy as jnp

import ilbo


class Fishery(ilbo.Model):
    """A fish stock in tonnes; the action is the catch of a season, at most the stock."""

    law = ilbo.Gaussian(1)  # fish that swim in from the sea: 5 ± 2 tonnes

    def transition(self, state, action, noise):
        left = state - action
        return jnp.maximum(0.0, left + 0.6 * left * (1 - left / 100) + 5 + 2 * noise)

    def reward(self, state, action, next_state):
        return jnp.sum(action - 0.01 * action**2)  # a large catch lowers the price

    def bounds(self, state):
        return jnp.zeros(1), state

    def heuristic(self, state):
        return jnp.maximum(state - 50.0, 0.0)  # half of what the water can hold is left


problem = ilbo.Problem(
    Fishery(),
    name="fishery",
    initial_state=[30.0],
    horizon=20,
    region=(0.0, 100.0),  # training starts are drawn from here
    domain=(0.0, jnp.inf),  # a start outside of this is refused
    state_names=("stock",),
    action_names=("catch",),
    state_units=("t",),
    action_units=("t",),
)

if __name__ == "__main__":
    plan = ilbo.plan(problem, ilbo.ILBO(layers=(32, 32)), episodes=100)
    found = ilbo.compare(problem, plan.best_policy, problem.model.heuristic, 1, episodes=512)
    print(f"trained policy  {found.first.mean:.1f} ± {found.first.std:.1f}")
    print(f"rule of thumb   {found.second.mean:.1f} ± {found.second.std:.1f}")
    low, high = found.ci95
    print(f"difference      {found.difference:.1f}, 95 % [{low:.1f}, {high:.1f}]")
