"""Policies of ours as agents of pyRDDLGym."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pyRDDLGym.core.policy import BaseAgent
from tiny_rddl import text, write

import ilbo
from ilbo.adapters.pyrddlgym import PolicyAgent, environment
from ilbo.mdp.simple import Random
from ilbo.nn.policy import Layers, Policy

MIXED = dict(
    more="open(tank) : { action-fluent, bool, default = false };\n"
    "        step : { action-fluent, int, default = 0 };\n"
    "        wet(tank) : { state-fluent, bool, default = true };\n"
    "        mode : { state-fluent, colour, default = @red };",
    cpfs="wet'(?t) = open(?t);\n        mode' = if (mode == @red) then @blue else @red;",
    water="water(?t) - release(?t) + step + wet(?t)",
    preconditions="forall_{?t : tank} [release(?t) >= 0 ^ release(?t) <= water(?t)];"
    " step >= 0; step <= 3;",
)


def mixed_problem(folder):
    path = folder / "mixed.rddl"
    path.write_text(text(**MIXED).replace("types {", "types { colour : {@red, @blue};"))
    return ilbo.make(path)


@pytest.mark.parametrize("vectorized", [False, True])
def test_agent_sees_and_acts_on_fluents_of_every_type(tmp_path, vectorized):
    problem = mixed_problem(tmp_path)
    fixed = {"open": [0.7, 0.2, 1.0], "step": [2.4], "release": [9.0, 0.5, -1.0]}
    order = [f.name for f in problem.exact.dynamics.action.fluents]
    action = jnp.concatenate([jnp.array(fixed[name]) for name in order])
    seen = []

    class Recorder:
        stochastic = False

        def __call__(self, state):
            return action

    agent = PolicyAgent(problem, Recorder(), vectorized=vectorized)
    env = environment(problem, vectorized=vectorized)
    assert isinstance(agent, BaseAgent)
    state, _ = env.reset(seed=0)
    ours = problem.initial_state
    for _ in range(2):
        np.testing.assert_allclose(agent._vector(state), ours, rtol=1e-5)
        taken = agent.sample_action(state)
        seen.append(taken)
        state, reward, *_ = env.step(taken)
        clipped = jnp.clip(action, *problem.exact.bounds(ours))
        following = problem.exact.transition(ours, clipped, jnp.zeros(0))
        assert float(problem.exact.reward(ours, clipped, following)) == pytest.approx(reward)
        ours = following
    np.testing.assert_allclose(agent._vector(state), ours, rtol=1e-5)
    first = seen[0]
    if vectorized:
        assert first["open"].tolist() == [True, False, True]
        assert int(first["step"]) == 2
        np.testing.assert_allclose(first["release"], [1.0, 0.5, 0.0])
    else:
        assert first["open___a"] is True
        assert first["step"] == 2
        assert first["release___a"] == pytest.approx(1.0)


def test_stochastic_policy_draws_its_own_key_at_each_step(tmp_path):
    problem = ilbo.make(
        write(tmp_path, preconditions="forall_{?t : tank} [release(?t) >= 0 ^ release(?t) <= 1];")
    )
    agent = PolicyAgent(problem, Random(problem.exact), seed=3)
    env = environment(problem)
    state, _ = env.reset()
    one, two = agent.sample_action(state), agent.sample_action(state)
    assert one != two
    assert all(0 <= value <= 1 for value in one.values())


def test_hidden_component_is_no_part_of_what_pyrddlgym_gives(tmp_path):
    problem = ilbo.make(
        write(
            tmp_path,
            more="rain(tank) : { interm-fluent, real };",
            cpfs="rain(?t) = Normal(1, 1);",
            reward="sum_{?t : tank} [rain(?t)]",
        )
    )
    assert problem.state_names[-1] == "last reward"
    agent = PolicyAgent(problem, lambda state: jnp.zeros(3))
    result = agent.evaluate(environment(problem), episodes=3, seed=0)
    assert np.isfinite(result["mean"])


def test_policy_network_acts_in_pyrddlgym():
    problem = ilbo.make("rddl:navigation-3")
    policy = Policy.init(jax.random.key(0), problem, Layers((16,)))
    agent = PolicyAgent(problem, policy)
    action = agent.sample_action(environment(problem).reset()[0])
    np.testing.assert_allclose(list(action.values()), policy(problem.initial_state), rtol=1e-6)


@pytest.mark.slow
def test_trained_policy_is_evaluated_by_pyrddlgym():
    problem = ilbo.make("rddl:navigation-3")
    plan = ilbo.plan(problem, ilbo.ILBO(layers=(16,), depth=2, test_episodes=8), episodes=6)
    result = PolicyAgent(problem, plan.policy).evaluate(environment(problem), episodes=5, seed=0)
    ours = ilbo.evaluate(problem, plan.policy, 0, episodes=64)
    assert abs(result["mean"] - ours.mean) < 5 * ours.std


def test_built_in_problem_is_refused():
    with pytest.raises(ilbo.UserError, match="was not read from RDDL"):
        environment(ilbo.make("hvac-3"))
