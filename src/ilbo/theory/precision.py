"""Double precision where the theory is checked, without touching JAX's global setting."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

Doubles = Array | np.ndarray
"""Arrays in float64: JAX's while it traces, NumPy's otherwise."""


def in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """Runs the function in float64 and returns its arrays as NumPy arrays.

    NumPy arrays keep their precision outside; a float64 JAX array there would be rounded to float32
    by the next operation. While JAX traces (`jax.grad`, `jax.jit`), results stay JAX's.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with jax.enable_x64(True):
            result = function(*args, **kwargs)
        return jax.tree.map(_concrete, result)

    return wrapper


def _concrete(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer):
        return np.asarray(leaf)
    return leaf
