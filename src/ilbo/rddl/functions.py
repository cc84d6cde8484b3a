"""Python functions that an RDDL text calls: $name[?x, ..](fluent(?y, _), ..).

For each combination of the objects in scope that it does not capture, a function is given its
arguments, with one axis for each _, and returns an array with one axis for each captured parameter.
One that JAX can trace is differentiated; any other is called back at run time, and no derivative
passes through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

Function = Callable[..., Any]
Functions = Mapping[str, Function]


def traceable(function: Function, shapes: list[tuple[int, ...]], returns: tuple[int, ...]) -> bool:
    """Whether JAX can trace it.

    Raises:
        ValueError: It returns an array of another shape.
    """
    arguments = [jax.ShapeDtypeStruct(shape, jnp.zeros(0).dtype) for shape in shapes]
    try:
        found = jax.eval_shape(lambda *xs: jnp.asarray(function(*xs)), *arguments)
    except Exception:  # whatever a function of the user's does with a tracer
        return False
    if found.shape != returns:
        raise ValueError(f"returns an array of shape {found.shape}, not {returns}")
    return True


def calling(
    function: Function, traced: bool, batch: tuple[int, ...], returns: tuple[int, ...]
) -> Callable[..., Array]:
    """The function of arguments [*batch, *own axes], giving [*batch, *returns]."""

    def called_back(*arguments: Array) -> Array:
        def call(*values: Any) -> np.ndarray:
            result = np.asarray(function(*map(np.asarray, values)), kind)
            return np.broadcast_to(result, returns) if result.shape == () else result

        kind = jnp.zeros(0).dtype
        fixed = map(jax.lax.stop_gradient, arguments)
        shape = jax.ShapeDtypeStruct(returns, kind)
        return jax.pure_callback(call, shape, *fixed, vmap_method="sequential")

    def call(*arguments: Array) -> Array:
        one = (lambda *xs: jnp.asarray(function(*xs))) if traced else called_back
        if not arguments:
            return jnp.broadcast_to(one(), (*batch, *returns))
        flat = [x.reshape(-1, *x.shape[len(batch) :]) for x in arguments]
        return jax.vmap(one)(*flat).reshape(*batch, *returns)

    return call
