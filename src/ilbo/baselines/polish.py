"""Ascent by BFGS, many maxima side by side: what a gradient step leaves along a kink, it finds.

Where rewards have kinks, as prices, capacities and shortages make them, a gradient step zigzags
across a kink and hardly moves along it. BFGS with a line search that halves and doubles learns both
directions (Lewis and Overton, 2013). It starts beside the point, where a gradient exists; where a
line search fails, it starts afresh beside the best point found so far, half as far away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

LOWER, FLATTER = 1e-4, 0.9
"""A step is long enough where the slope is less than this share of what it was, and short enough
where it gains at least this share of what the slope promised."""
TRIES = 16
"""Of a line search, before it has failed."""

Values = Callable[[Float[Array, "e n"]], tuple[Float[Array, " e"], Float[Array, "e n"]]]


class _Climb(NamedTuple):
    """Where each of the ascents stands."""

    x: Float[Array, "e n"]
    value: Float[Array, " e"]
    gradient: Float[Array, "e n"]
    inverse: Float[Array, "e n n"]
    """An estimate of minus the inverse of the Hessian."""
    way: Float[Array, "e n"]
    length: Float[Array, " e"]
    """Of the next step, as a multiple of the way."""
    near: Float[Array, " e"]
    far: Float[Array, " e"]
    """Lengths that were too small and too great."""
    tries: Int[Array, " e"]
    fresh: Bool[Array, " e"]
    """Whether the next evaluation is at a new starting point."""
    width: Float[Array, " e"]
    best: Float[Array, " e"]
    best_x: Float[Array, "e n"]


def climb(
    values: Values, start: Float[Array, "e n"], key: Key[Array, ""], width: float, evaluations: int
) -> Float[Array, "e n"]:
    """The best points found from those given, in so many evaluations of values and gradients."""
    e, n = start.shape
    eye = jnp.eye(n)

    def one(now: _Climb, key: Key[Array, ""]) -> tuple[_Climb, None]:
        x = now.x + now.length[:, None] * now.way
        value, gradient = values(x)
        sound = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient), axis=1)
        better = sound & (value > now.best)
        best, best_x = _where(better, (value, x), (now.best, now.best_x))
        slope = jnp.sum(now.gradient * now.way, axis=1)
        over = ~sound | (value < now.value + LOWER * now.length * slope)
        over &= ~now.fresh
        short = ~now.fresh & ~over & (jnp.sum(gradient * now.way, axis=1) > FLATTER * slope)
        taken = ~over & ~short
        failed = ~taken & (now.tries >= TRIES)
        step, change = x - now.x, now.gradient - gradient
        curved = jnp.sum(step * change, axis=1)
        inverse = jnp.where(
            (taken & ~now.fresh & (curved > 1e-12))[:, None, None],
            _updated(now.inverse, step, change, curved),
            now.inverse,
        )
        size = jnp.maximum(jnp.linalg.norm(gradient, axis=1), 1e-30)
        first = (now.width * n**0.5 / size)[:, None, None] * eye
        inverse = jnp.where(now.fresh[:, None, None], first, inverse)
        x, value, gradient = _where(taken, (x, value, gradient), (now.x, now.value, now.gradient))
        way = jnp.einsum("eij,ej->ei", inverse, gradient)
        way = jnp.where(taken[:, None], way, now.way)
        near, far = jnp.where(short, now.length, now.near), jnp.where(over, now.length, now.far)
        length = jnp.where(jnp.isfinite(far), (near + far) / 2, 2 * now.length)
        length, near, far = _where(taken, (1.0, 0.0, jnp.inf), (length, near, far))
        width = jnp.where(failed, now.width / 2, now.width)
        beside = best_x + width[:, None] * jax.random.normal(key, x.shape)
        x, way = _where(failed, (beside, 0.0), (x, way))
        tries = jnp.where(taken | failed, 0, now.tries + 1)
        length, near, far = _where(failed, (1.0, 0.0, jnp.inf), (length, near, far))
        here = x, value, gradient, inverse, way, length, near, far, tries, failed
        return _Climb(*here, width, best, best_x), None

    none, nowhere = jnp.zeros(e), jnp.zeros((e, n))
    keys = jax.random.split(key, evaluations + 1)
    beside = start + width * jax.random.normal(keys[0], start.shape)
    search = none + 1, none, none + jnp.inf, jnp.zeros(e, jnp.int32), jnp.ones(e, bool)
    first = _Climb(
        *(beside, none, nowhere, jnp.zeros((e, n, n)), nowhere, *search),
        *(none + width, none - jnp.inf, start),
    )
    return jax.lax.scan(one, first, keys[1:])[0].best_x


def _where(which: Bool[Array, " e"], yes: tuple[Any, ...], no: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        jnp.where(which if jnp.ndim(b) == 1 else which[:, None], a, b)
        for a, b in zip(yes, no, strict=True)
    )


def _updated(
    inverse: Float[Array, "e n n"],
    step: Float[Array, "e n"],
    change: Float[Array, "e n"],
    curved: Float[Array, " e"],
) -> Float[Array, "e n n"]:
    """By the formula of Broyden, Fletcher, Goldfarb and Shanno."""
    moved = jnp.einsum("eij,ej->ei", inverse, change)
    more = (1 + jnp.sum(change * moved, axis=1) / curved) / curved
    cross = moved[:, :, None] * step[:, None, :] / curved[:, None, None]
    outer = more[:, None, None] * step[:, :, None] * step[:, None, :]
    return inverse + outer - cross - jnp.swapaxes(cross, 1, 2)
