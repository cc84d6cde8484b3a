"""How far the values of a critic reach within a run."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ilbo.nn.critic import CriticNetwork
from ilbo.planning.networks import reaching


def test_a_critic_reaches_values_that_differ_by_orders_of_magnitude():
    """Steps that move the hidden layers' output by some thousand at the most."""
    states = jnp.linspace(-1, 1, 32)[:, None]
    actions = jnp.zeros((32, 1))
    values = -(10.0 ** jnp.linspace(0, 5, 32))
    network = CriticNetwork.init(jax.random.key(0), 1, 1, (32,))
    optimizer = optax.adam(0.03)

    def one(carry, _):
        def loss(network):
            return jnp.mean((reaching(network(states, actions)) - values) ** 2)

        network, state = carry
        updates, state = optimizer.update(jax.grad(loss)(network), state)
        return (optax.apply_updates(network, updates), state), None

    (network, _), _ = jax.lax.scan(one, (network, optimizer.init(network)), length=600)
    found = reaching(network(states, actions))
    np.testing.assert_allclose(found[-4:], values[-4:], rtol=0.1)
