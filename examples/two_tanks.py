"""Two tanks, one above the other: pump into the upper one so that the lower follows a plan.

The wanted level is known ahead by the time, and the water needs time to come down: a policy that
sees the time pumps before the level is to rise.

ilbo plan examples/two_tanks.py:problem --episodes 300
"""

import jax.numpy as jnp

import ilbo

WANTED = [1.0] * 30 + [2.0] * 30 + [0.5] * 30
STEP = 2.0  # seconds


class Tanks(ilbo.Model):
    """Levels of the upper and the lower tank in dm; the action is the pump's flow."""

    wanted: ilbo.Series
    law = ilbo.Gaussian(2)

    def transition(self, state, action, noise):
        down, out = 0.12 * jnp.sqrt(state + 1e-3)  # through a hole in the bottom
        flow = jnp.array([action[0] - down, down - out])
        return jnp.clip(state + STEP * flow + 0.01 * noise, 0.0, 4.0)

    def reward(self, state, action, next_state, time):
        return -((next_state[1] - self.wanted[time]) ** 2) - 0.05 * action[0] ** 2

    def bounds(self, state):
        return jnp.zeros(1), jnp.full(1, 0.4)

    def heuristic(self, state, time):
        """What the wanted level needs to stay, and a correction by the error."""
        wanted = self.wanted[time]
        flow = 0.12 * jnp.sqrt(wanted) + 0.1 * (wanted - state[1])
        return jnp.clip(flow, 0.0, 0.4)[None]

    def observe(self, state, action, time):
        return {"wanted level": self.wanted[time]}


problem = ilbo.Problem(
    Tanks(ilbo.series(WANTED)),
    name="two tanks",
    initial_state=[1.0, 1.0],
    horizon=len(WANTED),
    region=(0.0, 3.0),
    state_names=("upper level", "lower level"),
    action_names=("pump",),
    state_units=("dm", "dm"),
    action_units=("dm/s",),
)

if __name__ == "__main__":
    plan = ilbo.plan(problem, episodes=300, progress="bar")
    found = ilbo.compare(problem, plan.policy, "heuristic", 1, episodes=512)
    print(f"trained {found.first.mean:.2f}, proportional control {found.second.mean:.2f}")
