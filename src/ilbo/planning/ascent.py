"""Optimiser steps, along gradients that are cut where they are unusually long."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

ROWS = 32
"""Rows that a long sum is split into."""
LONGEST = 2.0
"""How many times the running mean length of a gradient a single one may count in it."""


def make_optimizer(name: str, rate, memory: float = 0.999) -> optax.GradientTransformation:
    """Adam, with so long a memory of the gradients' sizes, or RMSprop."""
    # Gradients come in the reward's units, so epsilon must not set a scale of its own.
    if name == "adam":
        return optax.adam(rate, b2=memory, eps=1e-15)
    return optax.rmsprop(rate, decay=0.9, eps=1e-15)


def climb(
    optimizer: optax.GradientTransformation,
    parameters,
    gradient,
    optimizer_state,
    mean_norm: Float[Array, ""],
    clip: float,
    allowed: Bool[Array, ""],
):
    """One step up the gradient, cut at `clip` times its running mean length; 0: never.

    Where it is not allowed, or the gradient is not finite, nothing moves.

    Returns the parameters, the optimiser's state, the running mean length and the length.
    """
    norm = jnp.sqrt(sum(sum_of_squares(part) for part in gradient))
    known = jnp.where(mean_norm > 0, mean_norm, norm)
    factor = jnp.minimum(1.0, clip * known / jnp.maximum(norm, 1e-30)) if clip > 0 else 1.0
    good = allowed & jnp.isfinite(norm)
    gradient = jax.tree.map(lambda g: jnp.where(good, -factor * g, 0.0), gradient)
    updates, optimizer_state = optimizer.update(gradient, optimizer_state)
    counted = jnp.minimum(norm, LONGEST * known)
    mean_norm = jnp.where(good, 0.99 * known + 0.01 * counted, mean_norm)
    moved = jax.tree.map(lambda p, u: jnp.where(good, p + u, p), parameters, updates)
    return moved, optimizer_state, mean_norm, norm


def sum_of_squares(x: Array) -> Float[Array, ""]:
    """By columns first: XLA would square a long row, and then sum it in several programs."""
    rows = jnp.pad(x.reshape(-1), (0, -x.size % ROWS)).reshape(ROWS, -1)
    return jnp.sum(jax.lax.optimization_barrier(jnp.sum(jnp.square(rows), axis=0)))
