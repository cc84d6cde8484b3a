"""The sample store: a ring of transitions with the noise that made them, inside the program.

One ring serves both stores of the paper: E^Q is all of it, E^μ its most recent part.
"""

from __future__ import annotations

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
    """The ring. Arrays have a leading axis [capacity]."""

    rows: Transition
    count: Int[Array, ""]
    """Transitions ever added; the newest stands at (count − 1) mod capacity."""

    @classmethod
    def init(cls, example: Transition, capacity: int) -> Store:
        """An empty store for transitions shaped as the example."""
        rows = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), example)
        return cls(rows, jnp.array(0))

    @property
    def capacity(self) -> int:
        return self.rows.reward.shape[0]

    def add(self, batch: Transition) -> Store:
        """Overwrites the oldest rows by the batch's, whose size must divide the capacity."""
        at = self.count % self.capacity
        size = batch.reward.shape[0]

        def write(rows, new):
            return jax.lax.dynamic_update_slice_in_dim(rows, new, at, axis=0)

        return Store(jax.tree.map(write, self.rows, batch), self.count + size)

    def recent(self, unit: Float[Array, "*b"], span: int | None = None) -> Int[Array, "*b"]:
        """Positions of the latest `span` transitions (or all), picked by uniforms in [0, 1)."""
        held = jnp.minimum(self.count, self.capacity if span is None else span)
        age = jnp.minimum((unit * held).astype(jnp.int32), held - 1)
        return (self.count - 1 - age) % self.capacity

    def take(self, index: Int[Array, "*b"]) -> Transition:
        return jax.tree.map(lambda rows: rows[index], self.rows)
