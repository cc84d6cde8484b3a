"""Compiled problems as models: ends of episodes, hidden components, relaxations, derivatives."""

import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rddl_simulation import Simulator
from test_simulator import CONTINUOUS
from tiny_rddl import write

import ilbo
from ilbo.mdp import density_check
from ilbo.mdp.simple import Random
from ilbo.rddl import build as rddl
from ilbo.rddl.parsing import parse, text_of
from ilbo.rddl.source import locate, packaged


def models(tmp_path, **parts):
    """The exact model and the one that planning differentiates."""
    source = locate(write(tmp_path, **parts), None)
    exact = rddl.exact_model(source)
    return exact, rddl.relaxed_model(source, exact)


def test_problem_has_the_names_and_figures_of_the_files(tmp_path):
    problem = ilbo.make(write(tmp_path, name="lake.rddl"))
    assert problem.name == "lake"
    assert problem.state_names == ("water(a)", "water(b)", "water(c)")
    assert problem.action_names == ("release(a)", "release(b)", "release(c)")
    assert (problem.horizon, problem.discount) == (5, 0.9)
    np.testing.assert_allclose(problem.initial_state, [1, 1, 3])
    assert problem.exact is problem.model


def test_threads_that_read_problems_get_them_and_the_streams_stay(tmp_path):
    sources = [
        locate(write(tmp_path, name=f"{i}.rddl", reward=f"{i}.0"), None) for i in range(1, 9)
    ]
    before = sys.stdout, sys.stderr, list(warnings.filters)
    with ThreadPoolExecutor(8) as threads:
        for _ in range(3):
            found = list(threads.map(parse, sources))
            assert [text_of(model.reward) for model in found] == [f"{i}.0" for i in range(1, 9)]
    assert sys.stdout is before[0]
    assert sys.stderr is before[1]
    assert warnings.filters == before[2]


def test_domain_and_instance_in_two_files_or_in_one_are_the_same(tmp_path):
    domain, instance = packaged()["navigation-3"]
    whole = tmp_path / "whole.rddl"
    whole.write_text(domain.read_text() + instance.read_text())
    one, two = ilbo.make(whole), ilbo.make(domain, instance)
    state, action, noise = jnp.array([3.0, 2.0]), jnp.array([1.0, -1.0]), jnp.array([0.3, 0.1])
    np.testing.assert_array_equal(
        one.model.transition(state, action, noise), two.model.transition(state, action, noise)
    )


def test_termination_ends_the_episode_with_its_reward_counted(tmp_path):
    problem = ilbo.make(
        write(
            tmp_path,
            water="water(?t) + 1",
            reward="1.0",
            blocks="termination { (sum_{?t : tank} [water(?t)]) >= 11; };",
        )
    )
    # The sum starts at 5 and grows by 3: the second step reaches 11.
    result = ilbo.evaluate(problem, Random(problem.exact), 0, episodes=2)
    np.testing.assert_array_equal(result.returns, [2.0, 2.0])


def test_broken_invariant_ends_the_episode(tmp_path):
    problem = ilbo.make(
        write(
            tmp_path,
            water="water(?t) + 1",
            reward="1.0",
            blocks="state-invariants { forall_{?t : tank} [water(?t) <= 5]; };",
        )
    )
    result = ilbo.evaluate(problem, Random(problem.exact), 0, episodes=2)
    np.testing.assert_array_equal(result.returns, [3.0, 3.0])


def test_reward_of_a_random_fluent_is_carried_by_the_state(tmp_path):
    exact, _ = models(
        tmp_path,
        more="rain(tank) : { interm-fluent, real };",
        cpfs="rain(?t) = Exponential(SIZE(?t));",
        reward="sum_{?t : tank} [rain(?t) * release(?t)]",
    )
    assert exact.dynamics.hidden == ("last reward",)
    state, action = jnp.asarray(exact.dynamics.initial()), jnp.array([1.0, 2.0, 3.0])
    noise = jnp.array([0.5, 1.0, 2.0])
    following = exact.transition(state, action, noise)
    wanted = 0.5 * 4 * 1 + 1.0 * 6 * 2 + 2.0 * 4 * 3
    assert float(exact.reward(state, action, following)) == pytest.approx(wanted)
    simulator = Simulator(exact.dynamics.source, exact.dynamics.compiler.slots)
    layouts = exact.dynamics.state, exact.dynamics.action
    _, reward, _ = simulator.move(layouts, state, action, noise)
    assert reward == pytest.approx(wanted)


def test_reward_of_a_fluent_that_is_not_random_needs_no_hidden_component(tmp_path):
    exact, _ = models(
        tmp_path,
        more="rain(tank) : { interm-fluent, real };\n spill(tank) : { interm-fluent, real };",
        cpfs="rain(?t) = Exponential(SIZE(?t));\n spill(?t) = release(?t) * 2;",
        water="water(?t) + rain(?t)",
        reward="sum_{?t : tank} [spill(?t) + water'(?t)]",
    )
    assert exact.dynamics.hidden == ()
    zero = jnp.zeros(3)
    assert float(exact.reward(zero, zero + 1, zero + 10)) == pytest.approx(36.0)


SWITCHED = dict(
    more="open(tank) : { action-fluent, bool, default = false };\n"
    "        wet(tank) : { state-fluent, bool, default = true };",
    cpfs="wet'(?t) = Bernoulli(1 / (1 + exp[-water(?t)])) ^ open(?t);",
    water="if (open(?t)) then water(?t) - release(?t) else water(?t)",
    reward="sum_{?t : tank} [wet(?t) * water(?t)]",
)


def test_discrete_parts_are_relaxed_for_planning_and_exact_for_evaluation(tmp_path):
    problem = ilbo.make(write(tmp_path, **SWITCHED))
    assert problem.exact is not problem.model
    assert rddl.discrete_parts(problem.exact) == ["wet (bool)", "open (bool)", "wet' (Bernoulli)"]
    low, high = problem.model.bounds(problem.initial_state)
    assert problem.action_names[:3] == ("open(a)", "open(b)", "open(c)")
    np.testing.assert_array_equal(low[:3], 0)
    np.testing.assert_array_equal(high[:3], 1)
    state = problem.initial_state
    action = jnp.array([0.4, 0.6, 0.9, 1.0, 1.0, 1.0])
    noise = jnp.full(3, 0.5)
    np.testing.assert_allclose(
        problem.exact.transition(state, action, noise), [0, 1, 1, 1, 0, 2], atol=1e-6
    )
    slopes = jax.jacfwd(problem.model.transition, 1)(state, action, noise)
    assert np.isfinite(slopes).all()
    # Opening the valve matters to the planner, though not to the exact model's derivative.
    assert abs(slopes[3, 0]) > 0.1
    assert not jax.jacfwd(problem.exact.transition, 1)(state, action, noise)[:, :3].any()


def test_branch_not_taken_cannot_spoil_values_or_derivatives(tmp_path):
    for model in models(tmp_path, water="if (release(?t) > 0) then 1 / release(?t) else water(?t)"):
        state, action = jnp.ones(3), jnp.array([0.0, 2.0, 0.5])
        np.testing.assert_allclose(model.transition(state, action, jnp.zeros(0)), [1, 0.5, 2])
        by_action = jax.jacrev(model.transition, 1)(state, action, jnp.zeros(0))
        assert np.isfinite(by_action).all()


def test_root_and_distance_have_derivative_zero_at_zero(tmp_path):
    exact, _ = models(tmp_path, water="sqrt[pow[release(?t), 2]] + hypot[release(?t), 0]")
    slope = jax.jacrev(exact.transition, 1)(jnp.ones(3), jnp.zeros(3), jnp.zeros(0))
    np.testing.assert_array_equal(slope, np.zeros((3, 3)))


FUNCTIONS = {
    "ln[water(?t)]": np.log([1, 1, 3]),
    "gamma[water(?t) + 1]": [1, 1, 6],
    "lngamma[water(?t) + 3]": np.log([6, 6, 120]),
    "fmod[water(?t) * 2.5, 2]": np.mod([2.5, 2.5, 7.5], 2),
    "pow[water(?t), 3] + pow[water(?t), 0.5]": [2, 2, 27 + 3**0.5],
    "log[water(?t), 3]": [0, 0, 1],
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(tmp_path, function):
    exact, _ = models(tmp_path, water=function)
    got = exact.transition(jnp.array([1.0, 1.0, 3.0]), jnp.zeros(3), jnp.zeros(0))
    np.testing.assert_allclose(got, FUNCTIONS[function], rtol=1e-5, atol=1e-6)


def test_score_estimator_is_told_which_component_has_no_density(tmp_path):
    problem = ilbo.make(
        write(
            tmp_path,
            more="rain(tank) : { interm-fluent, real };",
            cpfs="rain(?t) = Normal(0, 1);",
            water="water(?t) * rain(?t) * rain(?t)",
        )
    )
    with pytest.raises(ilbo.DensityError, match=r"'water\(a\)' is not affine in the noise"):
        density_check.check(problem)


def check_derivatives(name):
    source = locate(name, None)
    exact = rddl.exact_model(source)
    model = rddl.relaxed_model(source, exact) if rddl.discrete_parts(exact) else exact

    @jax.jit
    def slopes(state, action, noise):
        def value(state, action):
            following = model.transition(state, action, noise)
            again = model.transition(following, action, noise)
            return model.reward(state, action, following) + jnp.sum(following) + jnp.sum(again)

        return jax.grad(value, (0, 1))(state, action)

    state, action = jnp.asarray(exact.dynamics.initial()), jnp.asarray(exact.rules.defaults)
    noise = 0.1 + 0.8 * jax.random.uniform(jax.random.key(0), (model.law.size,))
    for slope in slopes(state, action, noise):
        assert np.isfinite(slope).all()


@pytest.mark.parametrize("name", ["MarsRover_ippc2023", "Bicycle_physics"])
def test_derivatives_at_the_initial_state_and_default_action_are_finite(name):
    check_derivatives(f"rddl:{name}")


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTINUOUS)
def test_derivatives_are_finite_for_every_continuous_problem_of_the_repository(name):
    check_derivatives(f"rddl:{name}")
