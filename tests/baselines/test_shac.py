"""Short-horizon actor-critic: its objective and targets against plain loops, and that it learns."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ilbo
from ilbo.baselines import SHAC, SHACTrainer, plan_shac
from ilbo.baselines.shac import Actor, Window
from ilbo.mdp.simulate import draw_noise

SMALL = SHAC(layers=(8,), parallel=3, window=5, episodes=30, evaluate_every=15, test_episodes=8)


class Walk(ilbo.Model):
    """s' = s + a + ξ / 2, r = −s'²; it ends beyond 8."""

    law = ilbo.Gaussian(2)

    def transition(self, state, action, noise):
        return state + action + 0.5 * noise

    def reward(self, state, action, next_state):
        return -jnp.sum(next_state**2)

    def bounds(self, state):
        return -jnp.ones(2), jnp.ones(2)

    def terminal(self, state):
        return jnp.sum(jnp.abs(state)) > 8.0


def walk(start=(1.5, -0.5), discount=1.0):
    return ilbo.Problem(
        Walk(), name="walk", initial_state=start, horizon=4, region=(-6.0, 6.0), discount=discount
    )


@pytest.mark.parametrize(("start", "discount"), [((1.5, -0.5), 0.7), ((5.0, -2.8), 1.0)])
def test_objective_of_a_window_is_that_of_a_plain_loop(start, discount):
    """Windows of 5 steps go past the end of episodes of 4, and of some that end early."""
    problem = walk(start, discount)
    trainer = SHACTrainer.of(problem, SMALL)
    state, _ = trainer.init(jax.random.key(0))
    actor = Actor(state.actor.network.network, jnp.full(2, -1000.0))  # acts without exploration
    noise = draw_noise(problem.model, jax.random.key(1), (5, 3))
    found, (episodes, window) = trainer.objective(actor, state, noise, jnp.ones((5, 3, 2)))
    policy, model = trainer.policy(actor.network), problem.model
    total, ended = 0.0, 0
    for i in range(3):
        s, time = problem.initial_state, 0
        for xi in noise[:, i]:
            a = policy(s)
            moved = model.transition(s, a, xi)
            total += discount**time * model.reward(s, a, moved)
            s, time = moved, time + 1
            if over := bool(model.terminal(s)) or time == 4:
                ended += time < 4
                s, time = problem.initial_state, 0
        if not over:
            value = trainer.value(state.slow_critic, s, jnp.array(4 - time))
            total += discount**time * state.reward_scale * value
        np.testing.assert_allclose(episodes.state[i], s, rtol=1e-5, atol=1e-5)
        assert int(episodes.steps_left[i]) == 4 - time
    assert float(found) == pytest.approx(float(total) / 3, rel=1e-5)
    assert (ended > 0) == (start[0] == 5.0)
    assert window.reward.shape == (5, 3)


@pytest.mark.parametrize("share", [0.0, 0.6])
def test_targets_are_td_lambda_returns(share):
    problem = walk(discount=0.9)
    trainer = SHACTrainer.of(problem, dataclasses.replace(SMALL, td_lambda=share))
    state, _ = trainer.init(jax.random.key(0))
    random = np.random.default_rng(0)
    over = np.array([[0, 0, 0, 1, 0], [0, 1, 0, 0, 0]], bool).T
    left = np.array([[4, 3, 2, 1, 4], [3, 2, 4, 3, 2]]).T
    states = random.normal(size=(5, 2, 2)).astype(np.float32)
    rewards = random.normal(size=(5, 2)).astype(np.float32)
    window = Window(states, jnp.array(left), jnp.array(rewards), jnp.array(states), over)
    found = trainer.targets(state, window)
    values = trainer.value(state.slow_critic, jnp.array(states), jnp.array(left) - 1)
    for i in range(2):
        following = float(values[-1, i])
        for t in reversed(range(5)):
            mixed = (1 - share) * float(values[t, i]) + share * following
            following = rewards[t, i] / float(state.reward_scale)
            following += 0.0 if over[t, i] else 0.9 * mixed
            assert float(found[t, i]) == pytest.approx(following, rel=1e-4, abs=1e-5)


@pytest.mark.slow
def test_it_learns_to_cancel_what_is_known():
    config = SHAC(
        layers=(16,), episodes=4800, window=3, critic_passes=4, evaluate_every=800, policy_rate=1e-2
    )
    plan = plan_shac(walk(), config)
    noise_alone, out_of_reach = -4 * 2 * 0.25, -0.25
    assert plan.history[0][-1].current > noise_alone + out_of_reach - 1.0
    assert plan.samples.transitions == 19_200 + 6 * 16  # the last window of each segment is whole


@pytest.mark.slow
def test_not_finite_reward_keeps_the_last_good_policy():
    class Broken(Walk):
        def reward(self, state, action, next_state):
            return jnp.where(next_state[0] > 1.7, jnp.nan, -jnp.sum(next_state**2))

    problem = ilbo.Problem(
        Broken(), name="broken", initial_state=(1.5, 0.0), horizon=4, region=(-2.0, 2.0)
    )
    with pytest.warns(ilbo.PlanningWarning, match="not finite at window 0"):
        plan = plan_shac(problem, SMALL)
    assert np.isfinite(plan.policy(problem.initial_state)).all()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"window": 0}, "window must be a whole number of at least 1"),
        ({"td_lambda": 1.5}, r"td_lambda must be in \[0, 1\]"),
        ({"critic_batches": 1000}, "critic_batches must be at most 512"),
        ({"policy_rate": 0.0}, "policy_rate must be a positive number"),
    ],
)
def test_bad_settings_are_refused(changes, sentence):
    with pytest.raises(ilbo.UserError, match=sentence):
        SHAC(**changes)
