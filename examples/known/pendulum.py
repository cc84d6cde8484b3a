"""A pendulum that hangs and is to be swung up by a motor too weak to lift it at once."""

import jax.numpy as jnp
import numpy as np

import ilbo
from ilbo.baselines import dynamic
from known import Known

STEP, TORQUE = 0.1, 2.0
BOX = (np.array([-2.0, -10.0]), np.array([2 * np.pi + 2.0, 10.0]))


class Pendulum(ilbo.Model):
    """Angle (0 and 2π are upright, π is hanging) and speed; the action is the torque. Gymnasium's
    pendulum with steps of 0.1 s, a little noise on the speed, and 1 − cos in place of the square of
    the angle."""

    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        angle, speed = state
        speed = speed + STEP * (15 * jnp.sin(angle) + 3 * action[0]) + 0.05 * noise[0]
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
    solved = {}

    def policy() -> dynamic.GridPolicy:
        if not solved:
            solved[0] = dynamic.solve(problem, 201, BOX, noises=3)
        return solved[0]

    return Known(
        problem,
        lambda: float(policy().value(problem.initial_state, problem.horizon)),
        "dynamic programming on a grid",
        policy,
    )
