import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_runs

import ilbo
from ilbo.planning.blend import EVERY, blend, gather, weigh
from ilbo.planning.estimators import Pathwise
from ilbo.planning.estimators.point import ActionGradient, Point, Sample


class OneStep(ilbo.Model):
    """A reward of the action alone."""

    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return state + 0 * noise

    def reward(self, state, action, next_state):
        return self.earn(action[0])

    def bounds(self, state):
        return -jnp.ones(1), jnp.ones(1)


class Smooth(OneStep):
    def earn(self, a):
        return jnp.sin(2 * a)


class Stairs(OneStep):
    """Falls along each step and rises, on the whole, from step to step: slope −1, or really +1."""

    def earn(self, a):
        return 2 * jnp.floor(10 * a) / 10 - a


def evidence(model, critic_slope, tries=2_000, spread=0.3):
    """What trying out actions around 0.05 says of a critic with this slope."""

    def policy(state, left):
        return jnp.full(1, 0.05)

    def critic(state, action, left):
        return jnp.where(left > 0, critic_slope * action[0], 0.0)

    at = Point(model, critic, policy, 1.0)
    estimator = Pathwise(depth=1, window=1)
    actions = 0.05 + spread * jax.random.normal(jax.random.key(0), (tries, 8, 1))
    samples = Sample(
        jnp.zeros((8, 1)), jnp.ones(8, int), jnp.zeros((8, 1, 1, 1)), jnp.zeros((8, 1))
    )
    estimate = jax.vmap(lambda sample: estimator(at, sample))(samples)

    def one(carry, tried):
        return gather(carry, jnp.array(0), at, samples, estimate, tried), None

    return jax.lax.scan(one, jnp.zeros(3), actions)[0], estimate


def test_where_the_model_is_smooth_a_wrong_critic_gets_no_share():
    found, estimate = evidence(Smooth(), critic_slope=-3.0, spread=0.02)
    np.testing.assert_allclose(estimate.gradients, 2 * np.cos(0.1), rtol=1e-5)
    assert float(weigh(found, 1.0)) < 1e-3  # what is of third order in the change


def test_where_the_derivative_misleads_the_critic_gets_the_share_that_is_right():
    found, estimate = evidence(Stairs(), critic_slope=3.0)
    np.testing.assert_allclose(estimate.gradients, -1.0)  # what the derivative says
    # The real slope at this scale is +1: half of the critic's 3 and half of the model's −1.
    assert float(weigh(found, 1.0)) == pytest.approx(0.5, abs=0.1)
    assert float(weigh(found, 0.2)) == pytest.approx(0.2)


def test_evidence_is_gathered_every_few_steps_only():
    at = Point(Smooth(), lambda s, a, left: a[0], lambda s, left: jnp.zeros(1), 1.0)
    samples = Sample(
        jnp.zeros((1, 1)), jnp.ones(1, int), jnp.zeros((1, 1, 1, 1)), jnp.zeros((1, 1))
    )
    estimate = jax.vmap(lambda sample: Pathwise(depth=1, window=1)(at, sample))(samples)

    def after(step):
        return gather(jnp.ones(3), jnp.array(step), at, samples, estimate, 0.1 * jnp.ones((1, 1)))

    assert jnp.any(after(EVERY) != 1)
    np.testing.assert_array_equal(after(EVERY + 1), 1.0)


def test_the_critics_slope_replaces_components_that_are_0_everywhere():
    def critic(state, action, left):
        return 3 * action[0] + 5 * action[1]

    at = Point(Smooth(), critic, lambda s, left: jnp.zeros(2), 1.0)
    g = jnp.array([[[0.0, 1.0]], [[0.0, 0.0]]])
    lefts = jnp.array([[4], [0]])
    estimate = ActionGradient(jnp.zeros((2, 1, 1)), g, jnp.zeros(2), lefts)
    mixed = blend(at, estimate, jnp.array(0.0)).gradients
    np.testing.assert_allclose(mixed, [[[3.0, 1.0]], [[0.0, 0.0]]])  # 0 beyond the horizon
    mixed = blend(at, estimate, jnp.array(0.25)).gradients
    np.testing.assert_allclose(mixed, [[[3.0, 2.0]], [[0.0, 0.0]]])


class DeadZone(tiny_runs.Drift):
    """The action works only from 0.2 on, and the policy begins below."""

    def transition(self, state, action, noise):
        return state - jnp.maximum(action - 0.2, 0.0) + 0.01 * noise


@pytest.mark.slow
@pytest.mark.parametrize(("share", "learns"), [(0.5, True), (0.0, False)])
def test_a_policy_in_a_dead_zone_learns_by_the_critics_slope(share, learns):
    config = dataclasses.replace(
        tiny_runs.CONFIG, critic_share=share, layers=(32,), critic_store=4000, policy_store=400,
        policy_batch=16, evaluate_every=200, critic_batch=32, guard=0, own_start=1.0, inward=0.0,
        parallel=1,
    )  # fmt: skip
    plan = ilbo.plan(tiny_runs.problem(DeadZone()), config, episodes=400)
    first = float(plan.policy(jnp.ones(1))[0])
    assert (first > 0.3) == learns
