import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ilbo
from ilbo.planning.lead import PATIENCE, SETTLED, Lead

FIRST = jnp.stack([jnp.zeros(64), jnp.ones(64)])
BEHIND = jnp.stack([jnp.full(64, 10.0), jnp.full(64, 4.0)])
ABOVE_HALF = jnp.stack([jnp.full(64, 10.0), jnp.full(64, 6.0)])


def after(*tests):
    lead, turns = Lead.begin(), []
    for earned in tests:
        lead, turned = lead.judged(earned)
        turns.append(bool(turned))
    return lead, turns


def test_lead_changes_hands_where_the_newest_policy_stays_far_behind():
    lead, turns = after(FIRST, *[BEHIND] * PATIENCE)
    assert turns == [False] * PATIENCE + [True]
    assert bool(lead.critic)


def test_critic_gives_the_lead_back_once_it_adds_no_more_and_then_both_count():
    still = BEHIND[:1].repeat(2, axis=0)
    lead, turns = after(FIRST, *[BEHIND] * PATIENCE, *[still] * SETTLED)
    assert turns[-SETTLED:] == [False] * (SETTLED - 1) + [True]
    assert not bool(lead.critic)
    assert float(lead.share(jnp.array(0.1), 0.5)) == 0.5


def test_critic_keeps_the_lead_while_it_adds():
    still = BEHIND[:1].repeat(2, axis=0)
    rising = [still + 2.0 * i for i in range(20)]
    lead, _ = after(FIRST, *[BEHIND] * PATIENCE, *rising)
    assert bool(lead.critic)
    assert float(lead.share(jnp.array(0.1), 0.5)) == 1.0


def test_after_each_change_it_takes_twice_as_many_tests():
    still = BEHIND[:1].repeat(2, axis=0)
    before = [FIRST, *[BEHIND] * PATIENCE, *[still] * SETTLED]
    lead, turns = after(*before, *[BEHIND] * (2 * PATIENCE))
    assert turns[-2 * PATIENCE :] == [False] * (2 * PATIENCE - 1) + [True]
    assert bool(lead.critic)


def test_evidence_decides_while_nothing_speaks_against_the_model():
    lead, _ = after(FIRST, *[ABOVE_HALF] * 9)
    assert float(lead.share(jnp.array(0.1), 0.5)) == pytest.approx(0.1)


@pytest.mark.parametrize("between", [ABOVE_HALF, BEHIND[::-1]])
def test_lead_stays_where_the_newest_policy_is_not_far_behind_now_and_then(between):
    lead, turns = after(FIRST, *[*[BEHIND] * (PATIENCE - 1), between] * 4)
    assert not any(turns)
    assert not bool(lead.critic)


def test_lead_stays_where_it_is_not_sure_who_is_behind():
    noise = 100 * jax.random.normal(jax.random.key(0), (64,))
    earned = BEHIND + jnp.stack([noise - noise.mean(), noise.mean() - noise])
    np.testing.assert_allclose(earned.mean(axis=1), [10, 4], atol=1e-4)
    _, turns = after(FIRST, *[earned] * (2 * PATIENCE))
    assert not any(turns)


def test_lead_stays_where_returns_are_not_finite():
    earned = BEHIND.at[1, 0].set(-jnp.inf)
    _, turns = after(FIRST, *[earned] * (2 * PATIENCE))
    assert not any(turns)


class Room(ilbo.Model):
    """Heat has its price, and comfort is a step, which no derivative sees."""

    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return state + 0.25 * action * (40 - state) / 30 + 0.05 * (6 - state) + 0.15 * noise

    def reward(self, state, action, next_state):
        return -3 * action[0] - 100.0 * jnp.sum((next_state < 20) | (next_state > 23.5))

    def bounds(self, state):
        return jnp.zeros(1), jnp.full(1, 10.0)


@pytest.mark.slow
def test_comfort_is_kept_where_the_models_derivatives_only_see_its_price():
    room = ilbo.Problem(Room(), name="room", initial_state=[10.0], horizon=40, region=(0.0, 30.0))
    plan = ilbo.plan(room, episodes=500)
    # No heating earns -4,000.
    assert ilbo.evaluate(room, plan.policy, 0, episodes=512).mean > -1_500
