"""A store of energy with prices by the hour: as a model that sees the time, and with a clock."""

import jax.numpy as jnp

import ilbo

PRICES = (30.0, 20.0, 10.0, 40.0, 60.0, 50.0)


class Storage(ilbo.Model):
    """Energy in the store; the action charges or discharges it, more in the first half."""

    price: ilbo.Series
    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise, time):
        return jnp.clip(state + action + 0.05 * noise * (1 + time), 0.0, 4.0)

    def reward(self, state, action, next_state, time):
        return -self.price[time] * jnp.sum(action) - jnp.sum(action**2)

    def bounds(self, state, time):
        most = jnp.where(time < 3, 1.0, 0.5)
        return -jnp.minimum(most, state), jnp.minimum(most, 4.0 - state)

    def heuristic(self, state, time):
        return jnp.where(self.price[time] < 35.0, 1.0, -1.0) * jnp.ones(1)

    def observe(self, state, action, time):
        return {"price": self.price[time]}


class Clocked(ilbo.Model):
    """The same with the time as a second state component."""

    inner: Storage
    law = ilbo.Gaussian(1)

    def now(self, state):
        return self.inner.at(jnp.round(state[1]).astype(jnp.int32))

    def transition(self, state, action, noise):
        moved = self.now(state).transition(state[:1], action, noise)
        return jnp.concatenate([moved, state[1:] + 1])

    def reward(self, state, action, next_state):
        return self.now(state).reward(state[:1], action, next_state[:1])

    def bounds(self, state):
        return self.now(state).bounds(state[:1])

    def heuristic(self, state):
        return self.now(state).heuristic(state[:1])


def timed(cyclic=False):
    return ilbo.Problem(
        Storage(ilbo.series(PRICES, cyclic=cyclic)),
        name="storage",
        initial_state=[2.0],
        horizon=len(PRICES),
        region=(0.0, 4.0),
    )


def clocked():
    return ilbo.Problem(
        Clocked(timed().model),
        name="storage with a clock",
        initial_state=[2.0, 0.0],
        horizon=len(PRICES),
        region=([0.0, 0.0], [4.0, len(PRICES)]),
    )
