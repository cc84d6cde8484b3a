"""Optimiser steps, along gradients that are cut where they are unusually long."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from ilbo._cpu.sums import sum_of_squares
from ilbo.mdp.shapes import Number
from ilbo.planning.numbers import is_off

Learnt = TypeVar("Learnt")
"""What is learnt: arrays, in a structure of any kind."""
LONGEST = 2.0
"""How many times the running mean length of a gradient a single one may count in it."""


def make_optimizer(
    name: str, rate: float | Float[Array, ""], memory: float = 0.999
) -> optax.GradientTransformation:
    """Adam, with so long a memory of the gradients' sizes, or RMSprop."""
    # Gradients come in the reward's units, so epsilon must not set a scale of its own.
    if name == "adam":
        return optax.adam(rate, b2=memory, eps=1e-15)
    return optax.rmsprop(rate, decay=0.9, eps=1e-15)


def climb(
    optimizer: optax.GradientTransformation,
    parameters: Learnt,
    gradient: Learnt,
    optimizer_state: optax.OptState,
    mean_norm: Float[Array, ""],
    clip: Number,
    allowed: Bool[Array, ""],
) -> tuple[Learnt, optax.OptState, Float[Array, ""], Float[Array, ""]]:
    """One step up the gradient, cut at `clip` times its running mean length; 0: never.

    Where it is not allowed, or the gradient is not finite, nothing moves.

    Returns the parameters, the optimiser's state, the running mean length and the length.
    """
    norm = jnp.sqrt(sum(sum_of_squares(part) for part in jax.tree.leaves(gradient)))
    known = jnp.where(mean_norm > 0, mean_norm, norm)
    factor = jnp.minimum(1.0, clip * known / jnp.maximum(norm, 1e-30)) if not is_off(clip) else 1.0
    good = allowed & jnp.isfinite(norm)
    gradient = jax.tree.map(lambda g: jnp.where(good, -factor * g, 0.0), gradient)
    updates, optimizer_state = optimizer.update(gradient, optimizer_state)
    counted = jnp.minimum(norm, LONGEST * known)
    mean_norm = jnp.where(good, 0.99 * known + 0.01 * counted, mean_norm)
    moved = jax.tree.map(lambda p, u: jnp.where(good, p + u, p), parameters, updates)
    return moved, optimizer_state, mean_norm, norm
