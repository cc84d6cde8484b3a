"""Action bounds: where an action lies between them, and how numbers are mapped into them."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Action, State


def within(
    low: Float[Array, "*b"],
    high: Float[Array, "*b"],
    fraction: Float[Array, "*b"] | float,
    size: Float[Array, "*b"] | float = 1.0,
) -> Float[Array, "*b"]:
    """The action at the fraction of the way from low to high; a missing bound is `size` away from
    the other, or from 0."""
    has_low, has_high = jnp.isfinite(low), jnp.isfinite(high)
    bottom = jnp.where(has_low, low, jnp.where(has_high, high - size, -size))
    top = jnp.where(has_high, high, jnp.where(has_low, low + size, size))
    return bottom + fraction * (top - bottom)


def into_bounds(
    x: Float[Array, "*b"], low: Float[Array, "*b"], high: Float[Array, "*b"]
) -> Float[Array, "*b"]:
    """Maps real numbers into [low, high]; a bound may be infinite.

    Between two bounds by a logistic curve, beyond a single one by softplus, else unchanged.
    """
    has_low, has_high = jnp.isfinite(low), jnp.isfinite(high)
    floor, ceiling = jnp.where(has_low, low, 0.0), jnp.where(has_high, high, 0.0)
    both = floor + (ceiling - floor) * jax.nn.sigmoid(x)
    one = jnp.where(has_low, floor + jax.nn.softplus(x), ceiling - jax.nn.softplus(-x))
    return jnp.where(has_low & has_high, both, jnp.where(has_low | has_high, one, x))


def in_units_of_bounds(
    action: Float[Array, "*b"], low: Float[Array, "*b"], high: Float[Array, "*b"]
) -> Float[Array, "*b"]:
    """Maps [low, high] onto [−1, 1]; where a bound is infinite, or the two are equal, x − bound."""
    has_low, has_high = jnp.isfinite(low), jnp.isfinite(high)
    floor, ceiling = jnp.where(has_low, low, 0.0), jnp.where(has_high, high, 0.0)
    both = has_low & has_high & (high > low)
    middle = jnp.where(both, (floor + ceiling) / 2, floor + ceiling)
    half = jnp.where(both, (ceiling - floor) / 2, 1.0)
    return (action - middle) / half


def bounds_at(model: Any, state: Float[Array, "*b n"], time: Any = None) -> tuple[Array, Array]:
    """Lowest and highest action [*b, m] at states after `time` [*b] steps, which a model that does
    not see the time need not be told."""
    if time is None or not getattr(model, "sees_time", False):
        now = model.at(time) if getattr(model, "sees_time", False) else model
        return jnp.vectorize(now.bounds, signature="(n)->(m),(m)")(state)

    def one(state: State, time: Int[Array, ""]) -> tuple[Action, Action]:
        return model.at(time).bounds(state)

    times = jnp.asarray(time).astype(jnp.int32)
    return jnp.vectorize(one, signature="(n),()->(m),(m)")(state, times)


class FixedBounds(eqx.Module):
    """Bounds that do not depend on the state: all that a policy needs of such a model."""

    low: Action
    high: Action

    def bounds(self, state: State) -> tuple[Action, Action]:
        return self.low, self.high


def bounds_are_fixed(problem: Problem) -> bool:
    """Whether the bounds are independent of the state, and of the time."""

    def bounds(state: State, time: Int[Array, ""]) -> tuple[Action, Action]:
        return problem.model.at(time).bounds(state)

    closed = jax.make_jaxpr(bounds)(problem.initial_state, jnp.zeros((), jnp.int32))
    seen = {id(variable) for variable in closed.jaxpr.invars}
    for equation in closed.jaxpr.eqns:
        if any(id(variable) in seen for variable in equation.invars):
            seen |= {id(variable) for variable in equation.outvars}
    return not any(id(variable) in seen for variable in closed.jaxpr.outvars)
