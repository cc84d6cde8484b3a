"""The task set in a model: where it starts, how long it runs, what its components are called."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ilbo.errors import UserError, whole
from ilbo.forks import check_not_forked
from ilbo.mdp import indexes, sampling
from ilbo.mdp.device import check_device
from ilbo.mdp.laws.law import Law
from ilbo.mdp.limits import Limit, limits_of
from ilbo.mdp.model import Model
from ilbo.mdp.shapes import State, Whole
from ilbo.mdp.uncertain import Uncertain, check_parameter


class Origin(NamedTuple):
    """Where a problem comes from, so that it can be found or built again from what a file says."""

    kind: str = "python"
    """ "python" for a model of the user's own; "file" for one in a file that was named; "built-in";
    or "rddl"."""
    files: tuple[tuple[str, str], ...] = ()
    """Name and text of each RDDL file, or of the Python file."""
    reference: str = ""
    """How a problem in a Python file is named."""
    arguments: tuple[tuple[str, str], ...] = ()
    """Of the function there that returns it, as Python expressions."""
    fingerprint: str = ""
    """`fingerprint` of the problem as it was built; empty for a model of the user's own."""


PYTHON = Origin()
LONGEST = 2**31 - 1
"""Steps of an episode: the time is a number of 32 bits."""


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
    discount: float
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
    region_is_guessed: bool = eqx.field(static=True)
    """Whether the region is an estimate of ours and not a part of the task."""
    uncertain: Uncertain | None
    """The parameters of the model that are drawn once an episode."""
    limits: tuple[Limit, ...]
    """What episodes may cost."""

    def __init__(
        self,
        model: Model,
        *,
        name: str,
        initial_state: Any,
        horizon: Whole,
        region: Any,
        discount: float = 1.0,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        state_units: Sequence[str] | None = None,
        action_units: Sequence[str] | None = None,
        domain: Any = (-np.inf, np.inf),
        exact: Model | None = None,
        origin: Origin = PYTHON,
        region_is_guessed: bool = False,
        uncertain: Mapping[str, Law] | None = None,
        uncertain_is_seen: bool = False,
        limits: Sequence[Limit | str] = (),
    ):
        check_not_forked()
        check_device()
        for given, what in ((model, "model"), (model if exact is None else exact, "exact model")):
            if not isinstance(given, Model):
                raise UserError(f"Problem {name!r}: the {what} is {_no_model(given)}.")
        start = _vector(initial_state, name)
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
        self.horizon = whole(horizon, f"Problem {name!r}: the horizon")
        try:
            self.discount = float(discount)
        except (TypeError, ValueError):
            raise UserError(f"Problem {name!r}: the discount {discount!r} is no number.") from None
        self.region_is_guessed = region_is_guessed
        if self.horizon < 1:
            raise UserError(f"Problem {name!r}: the horizon must be at least 1, got {horizon}.")
        if self.horizon > LONGEST:
            raise UserError(f"Problem {name!r}: the horizon must be at most {LONGEST:,}.")
        if not 0 < self.discount <= 1:
            raise UserError(f"Problem {name!r}: the discount must be in (0, 1], got {discount}.")
        actions, costs = _check_shapes(model, start, name)
        self.limits = limits_of(limits, costs, name)
        self.uncertain = None
        if uncertain is not None:
            _make_uncertain(self, uncertain, uncertain_is_seen)
        n, m = start.size, actions
        self.state_names = _labels(state_names, name, "state_names", n) or _numbered("s", n)
        self.action_names = _labels(action_names, name, "action_names", m) or _numbered("a", m)
        self.state_units = _labels(state_units, name, "state_units", n) or ("",) * n
        self.action_units = _labels(action_units, name, "action_units", m) or ("",) * m
        if origin.kind == "python":
            _check_numbers(self)
        else:
            origin = origin._replace(fingerprint=fingerprint(self))
        self.origin = origin

    @property
    def is_as_built(self) -> bool:
        """Whether it still is what its origin says; never for a model of the user's own, whose
        origin says nothing."""
        return self.origin.kind != "python" and self.origin.fingerprint == fingerprint(self)

    def from_origin(self, origin: Origin) -> Problem:
        """The same problem, as one that comes from there."""
        problem = jax.tree.map(lambda leaf: leaf, self)
        own = origin._replace(fingerprint=fingerprint(problem))
        object.__setattr__(problem, "origin", own)
        return problem

    def with_parameters(self, values: Mapping[str, Any]) -> Problem:
        """The problem with other numbers in its model, such as {"efficiency": 0.85}; where a
        parameter was uncertain, it is sure now. Training on it is training on another problem."""
        models, found = [], self.uncertain
        for model in (self.model, self.exact):
            shaped = {}
            for name, value in values.items():
                known = model.parameters()
                check_parameter(known, name, f"Problem {self.name!r}: the model")
                shaped[name] = _like(known[name], value, f"Problem {self.name!r}: {name!r}")
            models.append(model.with_parameters(shaped))
        problem = jax.tree.map(lambda leaf: leaf, self)
        for name, value in (
            *(("model", models[0]), ("exact", models[1])),
            ("uncertain", None if found is None else found.fixed_at(values)),
        ):
            object.__setattr__(problem, name, value)
        return problem

    def with_uncertain(self, laws: Mapping[str, Law], *, seen: bool = False) -> Problem:
        """The problem with parameters that are drawn once an episode, such as
        {"efficiency": ilbo.Uniform(0.85, 0.95)}; `seen`, whether the policy sees them."""
        problem = jax.tree.map(lambda leaf: leaf, self)
        _make_uncertain(problem, laws, seen)
        return problem

    def with_limits(self, limits: Sequence[Limit | str]) -> Problem:
        """The problem with these limits on its costs in the place of its own, such as
        [ilbo.Expected("energy", at_most=400)] or ["E(energy) <= 400"]."""
        problem = copy.copy(self)
        object.__setattr__(problem, "limits", limits_of(limits, self.cost_names, self.name))
        return problem

    @property
    def cost_names(self) -> tuple[str, ...]:
        """What the costs of its model are called."""
        if type(self.model).costs is Model.costs:
            return ()
        return _check_shapes(self.model, self.initial_state, self.name)[1]

    @property
    def sees_time(self) -> bool:
        """Whether its models see the time."""
        return self.model.sees_time or self.exact.sees_time

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


def _make_uncertain(problem: Problem, laws: Any, seen: bool) -> None:
    found = Uncertain.of(problem.model, laws, seen, problem.name)
    for name in ("model", "exact"):
        object.__setattr__(problem, name, getattr(problem, name).preparing(found.names))
    found.check((problem.model, problem.exact), problem.initial_state, problem.name)
    object.__setattr__(problem, "uncertain", found)


def _like(known: Any, value: Any, what: str) -> Any:
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


def fingerprint(problem: Problem) -> str:
    """A digest of all that the problem holds: arrays, names, figures, and the types of its parts.

    It serves to notice that a problem was altered in memory. Arrays may differ in their last bits
    between devices and versions of JAX: what goes into files is a digest of what the problem was
    made from (`ilbo.registry.identity`).
    """
    digest = hashlib.sha256()
    for field in dataclasses.fields(problem):
        if field.name not in ("origin", "limits"):  # what is asked of it does not change it
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
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _parts(key)
            yield from _parts(item)
    elif isinstance(value, str):
        yield value.encode()
    elif value is not None:  # what is compiled from RDDL: it is itself, and nothing else is
        yield str(id(value)).encode()


def _no_model(given: Any) -> str:
    if isinstance(given, type) and issubclass(given, Model):
        return f"the class {given.__name__} itself: give an object, {given.__name__}()"
    return f"{given!r}, which is no `ilbo.Model`"


def _vector(given: Any, name: str) -> Array:
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


def _labels(given: Sequence[str] | None, name: str, what: str, size: int) -> tuple[str, ...]:
    """Names or units as a tuple; empty where none are given."""
    if isinstance(given, str):
        raise UserError(
            f"Problem {name!r}: {what} is the text {given!r}; it must be a list of {size}, such as "
            f"{[given] if size == 1 else ['...', '...']}."
        )
    labels = tuple(given or ())
    for label in labels:
        if not isinstance(label, str):
            raise UserError(f"Problem {name!r}: {what} holds {label!r}, which is no text.")
    if labels and len(labels) != size:
        raise UserError(f"Problem {name!r}: {what} has {len(labels)} entries, not {size}.")
    return labels


def _box(box: Any, shape: tuple[int, ...], name: str, what: str) -> tuple[State, State]:
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


def _check_shapes(model: Model, state: State, name: str) -> tuple[int, tuple[str, ...]]:
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


def _check_numbers(problem: Problem) -> None:
    """What shapes do not tell of a model of the user's own: start, bounds, indexes."""
    start, name = np.asarray(problem.initial_state), problem.name
    model = problem.model.at(np.int32(0))
    last = problem.model.at(np.int32(problem.horizon - 1))
    for what, (bottom, top) in (("region", problem.region), ("domain", problem.domain)):
        for i in np.flatnonzero((start < bottom) | (start > top))[:1]:
            raise UserError(
                f"Problem {name!r}: the initial state has {problem.state_names[i]} = {start[i]:g}, "
                f"outside the {what} [{bottom[i]:g}, {top[i]:g}]: the {what} must hold the start."
            )
    low, high = (np.asarray(bound) for bound in model.bounds(problem.initial_state))
    possible = (low <= high) & (low < np.inf) & (high > -np.inf)
    for i in np.flatnonzero(~possible)[:1]:
        raise UserError(
            f"Problem {name!r}: at the initial state, bounds gives {problem.action_names[i]} a "
            f"lowest value of {low[i]:g} and a highest of {high[i]:g}: no number lies between; the "
            "lowest must come first."
        )
    action = jax.ShapeDtypeStruct(low.shape, jnp.float32)
    noise = jax.ShapeDtypeStruct((model.law.size,), jnp.float32)
    given = {"state": start, "action": action, "noise": noise, "next_state": start}
    for method, names in (
        (last.transition, ("state", "action", "noise")),
        (last.reward, ("state", "action", "next_state")),
        (last.bounds, ("state",)),
    ):
        if wrong := indexes.beyond(method, names, [given[argument] for argument in names]):
            raise UserError(
                f"Problem {name!r}: {method.__name__} {wrong}; JAX would take the last one, or "
                "none, without a word."
            )


def _numbered(stem: str, count: int) -> tuple[str, ...]:
    return tuple(f"{stem}{i + 1}" for i in range(count))


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names if len(names) <= 6 else (*names[:3], "...", names[-1]))
