"""The task set in a model: where it starts, how long it runs, what its components are called."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ilbo.errors import UserError
from ilbo.forks import check_not_forked
from ilbo.mdp import sampling
from ilbo.mdp.laws.law import Law
from ilbo.mdp.model import Model
from ilbo.mdp.shapes import State


class Origin(NamedTuple):
    """Where a problem comes from, so that it can be found or built again from what a file says."""

    kind: str = "python"
    """ "python" for a model of the user's own; "built-in"; or "rddl"."""
    files: tuple[tuple[str, str], ...] = ()
    """Name and text of each RDDL file."""
    fingerprint: str = ""
    """`fingerprint` of the problem as it was built; empty for a model of the user's own."""


PYTHON = Origin()


class Problem(eqx.Module):
    """A model, where it starts, how long it runs, and what its components are called."""

    model: Model
    """The model that planning differentiates."""
    initial_state: State
    """The problem's own start [n]."""
    region: tuple[State, State]
    """Lowest and highest start state of training; also the scale of the networks' inputs."""
    name: str = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    """Number of steps of an episode."""
    discount: float = eqx.field(static=True)
    state_names: tuple[str, ...] = eqx.field(static=True)
    action_names: tuple[str, ...] = eqx.field(static=True)
    state_units: tuple[str, ...] = eqx.field(static=True)
    action_units: tuple[str, ...] = eqx.field(static=True)
    domain: tuple[State, State]
    """Lowest and highest state that makes sense at all."""
    exact: Model
    """The model that evaluation runs; another one only where `model` is a relaxation of it."""
    origin: Origin = eqx.field(static=True)
    """Where the problem comes from, set by what builds it."""

    def __init__(
        self,
        model: Model,
        *,
        name: str,
        initial_state: Any,
        horizon: int,
        region: tuple[Any, Any],
        discount: float = 1.0,
        state_names: tuple[str, ...] | None = None,
        action_names: tuple[str, ...] | None = None,
        state_units: tuple[str, ...] | None = None,
        action_units: tuple[str, ...] | None = None,
        domain: tuple[Any, Any] = (-np.inf, np.inf),
        exact: Model | None = None,
        origin: Origin = PYTHON,
    ):
        check_not_forked()
        start = jnp.asarray(np.asarray(initial_state, np.float32))
        if start.ndim != 1:
            raise UserError(
                f"Problem {name!r}: the initial state must be a vector, got shape {start.shape}."
            )
        if not np.isfinite(start).all():
            raise UserError(f"Problem {name!r}: the initial state has a number that is not finite.")
        self.model = model
        self.exact = model if exact is None else exact
        self.name = name
        self.initial_state = start
        self.region = _box(region, start.shape, name, "region")
        self.domain = _box(domain, start.shape, name, "domain")
        self.horizon = int(horizon)
        self.discount = float(discount)
        if self.horizon < 1:
            raise UserError(f"Problem {name!r}: the horizon must be at least 1, got {horizon}.")
        if not 0 < self.discount <= 1:
            raise UserError(f"Problem {name!r}: the discount must be in (0, 1], got {discount}.")
        actions = _check_shapes(model, start, name)
        self.state_names = state_names or _numbered("s", start.size)
        self.action_names = action_names or _numbered("a", actions)
        self.state_units = state_units or ("",) * start.size
        self.action_units = action_units or ("",) * actions
        for what, labels, size in (
            ("state_names", self.state_names, start.size),
            ("state_units", self.state_units, start.size),
            ("action_names", self.action_names, actions),
            ("action_units", self.action_units, actions),
        ):
            if len(labels) != size:
                raise UserError(f"Problem {name!r}: {what} has {len(labels)} entries, not {size}.")
        if origin.kind != "python":
            origin = origin._replace(fingerprint=fingerprint(self))
        self.origin = origin

    @property
    def is_as_built(self) -> bool:
        """Whether it still is what its origin says; never for a model of the user's own, whose
        origin says nothing."""
        return self.origin.kind != "python" and self.origin.fingerprint == fingerprint(self)

    @property
    def state_size(self) -> int:
        return self.initial_state.shape[0]

    @property
    def action_size(self) -> int:
        return len(self.action_names)

    def starts(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape n"]:
        """Start states drawn uniformly from the region."""
        return self.in_region(sampling.uniform(key, (*shape, self.state_size)))

    def in_region(self, units: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
        """The states of the region that numbers in [0, 1] stand for."""
        low, high = self.region
        return low + units * (high - low)

    def check_start(self, start: Any) -> Float[Array, "*episodes n"]:
        """The start state, or one for each episode, as an array, or a `UserError`."""
        try:
            state = jnp.asarray(start, jnp.float32)
        except (TypeError, ValueError):
            raise UserError(f"The start state {start!r} is not a list of numbers.") from None
        if state.ndim not in (1, 2) or state.shape[-1] != self.state_size:
            raise UserError(
                f"The start state has shape {state.shape}, but {self.name} has "
                f"{self.state_size} state components: {_few(self.state_names)}."
            )
        low, high = self.domain
        outside = np.argwhere(~np.asarray(jnp.isfinite(state) & (state >= low) & (state <= high)))
        if len(outside):
            i = int(outside[0, -1])
            value = state[tuple(outside[0])]
            where = (
                f"outside the domain [{low[i]:g}, {high[i]:g}] of {self.name}"
                if np.isfinite(value)
                else "which is not a finite number"
            )
            raise UserError(f"The start state has {self.state_names[i]} = {value:g}, {where}.")
        return state


def fingerprint(problem: Problem) -> str:
    """A digest of all that the problem holds: arrays, names, figures, and the types of its parts.

    It serves to notice that a problem was altered in memory. Arrays may differ in their last bits
    between devices and versions of JAX: what goes into files is a digest of what the problem was
    made from (`ilbo.registry.identity`).
    """
    digest = hashlib.sha256()
    for field in dataclasses.fields(problem):
        if field.name != "origin":
            for part in _parts(getattr(problem, field.name)):
                digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _parts(value: Any) -> Iterator[bytes]:
    yield f"{type(value).__module__}.{type(value).__qualname__}".encode()
    if eqx.is_array_like(value):
        array = np.asarray(value)
        yield f"{array.dtype} {array.shape}".encode()
        yield array.tobytes()
    elif isinstance(value, eqx.Module):
        for field in dataclasses.fields(value):
            yield from _parts(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        yield str(len(value)).encode()
        for item in value:
            yield from _parts(item)
    elif isinstance(value, str):
        yield value.encode()
    elif value is not None:  # what is compiled from RDDL: it is itself, and nothing else is
        yield str(id(value)).encode()


def _box(box: tuple[Any, Any], shape: tuple[int, ...], name: str, what: str) -> tuple[State, State]:
    try:  # in NumPy, where a small operation need not be compiled first
        low, high = (np.broadcast_to(np.asarray(b, np.float32), shape) for b in box)
    except ValueError:
        raise UserError(
            f"Problem {name!r}: the {what} must be a pair (low, high) of {shape[0]} numbers each."
        ) from None
    if np.any(low > high):
        raise UserError(f"Problem {name!r}: the {what}'s low lies above its high.")
    if np.isnan([low, high]).any() or (what == "region" and np.isinf([low, high]).any()):
        raise UserError(f"Problem {name!r}: the {what} has a number that is not finite.")
    return jnp.asarray(low), jnp.asarray(high)


def _check_shapes(model: Model, state: State, name: str) -> int:
    """Traces the model once; returns the number of action components or says what disagrees."""
    if not isinstance(getattr(model, "law", None), Law):
        raise UserError(
            f"Problem {name!r}: the model's `law` must be a law of noise, "
            f"for example `law = ilbo.Gaussian({state.size})`."
        )

    def step(key: Key[Array, ""]) -> tuple[Array, Array, Array, Array]:
        low, high = model.bounds(state)
        low, high = jnp.asarray(low), jnp.asarray(high)
        action = jnp.where(jnp.isfinite(low), low, jnp.where(jnp.isfinite(high), high, 0.0))
        next_state = jnp.asarray(model.transition(state, action, model.noise(key)))
        return low, high, next_state, jnp.asarray(model.reward(state, action, next_state))

    try:
        low, high, next_state, reward = jax.eval_shape(
            step, jax.eval_shape(lambda: jax.random.key(0))
        )
    except UserError:
        raise
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
    return low.shape[0]


def _numbered(stem: str, count: int) -> tuple[str, ...]:
    return tuple(f"{stem}{i + 1}" for i in range(count))


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names if len(names) <= 6 else (*names[:3], "...", names[-1]))
