"""Gamma noise."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from scipy.special import roots_genlaguerre

from ilbo.mdp import sampling
from ilbo.mdp.laws.law import Law, Rule, positive


class Gamma(Law):
    """Gamma components of unit scale.

    Attributes:
        shape: [k] shape parameters, positive.
    """

    shape: Float[Array, " k"] = positive("Gamma", "shape")

    @property
    def size(self) -> int:
        return self.shape.shape[0]

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape k"]:
        return sampling.standard_gamma(key, jnp.broadcast_to(self.shape, (*shape, self.size)))

    def log_prob(self, noise: Float[Array, " k"]) -> Float[Array, " k"]:
        return gamma_log_prob(noise, self.shape)

    def rules(self, points: int) -> list[Rule]:
        found = [roots_genlaguerre(points, k - 1) for k in np.asarray(self.shape, float)]
        return [(nodes, weights / weights.sum()) for nodes, weights in found]

    @property
    def reference(self) -> Float[Array, " k"]:
        # What lies further out has a density below e⁻¹⁰⁰: zero in 32 bits.
        return self.shape + 100 * jnp.maximum(1.0, jnp.sqrt(self.shape))

    def __str__(self) -> str:
        return f"Gamma × {self.size}"


def gamma_log_prob(x: Float[Array, "*n"], shape: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """ln Gamma(x; shape, 1), −inf outside the support, with a finite gradient everywhere."""
    inside = x > 0
    safe = jnp.where(inside, x, 1.0)
    log_prob = (shape - 1) * jnp.log(safe) - safe - jax.scipy.special.gammaln(shape)
    return jnp.where(inside, log_prob, -jnp.inf)
