import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from names import QUICK

import ilbo
from ilbo.mdp.bounds import in_units_of_bounds, into_bounds
from ilbo.mdp.simple import Random
from ilbo.nn.critic import Critic, CriticNetwork
from ilbo.nn.mlp import MLP, Hidden
from ilbo.nn.parameters import pack
from ilbo.nn.policy import Layers, Policy
from ilbo.planning.ilbo import ILBOTrainer

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
    policy = Policy.init(jax.random.key(0), problem, Layers(layers))
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
    policy = Policy.init(jax.random.key(0), problem, Layers((64,)))
    center = policy.scaling.center
    near, far = policy(center + 1.0), policy(center + 8.0)
    assert float(jnp.max(jnp.abs(near - far))) > 1e-3


@pytest.mark.parametrize("width", [16, 256])
@pytest.mark.parametrize("batch", [(), (7,)])
def test_a_network_and_its_derivatives_are_those_of_the_formula(batch, width):
    """Layers have derivatives of their own, for speed, and the wide one is folded."""
    network = MLP.init(jax.random.key(0), 3, (width, 8), 2, gain=1.0)
    assert network.hidden[0].arrays.is_wide == (width == 256)
    shaken = jax.tree.map(lambda x: x + 0.3 * jnp.sin(jnp.arange(x.size).reshape(x.shape)), network)
    x = jax.random.normal(jax.random.key(1), (*batch, 3))

    def plain(network, x):
        for layer in network.hidden:
            y = x @ layer.dense.weight + layer.dense.bias
            y = (y - y.mean(-1, keepdims=True)) / jnp.sqrt(y.var(-1, keepdims=True) + 1e-5)
            x = jnp.maximum(y * layer.scale + layer.shift, 0)
        return x @ network.output.weight + network.output.bias

    def loss(function):
        return lambda network, x: jnp.sum(jnp.sin(function(network, x)))

    np.testing.assert_allclose(shaken(x), plain(shaken, x), rtol=2e-4, atol=1e-5)
    wanted = jax.grad(loss(plain), (0, 1))(shaken, x)
    found = jax.grad(loss(lambda network, x: network(x)), (0, 1))(shaken, x)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5), found, wanted)


@pytest.mark.parametrize("distance", [0.0, 1e-3, 1.0, 1e3])
def test_a_folded_layer_is_right_near_and_far(distance):
    """Its variance is a quadratic form, which could lose digits where terms cancel."""
    layer = Hidden.init(jax.random.key(0), 2, 256)
    x = distance * jax.random.normal(jax.random.key(1), (50, 2))
    weight, bias, rows = (np.float64(a) for a in (layer.dense.weight, layer.dense.bias, x))
    y = rows @ weight + bias
    y -= y.mean(1, keepdims=True)
    wanted = np.maximum(y / np.sqrt((y * y).mean(1, keepdims=True) + 1e-5), 0)
    np.testing.assert_allclose(layer(x), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layers", [(32, 16), (1024,), (1024, 16)])
def test_a_frozen_policy_is_the_same_function_with_the_same_slopes(layers):
    problem = ilbo.make("reservoir-10")
    policy = Policy.init(jax.random.key(0), problem, Layers(layers))
    policy = jax.tree.map(lambda x: x + 0.01 * jnp.cos(jnp.arange(x.size)).reshape(x.shape), policy)
    states = problem.starts(jax.random.key(1), (20,))

    @jax.jit
    @jax.vmap
    def both(state):
        fast = policy.fixed()
        return (policy(state), jax.jacrev(policy)(state)), (fast(state), jax.jacrev(fast)(state))

    for wanted, found in zip(*both(states), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [(32, 16), (1024,)])
def test_a_frozen_critic_is_the_same_function_with_the_same_slopes(layers):
    problem = ilbo.make("reservoir-10")
    critic = Critic.init(jax.random.key(0), problem, layers)
    critic = jax.tree.map(lambda x: x + 0.01 * jnp.cos(jnp.arange(x.size)).reshape(x.shape), critic)
    states = problem.starts(jax.random.key(1), (20,))
    actions = jax.vmap(Random(problem.model))(states, jax.random.split(jax.random.key(2), 20))
    times = jnp.linspace(0.0, 1.0, 20)

    def all_of(critic):
        values = critic(states, actions, times)
        slopes = jax.grad(lambda s, a: jnp.sum(critic(s, a, times)), (0, 1))(states, actions)
        return values, *slopes

    for wanted, found in zip(all_of(critic), all_of(critic.fixed()), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_parameters_packed_and_back():
    problem = ilbo.make("navigation-3")
    layers = (128, 64, 4)
    policy = Policy.init(jax.random.key(0), problem, Layers(layers))
    packed = pack(policy.network)
    assert [part.shape for part in packed] == [(128, 64), (2 * 128 + 3 * (128 + 64 + 4) + 266,)]
    again = Policy.of(packed, problem, Layers(layers))
    jax.tree.map(np.testing.assert_array_equal, policy, again)


def test_a_large_matrix_of_few_columns_is_packed_transposed():
    problem = ilbo.make("reservoir-20")
    policy = Policy.init(jax.random.key(0), problem, Layers((2048,)))
    first, last, _ = pack(policy.network)
    np.testing.assert_array_equal(first, policy.network.hidden[0].dense.weight)
    np.testing.assert_array_equal(last, policy.network.output.weight.T)
    again = Policy.of(pack(policy.network), problem, Layers((2048,)))
    jax.tree.map(np.testing.assert_array_equal, policy, again)


def test_a_critic_reaches_values_that_differ_by_orders_of_magnitude():
    """Steps that move the hidden layers' output by some thousand at the most."""
    states = jnp.linspace(-1, 1, 32)[:, None]
    actions = jnp.zeros((32, 1))
    values = -(10.0 ** jnp.linspace(0, 5, 32))
    network = CriticNetwork.init(jax.random.key(0), 1, 1, (32,))
    optimizer = optax.adam(0.03)

    def one(carry, _):
        def loss(network):
            return jnp.mean((network(states, actions) - values) ** 2)

        network, state = carry
        updates, state = optimizer.update(jax.grad(loss)(network), state)
        return (optax.apply_updates(network, updates), state), None

    (network, _), _ = jax.lax.scan(one, (network, optimizer.init(network)), length=600)
    found = network(states, actions)
    np.testing.assert_allclose(found[-4:], values[-4:], rtol=0.1)


@pytest.mark.parametrize("preset", [ilbo.ILBO, ilbo.ILBO.paper])
def test_only_the_critic_that_sees_the_time_bends_its_output(preset):
    """Weights of the last layer that are 10,000 times as large: values that are so for the
    stationary critic, the paper's, and larger ones for the other."""
    networks = ILBOTrainer.of(ilbo.make("navigation-3"), preset(layers=(8,)), 10).networks
    critic = networks.critic(networks.init(jax.random.key(0), jax.random.key(1))[1])
    state, action, left = jnp.array([3.0, 4.0]), jnp.array([0.5, -0.5]), jnp.array(7)
    last = critic.network.hidden.output
    larger = eqx.tree_at(
        lambda c: c.network.hidden.output, critic, jax.tree.map(lambda w: 1e4 * w, last)
    )
    small, large = (float(networks.value(c, state, action, left)) for c in (critic, larger))
    if networks.timed:
        assert large / small > 1.01e4
    else:
        assert large / small == pytest.approx(1e4, rel=1e-3)
