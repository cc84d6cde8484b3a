"""From gradients in the action to the gradient in the policy's parameters."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ilbo.mdp.bounds import into_bounds
from ilbo.mdp.shapes import Number
from ilbo.nn.policy import Policy
from ilbo.planning.estimators.point import ActionGradient
from ilbo.planning.numbers import is_off


def only_finite(estimate: ActionGradient) -> ActionGradient:
    """Samples [b] with a number that is not finite count for nothing."""
    g, value = estimate.gradients, estimate.value
    good = jnp.isfinite(value) & jnp.all(jnp.isfinite(g), axis=(1, 2))
    states = jnp.where(jnp.isfinite(estimate.states), estimate.states, 0.0)
    g, value = jnp.where(good[:, None, None], g, 0.0), jnp.where(good, value, 0.0)
    return estimate._replace(states=states, gradients=g, value=value)


def pull_back(
    policy: Policy,
    estimate: ActionGradient,
    weights: Float[Array, " b"],
    inward: Number = 0.0,
    times: Int[Array, "b k"] | None = None,
) -> tuple[Any, Float[Array, " b"]]:
    """Mean over samples b of w ∇_θ μ_θ(s) · g(s): the gradient in the policy's network.

    Where an action sits at a bound, the curve that maps the network's output into the bounds is
    flat, and a gradient that points back inside all but vanishes: a saturated output would stay
    saturated. Such a gradient is given a slope of at least `inward` times the curve's slope in its
    middle. That scales single components of g by positive factors, so it still climbs the bound;
    with 0 it is the plain gradient. `times` are the steps taken before each state, for a policy
    that sees the time.

    Returns also the mean square [b] of each sample's gradients in the network's outputs.
    """

    learnt, rest = eqx.partition(policy.network, eqx.is_inexact_array)

    def outputs(learnt: Any) -> Array:
        return eqx.combine(learnt, rest)(policy.inputs(estimate.states, times))

    def slope(x: Array, low: Array, high: Array) -> Array:
        return jax.jvp(lambda x: into_bounds(x, low, high), (x,), (jnp.ones_like(x),))[1]

    x, vjp = jax.vjp(outputs, learnt)
    low, high = policy.bounds(estimate.states, times)
    slopes = slope(x, low, high)
    if not is_off(inward):
        least = inward * slope(jnp.zeros_like(x), low, high)
        slopes = jnp.where(estimate.gradients * x < 0, jnp.maximum(slopes, least), slopes)
    g = (estimate.gradients * slopes).astype(x.dtype)
    strength = jnp.mean(jnp.sum(g**2, axis=-1), axis=1)
    shares = weights / math.prod(g.shape[:-1])
    return vjp(shares[:, None, None] * g)[0], strength
