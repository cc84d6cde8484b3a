"""Noise with a memory, or with seasons: what of it lives in the state, and what is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ilbo.errors import UserError
from ilbo.mdp.laws.law import Law, Rule
from ilbo.mdp.laws.product import Product
from ilbo.mdp.laws.standard import Uniform


class MarkovChain(eqx.Module):
    """A chain with finitely many places, for exogenous noise that remembers.

    The place is a component of the state (0, 1, ..., as a number); one uniform noise moves it:

        chain = ilbo.MarkovChain([[0.9, 0.1], [0.3, 0.7]], values=[20.0, 60.0])
        law = chain.law                                   # or ilbo.Product([chain.law, ...])
        place = chain.step(state[1], noise[0])            # in `transition`
        price = chain.value(state[1])                     # in `transition` or `reward`

    Args:
        matrix: [j, j], the probability of each next place in a row for each place; or [c, j, j],
            one matrix for each step of a cycle.
        values: [j] or [j, v], what each place stands for; its number if None.
    """

    upto: Float[Array, "c j j"]
    """Cumulative probabilities of the next place."""
    values: Float[Array, "j ..."]

    def __init__(self, matrix: Any, values: Any = None):
        try:
            table = np.asarray(matrix, float)
            table = table[None] if table.ndim == 2 else table
        except (TypeError, ValueError):
            raise UserError("The matrix of MarkovChain must be a square table.") from None
        if table.ndim != 3 or table.shape[1] != table.shape[2] or not table.size:
            raise UserError(
                "The matrix of MarkovChain must be square, or one square matrix for each step of "
                f"a cycle, got shape {np.shape(matrix)}."
            )
        if not (table >= 0).all() or np.abs(table.sum(axis=2) - 1).max() > 1e-4:
            raise UserError(
                "Each row of the matrix of MarkovChain must hold probabilities that add up to 1."
            )
        found = np.arange(table.shape[1]) if values is None else values
        try:
            found = np.asarray(found, np.float32)
        except (TypeError, ValueError):
            raise UserError(f"The values of MarkovChain must be numbers, got {values!r}.") from None
        if found.ndim not in (1, 2) or len(found) != table.shape[1]:
            raise UserError(
                f"The values of MarkovChain must be one for each of its {table.shape[1]} places, "
                f"got shape {found.shape}."
            )
        self.upto = jnp.asarray(np.cumsum(table, axis=2), jnp.float32)
        self.values = jnp.asarray(found)

    @property
    def law(self) -> Law:
        """The noise of one step: uniform on [0, 1]."""
        ends = np.unique(np.append(np.asarray(self.upto, float).ravel(), [0.0, 1.0]))
        return Moves(1, ends=ends)

    @property
    def places(self) -> int:
        return self.upto.shape[1]

    def step(
        self, place: Float[Array, ""], noise: Float[Array, ""], season: Any = 0
    ) -> Float[Array, ""]:
        """The next place, from one uniform noise; season: the step of the cycle."""
        row = self.upto[_whole(season) % len(self.upto), self._index(place)]
        moved = jnp.sum(jax.lax.stop_gradient(noise) > row[:-1])
        return moved.astype(jnp.result_type(place))

    def value(self, place: Float[Array, ""]) -> Float[Array, "..."]:
        """What the place stands for: a number, or [v]."""
        return self.values[self._index(place)]

    def _index(self, place: Float[Array, ""]) -> Int[Array, ""]:
        return jnp.clip(_whole(place), 0, self.places - 1)


class Moves(Uniform):
    """Uniform on [0, 1], of which only matters between which ends it lies."""

    ends: np.ndarray = eqx.field(kw_only=True)

    def rules(self, points: int) -> list[Rule]:
        """Exact for a chain's steps, whatever the number of points."""
        return [((self.ends[1:] + self.ends[:-1]) / 2, np.diff(self.ends))]


class Seasonal(Product):
    """Another law for each step of a cycle, all of one size k.

    The noise of a step holds a draw of each; the model takes the one of its season, which it counts
    in a state component:

        law = ilbo.Seasonal([ilbo.Empirical(rows) for rows in months])
        inflow = self.law.of(noise, state[1])             # in `transition`
    """

    def __init__(self, laws: Sequence[Law]):
        super().__init__(laws)
        sizes = sorted({law.size for law in self.laws})
        if len(sizes) > 1:
            raise UserError(f"The laws of Seasonal must have one size, got sizes {sizes}.")

    @property
    def cycle(self) -> int:
        """Steps of the cycle."""
        return len(self.laws)

    def of(self, noise: Float[Array, " all"], season: Any) -> Float[Array, " k"]:
        """The part [k] of the noise that belongs to a season (counted from 0, round and round)."""
        return noise.reshape(self.cycle, -1)[_whole(season) % self.cycle]


def _whole(number: Any) -> Int[Array, ""]:
    return jnp.round(jax.lax.stop_gradient(jnp.asarray(number, jnp.float32))).astype(jnp.int32)
