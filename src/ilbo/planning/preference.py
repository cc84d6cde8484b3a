"""Sampling that prefers what has seen strong gradients, with weights that keep means unbiased."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ilbo._cpu.sums import running_sum

LEAST_WANTED = 0.25
"""What any candidate is wanted at least, as a share of the average."""
MEMORY = 0.02
"""Weight of a new observation in the running strength of a place."""


def prefer(
    strength: Float[Array, " c"], pick: Float[Array, ""], count: int
) -> tuple[Int[Array, " count"], Float[Array, " count"]]:
    """So many of the candidates, preferred by the roots of their strengths, and their weights.

    The weights make up for the preference. One uniform number decides all (systematic resampling).
    """
    candidates = len(strength)
    wanted = jnp.sqrt(strength)
    up_to = running_sum(wanted)
    least = LEAST_WANTED * up_to[-1] / candidates + 1e-30
    wanted, up_to = wanted + least, up_to + least * np.arange(1, candidates + 1)
    places = (jnp.arange(count) + pick) / count
    before = (up_to < up_to[-1] * places[:, None]).astype(jnp.float32) @ jnp.ones(
        candidates, jnp.float32
    )
    chosen = jnp.minimum(before.astype(int), candidates - 1)
    return chosen, up_to[-1] / candidates / wanted[chosen]


def remember(
    table: Float[Array, " h"], places: Int[Array, " b"], seen: Float[Array, " b"]
) -> Float[Array, " h"]:
    """Running means by place, after some more was seen at some of the places."""
    counts = jnp.zeros_like(table).at[places].add(1.0)
    means = jnp.zeros_like(table).at[places].add(seen) / jnp.maximum(counts, 1.0)
    return table + (1 - (1 - MEMORY) ** counts) * (means - table)
