"""What a law of noise is."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from ilbo.errors import UserError

Rule = tuple[np.ndarray, np.ndarray]
"""Nodes and weights of a quadrature."""
MOST_NODES = 100_000


class Law(eqx.Module):
    """Law of a vector ξ [size]: independent components with densities, or none (`discrete`)."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of components."""

    @abstractmethod
    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape k"]:
        """Independent draws, all at once."""

    @abstractmethod
    def log_prob(self, noise: Float[Array, " k"]) -> Float[Array, " k"]:
        """Log-density of each component."""

    def rules(self, points: int) -> list[Rule]:
        """A quadrature of so many points for each component, exact as the points grow."""
        raise UserError(f"There is no quadrature of the law {self}.")

    def quadrature(self, points: int) -> Rule:
        """Nodes [q, k] and weights [q] with Σ_i w_i g(ξ_i) ≈ E g(ξ), from `rules`."""
        if not 1 <= points ** max(self.size, 1) <= MOST_NODES:
            raise UserError(
                f"A quadrature of {points} points in each of {self.size} noise components has too "
                f"many nodes: at most {MOST_NODES:,} are allowed."
            )
        return side_by_side([(nodes[:, None], weights) for nodes, weights in self.rules(points)])

    @property
    def gaussian(self) -> Bool[np.ndarray, " k"]:
        """Which components are standard normal (these may mix in one state component)."""
        return np.zeros(self.size, bool)

    @property
    def discrete(self) -> Bool[np.ndarray, " k"]:
        """Which components have finitely many values, and so no density."""
        return np.zeros(self.size, bool)

    @property
    def reference(self) -> Float[Array, " k"]:
        """A noise at which a transition that is clipped from below is not clipped."""
        return jnp.zeros(self.size)

    @abstractmethod
    def __str__(self) -> str: ...


def side_by_side(rules: Sequence[Rule]) -> Rule:
    """The quadrature of independent parts, each with nodes [q, part] and weights [q]."""
    if math.prod(len(weights) for _, weights in rules) > MOST_NODES:
        raise UserError(f"A quadrature has too many nodes: at most {MOST_NODES:,} are allowed.")
    nodes, weights = np.zeros((1, 0)), np.ones(1)
    for more, their_weights in rules:
        nodes = np.concatenate(
            [np.repeat(nodes, len(more), axis=0), np.tile(more, (len(nodes), 1))], axis=1
        )
        weights = np.outer(weights, their_weights).ravel()
    return nodes, weights


def by_quantile(quantile: Callable[[np.ndarray], np.ndarray], points: int) -> Rule:
    """A rule from the inverse of the distribution function: Gauss-Legendre in the probability."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return quantile((nodes + 1) / 2), weights / 2


def positive(law: str, parameter: str) -> Any:
    """A field of a law: positive, finite parameters [k], from an array or any list of numbers."""
    return eqx.field(converter=_positive(f"The {parameter} of {law}"))


def components() -> Any:
    """A field of a law without parameters: how many components there are."""
    return eqx.field(static=True, converter=_whole)


def _positive(what: str) -> Callable[[Any], Array]:
    def convert(values: Any) -> Array:
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values)):
            return jnp.asarray(values)  # of which nothing is known but the shape
        try:
            numbers = np.asarray(values)
            if not np.issubdtype(numbers.dtype, np.floating):
                numbers = numbers.astype(np.float32)
        except (TypeError, ValueError):
            raise UserError(f"{what} must be a list of numbers, got {values!r}.") from None
        if numbers.ndim != 1:
            raise UserError(
                f"{what} must be a list of numbers, one for each component, got shape "
                f"{numbers.shape}."
            )
        bad = numbers[~((numbers > 0) & np.isfinite(numbers))]
        if bad.size:
            raise UserError(f"{what} must be positive and finite, got {bad[0]:g}.")
        return jnp.asarray(numbers)

    return convert


def _whole(count: Any) -> int:
    if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 0:
        raise UserError(
            f"The number of components of a law must be a whole number from 0 on, got {count!r}."
        )
    return int(count)
