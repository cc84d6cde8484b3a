"""The sample store: a ring of transitions with the noise that made them, inside the program.

One ring serves both stores of the paper: E^Q is all of it, E^μ its most recent part.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt32

PRIORITY_FLOOR = 1e-3
"""Least priority of a row, so that none is never seen again."""
SHARPNESS, CORRECTION = 0.6, 0.4
"""Exponents α and β of prioritised experience replay."""


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
    together: int = eqx.field(static=True)
    """Transitions that are added at a time: one of each episode that runs side by side."""
    priority: Float[Array, " capacity"] | None = None
    """How much each row is wanted, where sampling is prioritised; 0 for rows not written yet."""

    @classmethod
    def init(
        cls,
        sizes: tuple[int, int, int],
        capacity: int,
        together: int = 1,
        prioritised: bool = False,
    ) -> Store:
        states, actions, noises = sizes
        rows = jnp.zeros((capacity, 2 * states + actions + noises + 3), jnp.float32)
        priority = jnp.zeros(capacity, jnp.float32) if prioritised else None
        return cls(rows, jnp.array(0, jnp.int32), sizes, together, priority)

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
        new = jax.lax.optimization_barrier(jnp.concatenate(columns, axis=1, dtype=jnp.float32))
        at = self.count % self.capacity
        rows = jax.lax.dynamic_update_slice_in_dim(self.rows, new, at, axis=0)
        priority = self.priority
        if priority is not None:  # new rows are wanted as much as any
            wanted = jnp.full(len(new), jnp.maximum(jnp.max(priority), PRIORITY_FLOOR))
            priority = jax.lax.dynamic_update_slice_in_dim(priority, wanted, at, axis=0)
        return Store(rows, self.count + len(new), self.sizes, self.together, priority)

    def recent(self, unit: Float[Array, "*b"], span: int | None = None) -> Int[Array, "*b"]:
        """Positions of the latest `span` transitions (or all), picked by uniforms in [0, 1)."""
        held = jnp.minimum(self.count, self.capacity if span is None else span)
        age = jnp.minimum((unit * held).astype(jnp.int32), held - 1)
        return (self.count - 1 - age) % self.capacity

    def wanted(self, unit: Float[Array, " b"]) -> tuple[Int[Array, " b"], Float[Array, " b"]]:
        """Positions picked in proportion to their priority, and the weights that make up for it.

        The weights are (N P(i))^−β of prioritised experience replay, scaled to at most 1.
        """
        assert self.priority is not None
        cumulative = jnp.cumsum(self.priority)
        index = jnp.searchsorted(cumulative, unit * cumulative[-1], side="right")
        index = jnp.minimum(index, jnp.minimum(self.count, self.capacity) - 1)
        weights = jnp.maximum(self.priority[index], PRIORITY_FLOOR) ** -CORRECTION
        return index, weights / jnp.max(weights)

    def reprioritise(self, index: Int[Array, " b"], errors: Float[Array, " b"]) -> Store:
        """Sets the rows' priority by the critic's error there."""
        assert self.priority is not None
        priority = self.priority.at[index].set((jnp.abs(errors) + PRIORITY_FLOOR) ** SHARPNESS)
        return Store(self.rows, self.count, self.sizes, self.together, priority)

    def take(self, index: Int[Array, "*b"]) -> Transition:
        """The transitions at these positions."""
        row = self.rows[index]
        states, actions, noises = self.sizes
        ends = itertools.accumulate((states, actions, noises, states))
        state, action, noise, next_state, rest = jnp.split(row, list(ends), axis=-1)
        reward, steps_left, ended = (rest[..., i] for i in range(3))
        left = steps_left.astype(jnp.int32)
        return Transition(state, action, noise, next_state, reward, left, ended > 0)

    def saved(self) -> dict[str, np.ndarray]:
        """The filled part as plain arrays, in a form that compresses well.

        Columns stand together, and a next state is written as its difference, bit by bit, from the
        state of the row after it in the same episode: nothing, as a rule.
        """
        held = min(int(self.count), self.capacity)
        columns = np.asarray(self.rows[:held]).T.copy().view(np.uint32)
        _differences(columns, *self.sizes, self.together)
        arrays = {"columns": columns, "count": np.asarray(self.count)}
        return arrays | (
            {} if self.priority is None else {"priority": np.asarray(self.priority[:held])}
        )

    def restored(self, arrays: Mapping[str, np.ndarray]) -> Store:
        """A store of this capacity with what `saved` gave, of another the latest that it takes;
        ValueError where it does not fit."""
        columns = np.array(arrays["columns"])
        width, held = self.rows.shape[1], columns.shape[-1]
        if columns.shape != (width, held) or columns.dtype != np.uint32:
            raise ValueError("the store has another shape or type")
        _differences(columns, *self.sizes, self.together)
        rows, count = columns.view(np.float32).T, int(arrays["count"])
        priority = None if self.priority is None else np.array(arrays["priority"])
        if priority is not None and priority.shape != (held,):
            raise ValueError("the store has another shape or type")
        if held > self.capacity or held < min(count, self.capacity):  # a ring of another size
            order = (np.arange(held) + (count if count > held else 0)) % held
            latest = order[-self.capacity :]
            rows, count = rows[latest], len(latest)
            priority = None if priority is None else priority[latest]
        empty = self.capacity - len(rows)
        return Store(
            jnp.asarray(np.pad(rows, ((0, empty), (0, 0)))),
            jnp.asarray(count, self.count.dtype),
            self.sizes,
            self.together,
            None if priority is None else jnp.asarray(np.pad(priority, (0, empty))),
        )

    def noise(self, index: Int[Array, "*b"]) -> Float[Array, "*b k"]:
        """The noise alone at these positions."""
        states, actions, noises = self.sizes
        start = states + actions
        return self.rows[index, start : start + noises]


def _differences(
    columns: UInt32[np.ndarray, "width held"], states: int, actions: int, noises: int, together: int
) -> None:
    """Replaces next states by their difference from the following states, or the other way."""
    start = states + actions + noises
    columns[start : start + states] ^= np.roll(columns[:states], -together, axis=1)
