"""Sampling that prefers what has seen strong gradients, with weights that keep means unbiased."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

LEAST_WANTED = 0.25
"""What any candidate is wanted at least, as a share of the average."""
MEMORY = 0.02
"""Share of a new sight in the running strength of a place."""


def prefer(
    strength: Float[Array, " c"], pick: Float[Array, ""], count: int
) -> tuple[Int[Array, " count"], Float[Array, " count"]]:
    """So many of the candidates, preferred by the roots of their strengths, and their weights.

    The weights make up for the preference. One uniform number decides all (systematic resampling).
    """
    wanted = jnp.sqrt(strength)
    wanted += LEAST_WANTED * jnp.mean(wanted) + 1e-30
    share = jnp.cumsum(wanted) / jnp.sum(wanted)
    places = (jnp.arange(count) + pick) / count
    chosen = jnp.minimum(jnp.sum(share < places[:, None], axis=1), len(strength) - 1)
    return chosen, jnp.mean(wanted) / wanted[chosen]


def remember(
    table: Float[Array, " h"], places: Int[Array, " b"], seen: Float[Array, " b"]
) -> Float[Array, " h"]:
    """Running means by place, after some more was seen at some of the places."""
    counts = jnp.zeros_like(table).at[places].add(1.0)
    means = jnp.zeros_like(table).at[places].add(seen) / jnp.maximum(counts, 1.0)
    return table + (1 - (1 - MEMORY) ** counts) * (means - table)
