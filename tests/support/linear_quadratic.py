"""A continuous problem whose optimum is known in closed form: a noisy linear system."""

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.stats import norm

import ilbo

DRIFT, PUSH, SPREAD, PRICE, DISCOUNT, START = 0.95, 0.5, 0.5, 0.3, 0.8, 1.5


class LinearQuadratic(ilbo.Model):
    """s' = DRIFT s + PUSH a + SPREAD ξ with reward −s² − PRICE a²."""

    law = ilbo.Gaussian(1)
    limit: float = eqx.field(static=True, default=3.0)

    def transition(self, state, action, noise):
        return DRIFT * state + PUSH * action + SPREAD * noise

    def reward(self, state, action, next_state):
        return -jnp.sum(state**2) - PRICE * jnp.sum(action**2)

    def log_density(self, state, action, next_state):
        """Written out: compiles faster than the density derived from `transition`."""
        mean = DRIFT * state + PUSH * action
        return jnp.sum(norm.logpdf(next_state, mean, SPREAD))

    def bounds(self, state):
        return jnp.full(1, -self.limit), jnp.full(1, self.limit)


def linear_quadratic():
    return ilbo.Problem(
        LinearQuadratic(),
        name="linear-quadratic",
        initial_state=[START],
        horizon=40,
        discount=DISCOUNT,
        region=(-2.0, 2.0),
    )


def closed_form():
    """Gain K of the optimal a = −K s and the optimal value at START, from the Riccati equation."""
    P = 1.0
    for _ in range(10_000):
        K = DISCOUNT * PUSH * P * DRIFT / (PRICE + DISCOUNT * PUSH**2 * P)
        P = 1 + PRICE * K**2 + DISCOUNT * P * (DRIFT - PUSH * K) ** 2
    constant = DISCOUNT / (1 - DISCOUNT) * P * SPREAD**2
    return K, -P * START**2 - constant
