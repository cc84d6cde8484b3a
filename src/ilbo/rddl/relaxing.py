"""Relaxations: derivatives for what has none, by one idea, a temperature τ.

A comparison x > y is the sigmoid σ((x − y)/τ), and all that jumps follows from it: truth values are
probabilities that a condition holds (`and` is their product), a rounding is a staircase whose steps
are tanh, the place of the largest is a mean weighted by softmax, and a draw of a whole number
compares its noise with probabilities. τ is an array: another value compiles nothing anew. At τ = 0
every operator is the exact one; for τ > 0 it is, by the way chosen,

    smooth     smooth in value and in derivative
    straight   exact in value, with the derivative of the smooth one
    mixed      straight where a value is compared or rounded, smooth where one is drawn or chosen
               among several; min and max, which have derivatives, stay exact
    exact      exact in value and in derivative

Temperatures are in units of what is compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import betainc, gammaincc
from jaxtyping import Array, Float

from ilbo.rddl import quantiles

WAYS = ("exact", "mixed", "straight", "smooth")
TEMPERATURE = 0.1
"""The temperature that planning begins with."""

Temperature = Float[Array, ""]
Smooth = Callable[..., Array]
"""(τ, *arguments) ↦ value, for τ > 0; truth values are numbers from 0 to 1."""

WINDOW = 8
"""How many counts to either side of the one drawn have a part in its derivative."""


def _above(t: Temperature, x: Array, y: Array) -> Array:
    return jax.nn.sigmoid((x - y) / t)


def _equal(t: Temperature, x: Array, y: Array) -> Array:
    return 1 - jnp.tanh((x - y) / t) ** 2


def _xor(x: Array, y: Array) -> Array:
    return x + y - 2 * x * y


def _round(t: Temperature, x: Array) -> Array:
    """A staircase through the whole numbers, whose steps are tanh."""
    middle = jax.lax.stop_gradient(jnp.floor(x)) + 0.5
    return middle + 0.5 * jnp.tanh((x - middle) / t) / jnp.tanh(0.5 / t)


def _floor(t: Temperature, x: Array) -> Array:
    return _round(t, x - 0.5)


def _mean_place(weights: Array) -> Array:
    """The mean of 0, 1, .. under weights [.., n]."""
    return weights @ jnp.arange(weights.shape[-1], dtype=weights.dtype)


def _largest(t: Temperature, x: Array, axes: Any) -> Array:
    return t * jax.nn.logsumexp(x / t, axis=axes)


def _switch(t: Temperature, which: Array, *cases: Array) -> Array:
    which, *cases = jnp.broadcast_arrays(which, *cases)  # type: ignore[assignment]
    places = jnp.arange(len(cases))
    weights = jax.nn.softmax(-((which[..., None] - places) ** 2) / t, axis=-1)
    return jnp.sum(weights * jnp.stack(cases, axis=-1), axis=-1)


SMOOTH: dict[str, Smooth] = {
    ">": _above,
    ">=": _above,
    "<": lambda t, x, y: _above(t, y, x),
    "<=": lambda t, x, y: _above(t, y, x),
    "==": _equal,
    "~=": lambda t, x, y: 1 - _equal(t, x, y),
    "^": lambda t, *xs: math.prod(xs),
    "&": lambda t, *xs: math.prod(xs),
    "|": lambda t, *xs: 1 - math.prod(1 - x for x in xs),
    "~": lambda t, x, *y: _xor(x, y[0]) if y else 1 - x,
    "=>": lambda t, x, y: 1 - x * (1 - y),
    "<=>": lambda t, x, y: 1 - _xor(x, y),
    "forall": lambda t, x, axes: jnp.prod(x, axis=axes),
    "exists": lambda t, x, axes: 1 - jnp.prod(1 - x, axis=axes),
    "sgn": lambda t, x: jnp.tanh(x / t),
    "round": _round,
    "floor": _floor,
    "ceil": lambda t, x: _round(t, x + 0.5),
    "div": lambda t, x, y: _floor(t, x / y),
    "mod": lambda t, x, y: x - y * _floor(t, x / y),
    "switch": _switch,
    "argmax": lambda t, x, axes: _mean_place(jax.nn.softmax(x / t, axis=axes[0])),
    "argmin": lambda t, x, axes: _mean_place(jax.nn.softmax(-x / t, axis=axes[0])),
    "max": lambda t, x, y: t * jnp.logaddexp(x / t, y / t),
    "min": lambda t, x, y: -t * jnp.logaddexp(-x / t, -y / t),
    "maximum": _largest,
    "minimum": lambda t, x, axes: -_largest(t, -x, axes),
}
"""The smooth operators by the names that `operators` gives the exact ones; `if` stands apart."""

REDUCING = {"forall", "exists", "argmax", "argmin", "maximum", "minimum"}
"""Those that take axes, as a further argument."""
STEEP = {">", ">=", "<", "<=", "==", "~=", "sgn", "round", "floor", "ceil", "div", "mod", "if"}
CONTINUOUS = {"max", "min", "maximum", "minimum"}


def way_of(way: str, name: str) -> str:
    """How one operator is relaxed: exact, straight or smooth."""
    if way != "mixed":
        return way
    return "straight" if name in STEEP else "exact" if name in CONTINUOUS else "smooth"


def relaxed(
    way: str, name: str, exact: Callable[..., Array], reduced: int = 0
) -> Callable[..., Array] | None:
    """(τ, *arguments) ↦ the operator's value; None where the exact one is to be used.

    Args:
        reduced: How many of its arguments' last axes the operator reduces.
    """
    way = way_of(way, name)
    if way == "exact" or (name != "if" and name not in SMOOTH):
        return None
    if name == "if":
        return _blend(exact, _if_straight if way == "straight" else _if, straight=False)
    smooth = SMOOTH[name]
    if name in REDUCING:
        axes = tuple(range(-reduced, 0))
        return _blend(exact, lambda t, x: smooth(t, x, axes), way == "straight")
    return _blend(exact, smooth, way == "straight")


def relaxed_draw(way: str, name: str, exact: Callable[..., Array]) -> Callable[..., Array] | None:
    """(τ, noise, *parameters) ↦ the draw; None where the exact one is to be used."""
    way = way_of(way, name)
    if way == "exact" or name not in DRAWS:
        return None
    return _blend(exact, DRAWS[name], way == "straight" or name in _CDFS)


def _blend(exact: Callable[..., Array], smooth: Smooth, straight: bool) -> Callable[..., Array]:
    def value(temperature: Temperature, *arguments: Any) -> Array:
        warm = temperature > 0
        hard = jnp.asarray(exact(*arguments), float)
        soft = smooth(jnp.where(warm, temperature, 1.0), *arguments)
        if straight:
            soft = jax.lax.stop_gradient(hard) + (soft - jax.lax.stop_gradient(soft))
        return jnp.where(warm, soft, hard)

    return value


def _slope(test: Array, yes: Array, no: Array) -> Array:
    """0, with the derivative in the condition that a mean of the two branches has; a branch that is
    infinite, which may be one that is not taken, has no part in it."""
    gain = jax.lax.stop_gradient(yes * 1.0 - no)
    return jnp.where(jnp.isfinite(gain), gain, 0.0) * (test - jax.lax.stop_gradient(test))


def _if_straight(t: Temperature, test: Array, yes: Array, no: Array) -> Array:
    return jnp.where(test > 0.5, yes, no) + _slope(test, yes, no)


def _if(t: Temperature, test: Array, yes: Array, no: Array) -> Array:
    share = jax.lax.stop_gradient(test)
    taken = jnp.where(share > 0, share * jnp.where(share > 0, yes, 0.0), 0.0)
    other = jnp.where(share < 1, (1 - share) * jnp.where(share < 1, no, 0.0), 0.0)
    return taken + other + _slope(test, yes, no)


def _bernoulli(t: Temperature, u: Array, p: Array) -> Array:
    return _above(t, p, u)


def _geometric(t: Temperature, u: Array, p: Array) -> Array:
    return 1 + _floor(t, jnp.log1p(-u) / jnp.log1p(-jnp.minimum(p, 1 - 1e-6)))


def _one_of(t: Temperature, gumbel: Array, weights: Array) -> Array:
    """The mean case, under the softmax of perturbed log-probabilities [.., cases]."""
    return _mean_place(jax.nn.softmax((gumbel + jnp.log(weights + 1e-14)) / t, axis=-1))


def _one_of_cases(t: Temperature, gumbel: Array, *weights: Array) -> Array:
    return _one_of(t, gumbel, jnp.stack(weights, axis=-1))


def _fixed(x: Array) -> Array:
    return jax.lax.stop_gradient(jnp.asarray(x, float))


_CDFS: dict[str, Callable[..., Array]] = {
    "Poisson": lambda k, rate: gammaincc(k + 1, rate),
    "Binomial": lambda k, trials, p: betainc(
        jnp.maximum(_fixed(trials) - k, 0.5), k + 1, 1 - jnp.asarray(p, float)
    ),
    "NegativeBinomial": lambda k, successes, p: betainc(
        _fixed(successes), k + 1, jnp.asarray(p, float)
    ),
}
"""P(count <= k), differentiable in the last parameter."""


def _count(name: str, quantile: Callable[..., Array]) -> Smooth:
    """The number of k with u > P(count <= k), those near the count as sigmoids.

    Far from it probabilities no longer depend on the parameters, so that they add no derivative;
    but sigmoids of them add up: only the derivative is used, the value is the exact one.
    """

    def smooth(t: Temperature, u: Array, *parameters: Array) -> Array:
        count = _fixed(quantile(u, *parameters))
        near = count[..., None] + jnp.arange(-WINDOW, WINDOW + 1)
        below = _CDFS[name](jnp.maximum(near, 0), *(jnp.asarray(p)[..., None] for p in parameters))
        return jnp.sum(jnp.where(near >= 0, _above(t, u[..., None], below), 0.0), axis=-1)

    return smooth


DRAWS: dict[str, Smooth] = {
    "Bernoulli": _bernoulli,
    "Geometric": _geometric,
    "Discrete": _one_of_cases,
    "UnnormDiscrete": _one_of_cases,
    "Discrete(p)": _one_of,
    "UnnormDiscrete(p)": _one_of,
    "Poisson": _count("Poisson", quantiles.poisson),
    "Binomial": _count("Binomial", quantiles.binomial),
    "NegativeBinomial": _count("NegativeBinomial", quantiles.negative_binomial),
}
"""(τ, noise, *parameters) ↦ the relaxed draw, by the names of the distributions."""
