"""Beta noise."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from scipy.special import roots_jacobi

from ilbo.errors import UserError
from ilbo.mdp import sampling
from ilbo.mdp.laws.law import Law, Rule, positive


class Beta(Law):
    """Beta components.

    Attributes:
        a: [k] first shape parameters, positive.
        b: [k] second shape parameters, positive.
    """

    a: Float[Array, " k"] = positive("Beta", "a")
    b: Float[Array, " k"] = positive("Beta", "b")

    def __check_init__(self) -> None:
        if self.a.shape != self.b.shape:
            raise UserError(
                f"The parameters a and b of Beta must be as many, got {self.a.size} and "
                f"{self.b.size}."
            )

    @property
    def size(self) -> int:
        return self.a.shape[0]

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape k"]:
        shapes = jnp.broadcast_to(jnp.stack([self.a, self.b]), (*shape, 2, self.size))
        draws = sampling.standard_gamma(key, shapes)
        return draws[..., 0, :] / jnp.sum(draws, axis=-2)

    def log_prob(self, noise: Float[Array, " k"]) -> Float[Array, " k"]:
        inside = (noise > 0) & (noise < 1)
        safe = jnp.where(inside, noise, 0.5)
        log_prob = (
            (self.a - 1) * jnp.log(safe)
            + (self.b - 1) * jnp.log1p(-safe)
            - jax.scipy.special.betaln(self.a, self.b)
        )
        return jnp.where(inside, log_prob, -jnp.inf)

    def rules(self, points: int) -> list[Rule]:
        shapes = zip(np.asarray(self.a, float), np.asarray(self.b, float), strict=True)
        found = [roots_jacobi(points, b - 1, a - 1) for a, b in shapes]
        return [((1 + nodes) / 2, weights / weights.sum()) for nodes, weights in found]

    @property
    def reference(self) -> Float[Array, " k"]:
        mean = self.a / (self.a + self.b)
        return mean + 0.99 * (1 - mean)

    def __str__(self) -> str:
        return f"Beta × {self.size}"
