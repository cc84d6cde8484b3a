"""The objective is the one that the problem states: its own discounted return."""

import jax.numpy as jnp
import numpy as np
import pytest

import ilbo

HORIZON, GROWTH = 12, 1.25


class Cake(ilbo.Model):
    """A cake that grows; what is eaten is worth its root. Without a discount it pays to wait."""

    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return GROWTH * (state - action) + 0.0 * noise

    def reward(self, state, action, next_state):
        return jnp.sum(jnp.sqrt(jnp.maximum(action, 1e-6)))

    def bounds(self, state):
        return jnp.zeros(1), jnp.maximum(state, 0.0)


def best(discount: float) -> float:
    """The optimum from a cake of 1: V_t(w) = √(k_t w) with k_t = 1 + γ² R k_{t+1}."""
    k = 1.0
    for _ in range(HORIZON - 1):
        k = 1 + discount**2 * GROWTH * k
    return float(np.sqrt(k))


def cake(discount: float) -> ilbo.Problem:
    return ilbo.Problem(
        Cake(),
        name="cake",
        initial_state=[1.0],
        horizon=HORIZON,
        region=(0.0, 3.0),
        discount=discount,
    )


@pytest.mark.slow
@pytest.mark.parametrize("discount", [0.5, 0.8])
def test_default_settings_plan_for_the_discounted_return(discount):
    problem = cake(discount)
    plan = ilbo.plan(problem, episodes=300)
    result = ilbo.evaluate(problem, plan.policy, 1, episodes=8)
    assert result.discounted_mean > 0.985 * best(discount)
    assert plan.history[0][-1].current == pytest.approx(result.discounted_mean, rel=1e-3)
    patient = ilbo.plan(cake(1.0), episodes=300)
    waiting = ilbo.evaluate(problem, patient.policy, 1, episodes=8)
    assert waiting.discounted_mean < 0.9 * best(discount)


@pytest.mark.slow
def test_tests_and_comparisons_are_of_the_discounted_return():
    problem = cake(0.5)
    small = ilbo.ILBO(layers=(8,), depth=2, window=1, test_episodes=4)
    plan = ilbo.plan(problem, small, episodes=2)
    result = ilbo.evaluate(problem, plan.policy, 1, episodes=8)
    assert plan.history[0][-1].current == pytest.approx(result.discounted_mean, rel=1e-3)

    def eat_all(state):
        return state

    def wait(state):
        return 0.1 * state

    assert ilbo.compare(problem, eat_all, wait, 1).difference > 0
    assert ilbo.compare(cake(1.0), eat_all, wait, 1).difference < 0


class Aim(ilbo.Model):
    """An aim that moves with the time, at a state that never changes."""

    law = ilbo.Gaussian(0)

    def transition(self, state, action, noise):
        return state

    def reward(self, state, action, next_state, time):
        return -jnp.sum((action - time) ** 2)

    def bounds(self, state):
        return jnp.zeros(1), jnp.full(1, 4.0)


def test_states_count_in_the_policy_as_they_do_in_the_objective():
    """A policy that does not see the time must settle for one action: the mean of the aims,
    weighted by the discount. Were all states to count alike, it would be their plain mean, 2."""
    problem = ilbo.Problem(
        Aim(), name="aim", initial_state=[0.0], horizon=5, region=(-1.0, 1.0), discount=0.5
    )
    small = ilbo.ILBO(layers=(8,), policy="state", guard=0, test_episodes=4, policy_rate=0.03)
    policy = ilbo.plan(problem, small, episodes=200).policy
    counts = 0.5 ** np.arange(5)
    assert float(policy([0.0])[0]) == pytest.approx(counts @ np.arange(5) / counts.sum(), abs=0.2)
