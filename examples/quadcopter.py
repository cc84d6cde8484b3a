"""A quadcopter seen from the side: fly to the origin in gusts, by the thrust of two rotors.

ilbo plan examples/quadcopter.py:problem --episodes 400
"""

import jax.numpy as jnp

import ilbo

STEP, GRAVITY, ARM, INERTIA = 0.05, 9.81, 0.2, 0.05
HOVER = GRAVITY / 2  # thrust of each rotor that holds 1 kg


class Quadcopter(ilbo.Model):
    """Place x, z and tilt, and their speeds; the action is the thrust of the two rotors."""

    law = ilbo.Gaussian(2)

    def transition(self, state, action, noise):
        x, z, tilt, dx, dz, turn = state
        left, right = action
        thrust = left + right
        gust = 0.3 * noise
        ddx = -thrust * jnp.sin(tilt) - 0.1 * dx
        ddz = thrust * jnp.cos(tilt) - GRAVITY - 0.1 * dz
        speed = jnp.array([dx + STEP * ddx + STEP * gust[0], dz + STEP * ddz + STEP * gust[1]])
        turn = turn + STEP * ARM * (right - left) / INERTIA
        return jnp.array(
            [x + STEP * speed[0], z + STEP * speed[1], tilt + STEP * turn, *speed, turn]
        )

    def reward(self, state, action, next_state):
        x, z, tilt, dx, dz, turn = next_state
        still = 0.1 * (dx**2 + dz**2 + turn**2) + 0.2 * tilt**2
        return -(x**2 + z**2 + still) - 0.001 * jnp.sum((action - HOVER) ** 2)

    def bounds(self, state):
        return jnp.zeros(2), jnp.full(2, 2 * HOVER)

    def heuristic(self, state):
        """Nested proportional control: the place wants a tilt, the tilt a turn."""
        x, z, tilt, dx, dz, turn = state
        wanted = jnp.clip(0.2 * x + 0.3 * dx, -0.5, 0.5)
        lift = HOVER - 1.0 * z - 1.0 * dz
        torque = 1.0 * (wanted - tilt) - 0.4 * turn
        return jnp.array([lift - torque, lift + torque])


problem = ilbo.Problem(
    Quadcopter(),
    name="quadcopter",
    initial_state=[2.0, -1.0, 0.0, 0.0, 0.0, 0.0],
    horizon=80,
    region=([-2.5, -1.5, -0.5, -2.0, -2.0, -1.0], [2.5, 1.5, 0.5, 2.0, 2.0, 1.0]),
    state_names=("x", "z", "tilt", "x speed", "z speed", "turn"),
    action_names=("left rotor", "right rotor"),
    state_units=("m", "m", "rad", "m/s", "m/s", "rad/s"),
    action_units=("N", "N"),
)

if __name__ == "__main__":
    plan = ilbo.plan(problem, episodes=400, progress="bar")
    found = ilbo.compare(problem, plan.policy, "heuristic", 1, episodes=512)
    print(f"trained {found.first.mean:.1f}, nested control {found.second.mean:.1f}")
