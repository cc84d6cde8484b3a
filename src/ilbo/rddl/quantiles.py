"""Inverse distribution functions whose parameters may depend on the state: u [..] ↦ x [..]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import betainc, gammainc, gammaincc, gammaln, ndtri
from jaxtyping import Array

BISECTIONS = 40


@jax.custom_jvp
def gamma(u: Array, shape: Array) -> Array:
    """The u-quantile of Gamma(shape, 1), differentiable in both arguments."""
    u, shape = jnp.broadcast_arrays(jnp.asarray(u, float), jnp.asarray(shape, float))
    # F(x) <= x^shape / Γ(shape + 1) bounds the quantile from below, its tail from above; the
    # search is in ln x because quantiles of small shapes span many orders of magnitude.
    tiny = jnp.finfo(u.dtype).tiny
    low = (jnp.log(jnp.maximum(u, tiny)) + gammaln(shape + 1)) / shape - 1
    high = jnp.log(shape + 20 * jnp.sqrt(shape) + 40)

    def halve(_: Any, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bracket
        middle = (low + high) / 2
        below = gammainc(shape, jnp.exp(middle)) < u
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low, high = jax.lax.fori_loop(0, BISECTIONS, halve, (low, high))
    return jnp.exp((low + high) / 2)


@gamma.defjvp
def _gamma_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    u, shape = primals
    x = gamma(u, shape)
    density = jnp.exp((shape - 1) * jnp.log(x) - x - gammaln(shape))
    by_shape = jax.lax.random_gamma_grad(*jnp.broadcast_arrays(jnp.asarray(shape, x.dtype), x))
    return x, tangents[0] / density + tangents[1] * by_shape


def student(u: Array, degrees: Array) -> Array:
    """Student's t from two uniform numbers, u [.., 2]."""
    half = degrees / 2
    return ndtri(u[..., 0]) * jnp.sqrt(half / gamma(u[..., 1], half))


def beta(u: Array, a: Array, b: Array) -> Array:
    """Beta(a, b) from two uniform numbers, u [.., 2]."""
    x, y = gamma(u[..., 0], a), gamma(u[..., 1], b)
    return x / (x + y)


def poisson(u: Array, rate: Array) -> Array:
    rate = jax.lax.stop_gradient(jnp.asarray(rate, float))
    top = rate + 12 * jnp.sqrt(rate) + 30
    return _count(u, lambda k: gammaincc(k + 1, rate), top)


def binomial(u: Array, trials: Array, p: Array) -> Array:
    trials, p = (jax.lax.stop_gradient(jnp.asarray(x, float)) for x in (trials, p))
    return _count(u, lambda k: betainc(jnp.maximum(trials - k, 0.5), k + 1, 1 - p), trials)


def multinomial(u: Array, trials: Array, p: Array) -> Array:
    """How many of the trials [..] fall on each case, p [.., cases]: a binomial number for each case
    in turn, of the trials that are left, from u [.., cases - 1]; the last case has the rest."""

    def one(left: tuple[Array, Array], case: tuple[Array, Array]) -> tuple[Any, Array]:
        trials, chance = left
        noise, share = case
        count = binomial(noise, trials, jnp.clip(share / jnp.maximum(chance, 1e-12), 0, 1))
        return (trials - count, chance - share), count

    trials = jnp.broadcast_to(jnp.asarray(trials, jnp.int32), p.shape[:-1])
    cases = jnp.moveaxis(u, -1, 0), jnp.moveaxis(p[..., :-1], -1, 0)
    (rest, _), counts = jax.lax.scan(one, (trials, jnp.ones(p.shape[:-1])), cases)
    return jnp.concatenate([jnp.moveaxis(counts, 0, -1), rest[..., None]], axis=-1)


def negative_binomial(u: Array, successes: Array, p: Array) -> Array:
    """Failures before the given number of successes of probability p each."""
    successes, p = (jax.lax.stop_gradient(jnp.asarray(x, float)) for x in (successes, p))
    mean, std = successes * (1 - p) / p, jnp.sqrt(successes * (1 - p)) / p
    return _count(u, lambda k: betainc(successes, k + 1, p), mean + 20 * std + 30)


def _count(u: Array, cdf: Callable[[Array], Array], top: Array) -> Array:
    """The smallest whole number k in [0, top] with u <= cdf(k)."""
    top = jnp.broadcast_to(jnp.floor(top), jnp.shape(u))

    def halve(_: Any, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bracket
        middle = jnp.floor((low + high) / 2)
        enough = (cdf(middle) >= u) | (low >= high)
        return jnp.where(enough, low, middle + 1), jnp.where(enough, middle, high)

    low, _ = jax.lax.fori_loop(0, 32, halve, (jnp.zeros_like(top), top))
    return jax.lax.stop_gradient(low).astype(jnp.int32)
