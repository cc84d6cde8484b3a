"""Calls of policies with plain numbers: one compiled program for all policies of a kind.

Within a trace of JAX's a policy is what its equations say. Called with numbers, operation by
operation, these take milliseconds; as one program they take a small part of that.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ilbo.errors import UserError

Function = Callable[..., Array]

_ready: dict[int, tuple[weakref.ref[Any], Function]] = {}
"""By the identity of a policy, which never changes: the policy, and its program."""


def call(policy: Any, function: Function, size: int, state: Any, *rest: Any) -> Array:
    """function(policy, state, *rest), compiled unless it is part of a trace.

    Args:
        policy: A pytree.
        function: What it does, the same for all policies of a kind.
        size: Number of state components n.
        state: [*b, n], an array, or a list of numbers.
        rest: Further arguments, arrays or numbers.
    """
    if not isinstance(state, jax.Array):
        state = _numbers(state)
    if state.ndim < 1 or state.shape[-1] != size:
        raise UserError(
            f"The policy takes a state of {size} numbers, as a list or an array, or a batch of "
            f"them, [..., {size}]; got shape {state.shape}."
        )
    if isinstance(state, jax.core.Tracer) or any(isinstance(x, jax.core.Tracer) for x in rest):
        return function(policy, jnp.asarray(state), *rest)
    known = _ready.get(id(policy))
    if known is not None and known[0]() is policy:
        return known[1](state, *rest)
    program = _program(policy, function)
    if program is None:
        return function(policy, jnp.asarray(state), *rest)
    place = id(policy)
    _ready[place] = weakref.ref(policy, lambda _: _ready.pop(place, None)), program
    return program(state, *rest)


def _numbers(state: Any) -> np.ndarray:
    try:
        array = np.asarray(state)
        return array if np.issubdtype(array.dtype, np.floating) else array.astype(np.float32)
    except (TypeError, ValueError):
        raise UserError(f"The state {state!r} is not a list of numbers.") from None


def _program(policy: Any, function: Function) -> Function | None:
    """The compiled policy; None where its arrays are not numbers: within a trace, or of a blank."""
    leaves, structure = jax.tree.flatten(policy)
    is_array = [isinstance(leaf, jax.Array | np.ndarray) for leaf in leaves]
    arrays = [leaf for leaf, array in zip(leaves, is_array, strict=True) if array]
    others = tuple(None if array else leaf for leaf, array in zip(leaves, is_array, strict=True))
    if any(isinstance(leaf, jax.core.Tracer | jax.ShapeDtypeStruct) for leaf in leaves):
        return None
    try:
        compiled = _of_kind(function, structure, others)
    except TypeError:  # something in it has no hash
        return None
    return functools.partial(compiled, jax.device_put(arrays))


@functools.lru_cache(maxsize=64)
def _of_kind(function: Function, structure: Any, others: tuple[Any, ...]) -> Function:
    """The program of all policies of this structure: arrays, state, ... → action."""

    def apply(arrays: list[Array], state: Array, *rest: Any) -> Array:
        filling = iter(arrays)
        leaves = [next(filling) if leaf is None else leaf for leaf in others]
        return function(jax.tree.unflatten(structure, leaves), state, *rest)

    return jax.jit(apply)
