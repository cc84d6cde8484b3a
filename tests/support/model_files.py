"""A model of a user's own, in a file."""

TEXT = """
import jax.numpy as jnp
import ilbo


class Drift(ilbo.Model):
    law = ilbo.Gaussian(1)
    pull: float = 1.0

    def transition(self, state, action, noise):
        return state + self.pull * action + 0.1 * noise

    def reward(self, state, action, next_state):
        return -jnp.sum(next_state**2)

    def bounds(self, state):
        return -1 - jnp.abs(state), 1 + jnp.abs(state)

    def heuristic(self, state):
        return -state


def make(pull, horizon: int = 4):
    return ilbo.Problem(
        Drift(pull=pull), name="drift", initial_state=[1.0], horizon=horizon, region=(-1.0, 1.0)
    )


problem = make(1.0)
number = 3
"""
"""Its bounds depend on the state, so that a policy file alone cannot be used."""


def write(path, text=TEXT):
    path.write_text(text)
    return path
