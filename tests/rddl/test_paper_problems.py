"""The paper's problems as RDDL files are the built-in ones."""

import functools
import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ilbo
from ilbo import rddl
from ilbo.adapters.pyrddlgym import PolicyAgent, environment

QUICK = ["navigation-3", "hvac-3", "reservoir-10"]
OTHERS = ["hvac-6", "reservoir-20", "reservoir-30"]


@pytest.fixture(scope="module")
def compiled():
    return functools.cache(lambda name: ilbo.make(f"rddl:{name}"))


def samples(problem, count=32):
    draw = np.random.default_rng(3)
    states = draw.uniform(*map(np.asarray, problem.region), (count, problem.state_size))
    noises = draw.gamma(2.0, size=(count, problem.model.law.size))
    shares = draw.uniform(size=(count, problem.action_size))
    return [np.float32(x) for x in (states, shares, noises)]


def outputs(model, states, shares, noises):
    """What a planner uses of a model, at each of the samples."""

    @jax.jit
    @jax.vmap
    def compute(state, share, noise):
        low, high = model.bounds(state)
        action = low + share * (high - low)

        def value(state, action, noise):
            following = model.transition(state, action, noise)
            return model.reward(state, action, following) + jnp.sum(following), following

        slopes, following = jax.grad(value, (0, 1, 2), has_aux=True)(state, action, noise)
        return {
            "next state": following,
            "reward": model.reward(state, action, following),
            "bounds": (low, high),
            "derivatives": slopes,
        }

    return compute(states, shares, noises)


def check_equality(name, compiled):
    builtin = ilbo.make(name)
    assert str(compiled.model.law) == str(builtin.model.law)
    assert compiled.horizon == builtin.horizon
    assert compiled.discount == builtin.discount
    np.testing.assert_allclose(compiled.initial_state, builtin.initial_state)
    data = samples(builtin)
    got, wanted = outputs(compiled.model, *data), outputs(builtin.model, *data)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3)


def test_every_problem_of_the_paper_is_packaged():
    assert sorted(rddl.packaged()) == sorted(QUICK + OTHERS) == sorted(ilbo.problems())


@pytest.mark.parametrize("name", QUICK)
def test_equal_to_the_built_in_problem_at_equal_noise(name, compiled):
    check_equality(name, compiled(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_other_sizes_equal_the_built_in_problem_at_equal_noise(name, compiled):
    check_equality(name, compiled(name))


IN_DOUBLE_PRECISION = """
import json, sys
import jax, numpy as np, ilbo
from ilbo import rddl
worst = {}
for name in sys.argv[1:]:
    builtin = ilbo.make(name)
    compiled = rddl.exact_model(rddl.locate(f"rddl:{name}", None))
    low, high = builtin.region
    draw = np.random.default_rng(0)
    states = draw.uniform(low, high, (64, low.size))
    noises = draw.gamma(2.0, size=(64, builtin.model.law.size))

    @jax.jit
    @jax.vmap
    def both(state, noise):
        action = 0.4 * builtin.model.bounds(state)[1]
        following = builtin.model.transition(state, action, noise)
        return [m.log_density(state, action, following) for m in (builtin.model, compiled)]

    a, b = map(np.asarray, both(states, noises))
    assert a.dtype == np.float64 and np.isfinite(a).all()
    worst[name] = float(np.max(np.abs(a - b)))
print(json.dumps(worst))
"""


def test_densities_agree_to_the_fifth_decimal():
    """In double precision, so that the rule is compared and not the rounding."""
    run = subprocess.run(
        [sys.executable, "-c", IN_DOUBLE_PRECISION, "hvac-3", "reservoir-10"],
        env={**os.environ, "JAX_ENABLE_X64": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    worst = json.loads(run.stdout)
    assert len(worst) == 2
    assert max(worst.values()) < 1e-5


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n != QUICK[0] else n for n in QUICK]
)
def test_our_evaluation_agrees_with_pyrddlgyms_own(name, compiled):
    problem, policy = compiled(name), ilbo.make(name).model.heuristic
    ours = ilbo.evaluate(problem, policy, 0, episodes=200)
    episodes = 20
    theirs = PolicyAgent(problem, policy).evaluate(environment(problem), episodes, seed=1)
    error = np.hypot(theirs["std"] / episodes**0.5, ours.discounted_std / 200**0.5)
    assert abs(theirs["mean"] - ours.discounted_mean) < 4 * error


@pytest.mark.slow
def test_thousands_of_episodes_at_once_are_those_of_the_built_in_problem(compiled):
    """A sum with more than 2¹⁵ results inside a loop: XLA's library for these gets it wrong."""

    def returns(problem):
        return ilbo.evaluate(problem, lambda state: 0.3 * state, 7, 4_096).returns

    np.testing.assert_allclose(
        returns(compiled("reservoir-10")), returns(ilbo.make("reservoir-10")), rtol=1e-3
    )
