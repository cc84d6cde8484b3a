"""Weibull noise."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ilbo.mdp.laws.law import Law, Rule, positive


class Weibull(Law):
    """Weibull components of unit scale.

    Attributes:
        shape: [k] shape parameters, positive.
    """

    shape: Float[Array, " k"] = positive("Weibull", "shape")

    @property
    def size(self) -> int:
        return self.shape.shape[0]

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape k"]:
        return jax.random.exponential(key, (*shape, self.size)) ** (1 / self.shape)

    def log_prob(self, noise: Float[Array, " k"]) -> Float[Array, " k"]:
        inside = noise > 0
        safe = jnp.where(inside, noise, 1.0)
        log_prob = jnp.log(self.shape) + (self.shape - 1) * jnp.log(safe) - safe**self.shape
        return jnp.where(inside, log_prob, -jnp.inf)

    def rules(self, points: int) -> list[Rule]:
        nodes, weights = np.polynomial.laguerre.laggauss(points)
        return [(nodes ** (1 / k), weights) for k in np.asarray(self.shape, float)]

    @property
    def reference(self) -> Float[Array, " k"]:
        return 11.0 ** (1 / self.shape)

    def __str__(self) -> str:
        return f"Weibull × {self.size}"
