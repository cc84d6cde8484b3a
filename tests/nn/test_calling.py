"""Policies called with numbers: compiled, of lists and batches, and still plain JAX in a trace."""

import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ilbo
from ilbo.nn import calling
from ilbo.nn.policy import Layers, Policy


@pytest.fixture(scope="module")
def problem():
    return ilbo.make("reservoir-10")


@pytest.fixture(scope="module")
def policy(problem):
    return Policy.init(jax.random.key(1), problem, Layers((16, 8)))


@pytest.fixture(scope="module")
def states(problem):
    return np.asarray(problem.starts(jax.random.key(0), (6,)))


def test_called_with_numbers_it_does_what_its_equations_say(policy, states):
    np.testing.assert_allclose(
        policy(states), policy.plain(jnp.asarray(states)), rtol=1e-5, atol=1e-6
    )


def test_lists_arrays_and_batches_are_taken(policy, states):
    wanted = policy(states)
    for given in (states[0], states[0].tolist(), jnp.asarray(states[0]), states[0].astype(float)):
        np.testing.assert_allclose(policy(given), wanted[0], rtol=1e-5)
    np.testing.assert_allclose(policy(states.reshape(2, 3, -1))[1, 2], wanted[5], rtol=1e-5)
    assert policy([0] * 10).dtype == jnp.float32


def test_it_works_under_jit_vmap_grad_and_as_a_pytree(policy, states):
    wanted = policy(states)
    np.testing.assert_allclose(jax.jit(policy)(states), wanted, rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(policy)(states), wanted, rtol=1e-5)
    slope = jax.grad(lambda state: jnp.sum(policy(state)))(jnp.asarray(states[0]))
    assert np.any(slope)
    of_weights = eqx.filter_grad(lambda p: jnp.sum(p(states[0])))(policy)
    assert np.any(jax.tree.leaves(of_weights.network)[0])
    doubled = jax.tree.map(lambda x: 2 * x, policy)
    assert not np.allclose(doubled(states[0]), wanted[0])
    again = pickle.loads(pickle.dumps(policy))
    np.testing.assert_array_equal(again(states[0]), policy(states[0]))


def test_within_a_trace_it_is_its_equations(policy, states):
    traced = str(jax.make_jaxpr(policy)(states[0]))
    plain = str(jax.make_jaxpr(policy.plain)(states[0]))
    assert traced == plain


def test_policies_of_one_kind_share_a_program(problem, states):
    first, second = (Policy.init(jax.random.key(seed), problem, Layers((16, 8))) for seed in (2, 3))
    first(states[0])
    sizes = calling._of_kind.cache_info().currsize
    assert not np.allclose(first(states[0]), second(states[0]))
    assert calling._of_kind.cache_info().currsize == sizes


def test_programs_of_policies_that_are_gone_are_forgotten(problem, states):
    policy = Policy.init(jax.random.key(4), problem, Layers((4,)))
    policy(states[0])
    place = id(policy)
    assert place in calling._ready
    del policy
    assert place not in calling._ready


@pytest.mark.parametrize("state", [[1.0, 2.0], np.zeros((3, 4)), 1.0])
def test_a_state_of_the_wrong_size_is_told(policy, state):
    with pytest.raises(ilbo.UserError, match="takes a state of 10 numbers"):
        policy(state)


def test_what_is_no_state_is_told(policy):
    with pytest.raises(ilbo.UserError, match="'full' is not a list of numbers"):
        policy("full")


def test_a_policy_of_another_problem_is_told():
    policy = Policy.init(jax.random.key(1), ilbo.make("reservoir-20"), Layers((4,)))
    with pytest.raises(ilbo.UserError, match="takes a state of 20 numbers"):
        ilbo.evaluate(ilbo.make("reservoir-10"), policy, 0, 4)
