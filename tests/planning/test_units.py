"""Rewards of any size: the problem is trained in units of its own, and told of in the user's."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_runs

import ilbo
from ilbo.baselines import ThroughTime, plan_through_time
from ilbo.planning.ilbo import ILBOTrainer
from ilbo.planning.units import InUnits, in_units, unit_of


class Paid(tiny_runs.Drift):
    """`Drift` whose reward is so many times as large."""

    pay: float = 1.0

    def reward(self, state, action, next_state):
        return self.pay * super().reward(state, action, next_state)


def paid(pay):
    return tiny_runs.problem(Paid(pay=pay))


def leaves(plan):
    return [np.asarray(x) for x in jax.tree.leaves(eqx.filter(plan.policy.network, eqx.is_array))]


@pytest.mark.parametrize(
    "exponent", [pytest.param(exponent, marks=pytest.mark.slow) for exponent in (-66, 120)]
)
def test_rewards_of_any_size_train_the_same_policy(exponent):
    """Powers of two are exact: in its own units, the problem is the same but for the last bit,
    which hangs on how XLA fuses."""
    pay = 2.0**exponent
    problem = paid(pay)
    size = unit_of(problem)
    assert size / pay in (0.5, 1.0, 2.0)
    reference = ilbo.plan(paid(pay / size), tiny_runs.CONFIG, episodes=4)
    plan = ilbo.plan(problem, tiny_runs.CONFIG, episodes=4)
    assert plan.fault is None
    for own, other in zip(leaves(plan), leaves(reference), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-3, atol=1e-5)
    for own, other in zip(plan.history[0], reference.history[0], strict=True):
        assert own.current == pytest.approx(size * other.current, rel=1e-3)
        assert own.bound == pytest.approx(size * other.bound, rel=1e-3)
        assert own.policy_gradient == pytest.approx(size * other.policy_gradient, rel=1e-3)
        assert own.critic_loss == pytest.approx(other.critic_loss, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("pay", [1e20, pytest.param(1e-20, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("how", "share"),
    [
        ("pathwise", 0.7),
        pytest.param("score", 0.7, marks=pytest.mark.slow),
        pytest.param("critic", 0.9, marks=pytest.mark.slow),
    ],
)
def test_every_estimator_learns_from_rewards_of_any_size(pay, how, share):
    config = ilbo.ILBO(
        layers=(8,), estimator=how, depth=1, draws=2, test_episodes=64, evaluate_every=40,
        critic_store=4096, policy_store=512, guard=16,
    )  # fmt: skip
    problem = paid(pay)
    plan = ilbo.plan(problem, config, episodes=80)
    assert plan.fault is None
    before = ilbo.evaluate(problem, lambda s: jnp.zeros(1), 1).mean
    assert ilbo.evaluate(problem, plan.policy, 1).mean > share * before  # both are negative
    assert plan.policy.model is problem.model


@pytest.mark.slow
@pytest.mark.parametrize("pay", [1e20, 1e-20])
def test_planning_through_time_learns_from_rewards_of_any_size(pay):
    problem = paid(pay)
    config = ThroughTime(layers=(8,), epochs=60, batch=16, evaluate_every=30, test_episodes=16)
    plan = plan_through_time(problem, config)
    assert plan.fault is None
    before = ilbo.evaluate(problem, lambda s: jnp.zeros(1), 1).mean
    assert ilbo.evaluate(problem, plan.policy, 1).mean > 0.8 * before
    assert plan.history[0][-1].bound == pytest.approx(plan.history[0][-1].current, rel=0.7)


@pytest.mark.parametrize("pay", [1.0, 1e-5, 1e7, 0.0])
def test_usual_rewards_are_left_as_they_are(pay):
    problem = paid(pay)
    assert unit_of(problem) == 1.0
    assert in_units(problem, 1.0) is problem
    trainer = ILBOTrainer.of(problem, tiny_runs.CONFIG, 4)
    assert trainer.networks.problem is problem


@pytest.mark.slow
def test_the_units_of_built_in_problems_are_usual():
    """They are known and not looked for: that they are usual is looked at here."""
    for name in ilbo.problems():
        problem = ilbo.make(name)
        assert unit_of(problem) == 1.0
        as_own = eqx.tree_at(lambda p: p.initial_state, problem, problem.initial_state + 0.1)
        assert unit_of(as_own) == 1.0, name


def test_a_model_in_units_is_the_model_but_for_its_rewards():
    model = ilbo.make("navigation-3").model
    scaled = InUnits(model, 2.0**70)
    state, action, key = jnp.array([1.0, 2.0]), jnp.array([0.5, -0.5]), jax.random.key(0)
    noise = scaled.noise(key)
    np.testing.assert_array_equal(noise, model.noise(key))
    moved = scaled.transition(state, action, noise)
    np.testing.assert_array_equal(moved, model.transition(state, action, noise))
    assert scaled.reward(state, action, moved) * 2.0**70 == model.reward(state, action, moved)
    assert scaled.log_density(state, action, moved) == model.log_density(state, action, moved)
    np.testing.assert_array_equal(scaled.bounds(state), model.bounds(state))
    assert scaled.terminal(state) == model.terminal(state)
    assert scaled.violations(state, action) == model.violations(state, action)
    assert scaled.law is model.law


def test_returns_beyond_32_bits_are_one_sentence():
    with pytest.raises(
        ilbo.UserError, match=r"beyond the 3.4e\+38 that 32 bits hold; divide"
    ) as said:
        ilbo.plan(paid(2e38), tiny_runs.CONFIG, episodes=4)
    assert "\n" not in str(said.value)
