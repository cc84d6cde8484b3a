import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ilbo
from ilbo.networks import Critic, Policy, in_units_of_bounds, into_bounds
from names import QUICK

bound = st.one_of(st.floats(-1e3, 1e3, width=32), st.just(np.inf))


@settings(deadline=None, max_examples=60)
@given(st.floats(-60, 60, width=32), bound, bound)
def test_outputs_are_mapped_into_any_bounds(x, a, b):
    low = -np.inf if np.isinf(a) else min(a, b)
    high = max(a, b)
    y = float(into_bounds(jnp.float32(x), jnp.float32(low), jnp.float32(high)))
    slack = 1e-5 * (1 + abs(y))
    assert np.isfinite(y)
    assert low - slack <= y <= high + slack


def test_units_of_bounds_are_plus_and_minus_one():
    low, high = jnp.array([0.0, -2.0, 3.0]), jnp.array([4.0, 2.0, 3.0])
    np.testing.assert_allclose(in_units_of_bounds(low, low, high), [-1, -1, -3])
    np.testing.assert_allclose(in_units_of_bounds(high, low, high)[:2], [1, 1])


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("layers", [(2048,), (256, 128, 64, 32)])
def test_policy_and_critic_of_both_shapes(name, layers):
    problem = ilbo.make(name)
    policy = Policy.init(jax.random.key(0), problem, layers)
    critic = Critic.init(jax.random.key(1), problem, layers)
    assert [layer.scale.shape[0] for layer in policy.network.hidden] == list(layers)
    states = problem.starts(jax.random.key(2), (16,))
    actions = jax.vmap(policy)(states)
    low, high = jax.vmap(problem.model.bounds)(states)
    assert jnp.all((actions >= low) & (actions <= high))
    values = jax.vmap(lambda s, a: critic(s, a, jnp.array(0.5)))(states, actions)
    assert values.shape == (16,)
    assert jnp.all(jnp.isfinite(values))


def test_the_first_layer_sees_how_far_a_state_lies_from_the_centre():
    problem = ilbo.make("navigation-3")
    policy = Policy.init(jax.random.key(0), problem, (64,))
    center = policy.scaling.center
    near, far = policy(center + 1.0), policy(center + 8.0)
    assert float(jnp.max(jnp.abs(near - far))) > 1e-3
