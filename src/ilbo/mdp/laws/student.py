"""Student's t noise."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jaxtyping import Array, Float, Key
from scipy.special import stdtrit

from ilbo.mdp import sampling
from ilbo.mdp.laws.law import Law, Rule, by_quantile, positive


class Student(Law):
    """Student's t components of location 0 and scale 1.

    Attributes:
        degrees: [k] degrees of freedom, positive.
    """

    degrees: Float[Array, " k"] = positive("Student", "degrees of freedom")

    @property
    def size(self) -> int:
        return self.degrees.shape[0]

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape k"]:
        key_normal, key_gamma = jax.random.split(key)
        half = jnp.broadcast_to(self.degrees / 2, (*shape, self.size))
        spread = jnp.sqrt(half / sampling.standard_gamma(key_gamma, half))
        return spread * jax.random.normal(key_normal, (*shape, self.size))

    def log_prob(self, noise: Float[Array, " k"]) -> Float[Array, " k"]:
        return stats.t.logpdf(noise, self.degrees)

    def rules(self, points: int) -> list[Rule]:
        degrees = np.asarray(self.degrees, float)
        return [by_quantile(partial(stdtrit, k), points) for k in degrees]

    @property
    def reference(self) -> Float[Array, " k"]:
        return jnp.full(self.size, 15.0)

    def __str__(self) -> str:
        return f"Student × {self.size}"
