"""Laws by the names and parameters that people know: a standard law, shifted and scaled."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ilbo.errors import UserError
from ilbo.mdp import sampling
from ilbo.mdp.laws import standard, student, weibull
from ilbo.mdp.laws.law import Law, Rule


class Located(Law):
    """loc + scale · ξ for the components ξ of another law."""

    base: Law
    loc: Float[Array, " k"]
    scale: Float[Array, " k"]

    @property
    def size(self) -> int:
        return self.base.size

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape k"]:
        return self.loc + self.scale * self.base.sample(key, shape)

    def log_prob(self, noise: Float[Array, " k"]) -> Float[Array, " k"]:
        return self.base.log_prob((noise - self.loc) / self.scale) - jnp.log(self.scale)

    def rules(self, points: int) -> list[Rule]:
        loc, scale = np.asarray(self.loc, float), np.asarray(self.scale, float)
        every = zip(self.base.rules(points), loc, scale, strict=True)
        return [(shift + width * nodes, weights) for (nodes, weights), shift, width in every]

    @property
    def reference(self) -> Float[Array, " k"]:
        return self.loc + self.scale * self.base.reference

    def __str__(self) -> str:
        return f"{type(self).__name__} × {self.size}"


class Uniform(Located):
    """Uniform between low and high, numbers or lists of numbers [k]."""

    def __init__(self, low: Any = 0.0, high: Any = 1.0):
        low, high = parameters("Uniform", low=low, high=high)
        if not (low < high).all():
            i = int(np.argmin(low < high))
            raise UserError(f"The low of Uniform must be below its high, got {low[i]}, {high[i]}.")
        self.base = standard.Uniform(low.size)
        self.loc, self.scale = jnp.asarray(low), jnp.asarray(high - low)


class Exponential(Located):
    """Exponential of the mean `scale`, a number or a list of numbers [k]."""

    def __init__(self, scale: Any = 1.0):
        (scale,) = parameters("Exponential", scale=scale)
        above_zero("Exponential", scale=scale)
        self.base = standard.Exponential(scale.size)
        self.loc, self.scale = jnp.zeros(scale.size), jnp.asarray(scale)


class StudentT(Located):
    """Student's t with `df` degrees of freedom; each a number or a list of numbers [k]."""

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0):
        df, loc, scale = parameters("StudentT", df=df, loc=loc, scale=scale)
        above_zero("StudentT", df=df, scale=scale)
        self.base = student.Student(df)
        self.loc, self.scale = jnp.asarray(loc), jnp.asarray(scale)


class Weibull(Located):
    """Weibull by shape and scale; each a number or a list of numbers [k]."""

    def __init__(self, shape: Any, scale: Any = 1.0):
        shape, scale = parameters("Weibull", shape=shape, scale=scale)
        above_zero("Weibull", shape=shape, scale=scale)
        self.base = weibull.Weibull(shape)
        self.loc, self.scale = jnp.zeros(scale.size), jnp.asarray(scale)


class LogNormal(Law):
    """exp(loc + scale · z) with z standard normal; each a number or a list of numbers [k]."""

    loc: Float[Array, " k"]
    scale: Float[Array, " k"]

    def __init__(self, loc: Any = 0.0, scale: Any = 1.0):
        loc, scale = parameters("LogNormal", loc=loc, scale=scale)
        above_zero("LogNormal", scale=scale)
        self.loc, self.scale = jnp.asarray(loc), jnp.asarray(scale)

    @property
    def size(self) -> int:
        return self.loc.shape[0]

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape k"]:
        return jnp.exp(self.loc + self.scale * sampling.normal(key, (*shape, self.size)))

    def log_prob(self, noise: Float[Array, " k"]) -> Float[Array, " k"]:
        inside = noise > 0
        log = jnp.log(jnp.where(inside, noise, 1.0))
        z = (log - self.loc) / self.scale
        log_prob = -0.5 * z**2 - log - jnp.log(self.scale) - 0.5 * jnp.log(2 * jnp.pi)
        return jnp.where(inside, log_prob, -jnp.inf)

    def rules(self, points: int) -> list[Rule]:
        nodes, weights = np.polynomial.hermite_e.hermegauss(points)
        loc, scale = np.asarray(self.loc, float), np.asarray(self.scale, float)
        return [
            (np.exp(shift + width * nodes), weights / np.sqrt(2 * np.pi))
            for shift, width in zip(loc, scale, strict=True)
        ]

    @property
    def reference(self) -> Float[Array, " k"]:
        return jnp.exp(self.loc + 4 * self.scale)

    def __str__(self) -> str:
        return f"LogNormal × {self.size}"


def parameters(law: str, **values: Any) -> list[np.ndarray]:
    """Parameters [k] of a law, of one length, from numbers and lists of numbers."""
    found = []
    for name, value in values.items():
        try:
            array = np.atleast_1d(np.asarray(value, np.float32))
        except (TypeError, ValueError):
            raise UserError(
                f"The {name} of {law} must be a number or a list of numbers, got {value!r}."
            ) from None
        if array.ndim != 1 or not array.size:
            raise UserError(
                f"The {name} of {law} must be a number or a list of numbers, got shape "
                f"{np.shape(value)}."
            )
        if not np.isfinite(array).all():
            raise UserError(
                f"The {name} of {law} must be finite, got {array[~np.isfinite(array)][0]}."
            )
        found.append(array)
    sizes = {array.size for array in found} - {1}
    if len(sizes) > 1:
        counts = ", ".join(
            f"{array.size} of {name}" for array, name in zip(found, values, strict=True)
        )
        raise UserError(f"The parameters of {law} must be as many, got {counts}.")
    size = max(sizes, default=1)
    return [np.broadcast_to(array, size).copy() for array in found]


def above_zero(law: str, **values: np.ndarray) -> None:
    for name, array in values.items():
        if not (array > 0).all():
            raise UserError(f"The {name} of {law} must be positive, got {array[~(array > 0)][0]}.")
