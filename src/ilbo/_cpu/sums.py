"""Sums that XLA on a CPU would otherwise split into several small programs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

ROWS = 32
"""Rows that a long sum is split into."""
SHORT = 512
"""Length up to which a running sum is a product."""


def sum_of_squares(x: Float[Array, "..."]) -> Float[Array, ""]:
    """By columns first: XLA would square a long row, and then sum it in several programs."""
    rows = jnp.pad(x.reshape(-1), (0, -x.size % ROWS)).reshape(ROWS, -1)
    return jnp.sum(jax.lax.optimization_barrier(jnp.sum(jnp.square(rows), axis=0)))


def running_sum(x: Float[Array, " n"]) -> Float[Array, " n"]:
    """As a product where that is small."""
    return jnp.asarray(np.tri(len(x)), jnp.float32) @ x if len(x) <= SHORT else jnp.cumsum(x)
