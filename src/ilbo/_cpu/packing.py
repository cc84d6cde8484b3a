"""Many arrays as few: optimisers and averages take few turns, products find weights in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ilbo._cpu.products import is_tall

LARGE = 8192
"""Numbers from which on an array is kept by itself."""

Packed = tuple[Float[Array | np.ndarray, "..."], ...]
"""Each large array by itself, tall ones transposed, then one vector of all the small ones."""


def pack(leaves: Sequence[Array]) -> Packed:
    """The arrays as few arrays."""
    turned = [leaf.T if is_tall(leaf.shape) else leaf for leaf in leaves]
    large = [leaf for leaf in turned if leaf.size >= LARGE]
    small = [jnp.ravel(leaf) for leaf in turned if leaf.size < LARGE]
    return (*large, jnp.concatenate(small) if small else jnp.zeros(0, jnp.float32))


def unpack(packed: Packed, shapes: Sequence[Any]) -> list[Array]:
    """The arrays that were packed, given anything with their shapes and sizes."""
    *large, small = packed
    parts: list[Any] = []
    at, rest = 0, iter(large)
    for leaf in shapes:
        tall = is_tall(leaf.shape)
        if leaf.size >= LARGE:
            part = next(rest)
        else:
            part = small[at : at + leaf.size].reshape(leaf.shape[::-1] if tall else leaf.shape)
            at += leaf.size
        parts.append(part.T if tall else part)
    return jax.device_put(parts) if isinstance(small, np.ndarray) else parts
