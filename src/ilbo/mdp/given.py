"""What a user gives for a problem: taken as it is meant, or refused in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from ilbo.errors import UserError
from ilbo.mdp.laws.law import Law
from ilbo.mdp.model import Model
from ilbo.mdp.shapes import State


def no_model(given: Any) -> str:
    if isinstance(given, type) and issubclass(given, Model):
        return f"the class {given.__name__} itself: give an object, {given.__name__}()"
    return f"{given!r}, which is no `ilbo.Model`"


def vector_of(given: Any, name: str) -> Array:
    try:
        with np.errstate(over="ignore"):  # what is too large for 32 bits is told of below
            return jnp.asarray(np.asarray(given, np.float32))
    except (TypeError, ValueError):
        raise UserError(
            f"Problem {name!r}: the initial state {given!r} is not a list of numbers."
        ) from None
    except RuntimeError as error:  # the first number that JAX sees
        raise UserError(
            f"JAX cannot start: {str(error).splitlines()[0]} Where JAX_PLATFORMS or a driver asks "
            "for a device that is not there, leave the variable out."
        ) from error


def labels_of(given: Any, name: str, what: str, size: int) -> tuple[str, ...]:
    """Names or units as a tuple; empty where none are given."""
    if isinstance(given, str):
        raise UserError(
            f"Problem {name!r}: {what} is the text {given!r}; it must be a list of {size}, such as "
            f"{[given] if size == 1 else ['...', '...']}."
        )
    found = tuple(given or ())
    for label in found:
        if not isinstance(label, str):
            raise UserError(f"Problem {name!r}: {what} holds {label!r}, which is no text.")
    if found and len(found) != size:
        raise UserError(f"Problem {name!r}: {what} has {len(found)} entries, not {size}.")
    return found


def box_of(box: Any, shape: tuple[int, ...], name: str, what: str) -> tuple[State, State]:
    try:  # in NumPy, where a small operation need not be compiled first
        low, high = (np.broadcast_to(np.asarray(b, np.float32), shape) for b in box)
    except (TypeError, ValueError):
        raise UserError(
            f"Problem {name!r}: the {what} must be a pair (low, high) of {shape[0]} numbers each, "
            f"or of one number for all; it is {box!r}."
        ) from None
    if np.any(low > high):
        raise UserError(f"Problem {name!r}: the {what}'s low lies above its high.")
    if np.isnan([low, high]).any() or (what == "region" and np.isinf([low, high]).any()):
        raise UserError(f"Problem {name!r}: the {what} has a number that is not finite.")
    return jnp.asarray(low), jnp.asarray(high)


def check_shapes(model: Model, state: State, name: str) -> tuple[int, tuple[str, ...]]:
    """Traces the model once; returns the number of action components and the names of the costs, or
    says what disagrees."""
    if not isinstance(getattr(model, "law", None), Law):
        raise UserError(
            f"Problem {name!r}: the model's `law` must be a law of noise, "
            f"for example `law = ilbo.Gaussian({state.size})`."
        )

    def step(key: Key[Array, ""], time: Array, state: State) -> tuple[Array, ...]:
        now = model.at(time)
        low, high = now.bounds(state)
        low, high = _array(low, "bounds", name), _array(high, "bounds", name)
        action = jnp.where(jnp.isfinite(low), low, jnp.where(jnp.isfinite(high), high, 0.0))
        next_state = now.transition(state, action, model.noise(key))
        next_state = _array(next_state, "transition", name)
        if type(model).costs is not Model.costs:
            costs.update(_costs(now.costs(state, action, next_state), name))
        return low, high, next_state, jnp.asarray(now.reward(state, action, next_state))

    costs: dict[str, Array] = {}

    try:
        low, high, next_state, reward = jax.eval_shape(
            step,
            jax.eval_shape(lambda: jax.random.key(0)),
            jax.ShapeDtypeStruct((), jnp.int32),
            state,
        )
    except UserError:
        raise
    except (
        jax.errors.TracerArrayConversionError,
        jax.errors.TracerIntegerConversionError,
    ) as error:
        raise UserError(
            f"Problem {name!r}: the model takes a number that is not known when it is compiled, "
            "such as the time or the state, as an index of a list or of a NumPy array, or gives it "
            "to a function of NumPy's: use `ilbo.series(values)`, or arrays and functions of "
            "jax.numpy."
        ) from error
    except (TypeError, ValueError, IndexError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"Problem {name!r}: the model fails on a state of size {state.size}: {reason}"
        ) from error
    if low.ndim != 1 or low.shape != high.shape:
        raise UserError(
            f"Problem {name!r}: bounds must return two vectors of one size, "
            f"got shapes {low.shape} and {high.shape}."
        )
    if next_state.shape != state.shape:
        raise UserError(
            f"Problem {name!r}: transition returns shape {next_state.shape}, "
            f"but the state has shape {state.shape}."
        )
    if reward.shape != ():
        raise UserError(f"Problem {name!r}: reward must be a scalar, got shape {reward.shape}.")
    if not jnp.issubdtype(next_state.dtype, jnp.floating):
        raise UserError(
            f"Problem {name!r}: transition returns the type {next_state.dtype}: planning "
            "differentiates it, so it must return real numbers, such as by `.astype(float)`."
        )
    if jnp.issubdtype(reward.dtype, jnp.complexfloating):
        raise UserError(f"Problem {name!r}: reward returns a complex number; it must be real.")
    return low.shape[0], tuple(costs)


def _costs(given: Any, name: str) -> dict[str, Array]:
    if not isinstance(given, Mapping) or not all(isinstance(cost, str) for cost in given):
        raise UserError(
            f"Problem {name!r}: costs must return a dict from names to scalars, such as "
            f'{{"energy": jnp.sum(action)}}, not a {type(given).__name__}.'
        )
    for cost, value in given.items():
        if jnp.shape(value) != ():
            raise UserError(
                f"Problem {name!r}: the cost {cost!r} must be a scalar, got shape "
                f"{jnp.shape(value)}; take the sum or the largest of its components."
            )
    return {cost: jnp.asarray(value) for cost, value in given.items()}


def _array(given: Any, what: str, name: str) -> Array:
    """Lists are no arrays where the model is called later: `[1.0] ** 2` is an error."""
    if isinstance(given, list | tuple):
        raise UserError(
            f"Problem {name!r}: {what} gives a {type(given).__name__} where an array is needed: "
            "use jnp.array([...])."
        )
    return jnp.asarray(given)


def like(known: Any, value: Any, what: str) -> Any:
    """A value in the place of another one, of its kind and shape."""
    try:
        found = np.asarray(value, np.float32)
    except (TypeError, ValueError):
        raise UserError(f"{what} must be a number, or as many as it has, not {value!r}.") from None
    if found.shape not in ((), np.shape(known)) or not np.isfinite(found).all():
        raise UserError(
            f"{what} must be a number, or {np.size(known)} of them, that are finite, not {value!r}."
        )
    if isinstance(known, float):
        return float(np.asarray(value, float))
    return jnp.asarray(np.broadcast_to(found, np.shape(known)))
