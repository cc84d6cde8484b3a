"""A pendulum that hangs and is to be brought upright, by a motor just strong enough to lift it."""

import jax.numpy as jnp
import numpy as np

import ilbo
from known import Known, by_grid

STEP, TORQUE = 0.1, 5.0
BOX = (np.array([-2.0, -10.0]), np.array([2 * np.pi + 2.0, 10.0]))


class Pendulum(ilbo.Model):
    """Angle (0 and 2π are upright, π is hanging) and speed; the action is the torque. Gymnasium's
    pendulum with steps of 0.1 s, a little noise on the speed, and 1 − cos in place of the square of
    the angle."""

    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        angle, speed = state
        speed = speed + STEP * (15 * jnp.sin(angle) + 3 * action[0]) + 0.1 * noise[0]
        speed = jnp.clip(speed, -8.0, 8.0)
        return jnp.stack([angle + STEP * speed, speed])

    def reward(self, state, action, next_state):
        upright = 5 * (1 - jnp.cos(next_state[0])) + 0.1 * next_state[1] ** 2
        return -upright - 0.001 * action[0] ** 2

    def bounds(self, state):
        return jnp.full(1, -TORQUE), jnp.full(1, TORQUE)


def pendulum() -> Known:
    problem = ilbo.Problem(
        Pendulum(),
        name="pendulum",
        initial_state=[np.pi, 0.0],
        horizon=60,
        region=([-1.0, -8.0], [2 * np.pi + 1.0, 8.0]),
    )
    return Known(problem, lambda: by_grid(problem, (201, 401), BOX, noises=3))
