"""The sample store: a ring of transitions with the noise that made them, inside the program.

One ring serves both stores of the paper: E^Q is all of it, E^μ its most recent part.
"""

from __future__ import annotations

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class Transition(eqx.Module):
    """One step (or many, with leading axes): s, a, ξ → r, s'."""

    state: Float[Array, "*b n"]
    action: Float[Array, "*b m"]
    noise: Float[Array, "*b k"]
    next_state: Float[Array, "*b n"]
    reward: Float[Array, "*b"]
    steps_left: Int[Array, "*b"]
    """Steps left when the action was taken, at least 1."""
    ended: Bool[Array, "*b"]
    """Whether s' is terminal, so that nothing follows it."""


class Store(eqx.Module):
    """The ring. A transition is one row of one array: written by one slice, read by one gather."""

    rows: Float[Array, "capacity width"]
    count: Int[Array, ""]
    """Transitions ever added; the newest stands at (count − 1) mod capacity."""
    sizes: tuple[int, int, int] = eqx.field(static=True)
    """Components of the state, the action and the noise."""

    @classmethod
    def init(cls, sizes: tuple[int, int, int], capacity: int) -> Store:
        states, actions, noises = sizes
        rows = jnp.zeros((capacity, 2 * states + actions + noises + 3))
        return cls(rows, jnp.array(0), sizes)

    @property
    def capacity(self) -> int:
        return self.rows.shape[0]

    def add(self, batch: Transition) -> Store:
        """Overwrites the oldest rows by the batch's, whose size must divide the capacity."""
        columns = (
            batch.state,
            batch.action,
            batch.noise,
            batch.next_state,
            batch.reward[:, None],
            batch.steps_left[:, None].astype(jnp.float32),
            batch.ended[:, None].astype(jnp.float32),
        )
        # Without the barrier XLA fuses the rows' computation into the write and copies the ring.
        new = jax.lax.optimization_barrier(jnp.concatenate(columns, axis=1))
        at = self.count % self.capacity
        rows = jax.lax.dynamic_update_slice_in_dim(self.rows, new, at, axis=0)
        return Store(rows, self.count + len(new), self.sizes)

    def recent(self, unit: Float[Array, "*b"], span: int | None = None) -> Int[Array, "*b"]:
        """Positions of the latest `span` transitions (or all), picked by uniforms in [0, 1)."""
        held = jnp.minimum(self.count, self.capacity if span is None else span)
        age = jnp.minimum((unit * held).astype(jnp.int32), held - 1)
        return (self.count - 1 - age) % self.capacity

    def take(self, index: Int[Array, "*b"]) -> Transition:
        """The transitions at these positions."""
        row = self.rows[index]
        states, actions, noises = self.sizes
        ends = itertools.accumulate((states, actions, noises, states))
        state, action, noise, next_state, rest = jnp.split(row, list(ends), axis=-1)
        reward, steps_left, ended = (rest[..., i] for i in range(3))
        left = steps_left.astype(jnp.int32)
        return Transition(state, action, noise, next_state, reward, left, ended > 0)

    def noise(self, index: Int[Array, "*b"]) -> Float[Array, "*b k"]:
        """The noise alone at these positions."""
        states, actions, noises = self.sizes
        start = states + actions
        return self.rows[index, start : start + noises]
