"""Trees of arrays as named arrays, and back."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def named_leaves(tree: Any) -> dict[str, Any]:
    """The arrays of a tree under the names of their places."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(at, simple=True, separator="."): leaf for at, leaf in leaves}


def fill(template: Any, arrays: dict[str, np.ndarray], prefix: str = "") -> Any:
    """The tree with its arrays taken by name; shapes and types must be those of the template."""
    leaves = []
    for name, wanted in named_leaves(template).items():
        if not hasattr(wanted, "shape"):  # a plain value of a network of the user's own
            leaves.append(wanted)
            continue
        array = arrays.get(prefix + name)
        if array is None:
            raise ValueError(f"the array {prefix + name!r} is missing")
        if array.shape != wanted.shape or array.dtype != wanted.dtype:
            raise ValueError(
                f"the array {prefix + name!r} is {array.dtype}{list(array.shape)}, "
                f"not {wanted.dtype}{list(wanted.shape)}"
            )
        leaves.append(jnp.array(array))
    return jax.tree.unflatten(jax.tree.structure(template), leaves)
