"""A problem and settings so small that training them takes moments."""

import equinox as eqx
import jax
import jax.numpy as jnp

import ilbo


class Drift(ilbo.Model):
    """A point on a line that the action pulls to 0."""

    law = ilbo.Gaussian(1)
    state_bounds: bool = False
    """Whether the action's bounds depend on the state."""
    broken_above: jax.Array = eqx.field(default_factory=lambda: jnp.array(jnp.inf))
    """The reward is not a number in states above this."""

    def transition(self, state, action, noise):
        return state + action + 0.1 * noise

    def reward(self, state, action, next_state):
        return jnp.where(state[0] > self.broken_above, jnp.nan, -jnp.sum(next_state**2))

    def bounds(self, state):
        size = 1 + jnp.abs(state) if self.state_bounds else jnp.ones(1)
        return -size, size


def problem(model=None, name="drift", states=1) -> ilbo.Problem:
    return ilbo.Problem(
        model or Drift(),
        name=name,
        initial_state=jnp.ones(states),
        horizon=4,
        region=(-1.0, 1.0),
    )


# The store holds 16 transitions, which 4 episodes fill and the others overwrite.
CONFIG = ilbo.ILBO(
    layers=(4,),
    depth=2,
    window=1,
    policy_batch=2,
    critic_batch=4,
    guard=2,
    critic_share=0.0,  # less to compile
    test_episodes=4,
    critic_store=16,
    policy_store=8,
    evaluate_every=2,
    episodes=10,
)


def planner(problem=None, config=CONFIG, seeds=(0,), episodes=None, **options) -> ilbo.Planner:
    """A planner of ILBO's trainer."""
    from ilbo.planning.ilbo import ILBOTrainer

    episodes = episodes or config.episodes
    trainer = ILBOTrainer.of(problem or globals()["problem"](), config, episodes)
    return ilbo.Planner(trainer, seeds, episodes, **options)


FLAGS = [
    "--layers", "4", "--depth", "2", "--window", "1", "--policy-batch", "2", "--critic-batch", "4",
    "--guard", "2", "--test-episodes", "4", "--critic-store", "16", "--policy-store", "8",
    "--evaluate-every", "2", "--episodes", "10", "--critic-share", "0",
]  # fmt: skip
"""`CONFIG` as flags of `ilbo plan`."""
