import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_runs

import ilbo
from ilbo.mdp.simulate import simulate
from ilbo.nn.parameters import pack
from ilbo.nn.policy import Policy
from ilbo.nn.timed import TimedLayers
from ilbo.planning.estimators.point import ActionGradient
from ilbo.planning.pull_back import pull_back


def timed_policy(problem, layers=(8, 4)):
    policy = Policy.init(jax.random.key(0), problem, TimedLayers(layers, problem.horizon))
    plan = jax.random.normal(jax.random.key(1), (problem.horizon, problem.action_size))
    return eqx.tree_at(lambda p: p.network.plan, policy, plan)


def test_with_a_last_layer_of_0_it_is_the_plan():
    problem = ilbo.make("hvac-3")
    policy = timed_policy(problem)
    output = policy.network.network.output
    silent = eqx.tree_at(
        lambda p: p.network.network.output, policy, jax.tree.map(jnp.zeros_like, output)
    )
    times = jnp.arange(problem.horizon)
    states = problem.starts(jax.random.key(2), (problem.horizon,))
    inputs = silent.inputs(states, times)
    np.testing.assert_allclose(silent.network(inputs), silent.network.plan, rtol=1e-6)


def test_one_at_a_time_in_batches_and_at_fixed_parameters_are_the_same():
    problem = ilbo.make("navigation-3")
    policy = timed_policy(problem)
    states = problem.starts(jax.random.key(2), (6, 3))
    times = jnp.arange(18).reshape(6, 3)
    together = policy(states, times)
    np.testing.assert_allclose(together[4, 1], policy(states[4, 1], 13), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(policy.fixed()(states, times), together, rtol=1e-4, atol=1e-5)
    again = Policy.of(pack(policy.network), problem, TimedLayers((8, 4), problem.horizon))
    np.testing.assert_array_equal(again(states, times), together)


def test_simulation_tells_it_the_time():
    problem = tiny_runs.problem()
    policy = timed_policy(problem, layers=(4,))
    path = simulate(problem, policy, 0, episodes=3)
    for step in range(4):
        expected = jnp.clip(policy(path.states[:, step], jnp.full(3, step)), -1, 1)
        np.testing.assert_allclose(path.actions[:, step], expected, rtol=1e-5)


def test_it_must_be_told_the_time():
    policy = timed_policy(tiny_runs.problem(), layers=(4,))
    with pytest.raises(ilbo.UserError, match=r"policy\(state, time\)"):
        policy(jnp.ones(1))


def test_pull_back_reaches_the_plan_at_the_times_of_the_states():
    problem = tiny_runs.problem()
    policy = timed_policy(problem, layers=(4,))
    states, times = jnp.ones((1, 2, 1)), jnp.array([[0, 2]])
    estimate = ActionGradient(states, jnp.ones((1, 2, 1)), jnp.zeros(1), 4 - times)
    gradient, _ = pull_back(policy, estimate, jnp.ones(1), 0.0, times)

    def objective(network):
        return jnp.mean(eqx.tree_at(lambda p: p.network, policy, network)(states, times))

    exact = jax.grad(objective)(policy.network)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), gradient, exact)
    assert gradient.plan[1] == 0
    assert gradient.plan[2] != 0


@pytest.mark.slow
def test_a_policy_that_sees_the_time_is_trained_saved_and_loaded(tmp_path):
    problem = tiny_runs.problem()
    config = dataclasses.replace(tiny_runs.CONFIG, policy="time-left")
    plan = ilbo.plan(problem, config, episodes=4)
    assert plan.policy.timed
    ilbo.save_policy(plan.policy, tmp_path / "p.ilbo", problem)
    loaded = ilbo.load_policy(tmp_path / "p.ilbo", problem)
    states, times = jnp.ones((4, 1)), jnp.arange(4)
    np.testing.assert_array_equal(loaded(states, times), plan.policy(states, times))
