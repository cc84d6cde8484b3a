"""Standard normal noise."""

from __future__ import annotations

import numpy as np
from jax.scipy import stats
from jaxtyping import Array, Bool, Float, Key

from ilbo.mdp import sampling
from ilbo.mdp.laws.law import Law, Rule, components


class Gaussian(Law):
    """Standard normal components."""

    count: int = components()

    @property
    def size(self) -> int:
        return self.count

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape k"]:
        return sampling.normal(key, (*shape, self.count))

    def log_prob(self, noise: Float[Array, " k"]) -> Float[Array, " k"]:
        return stats.norm.logpdf(noise)

    def rules(self, points: int) -> list[Rule]:
        nodes, weights = np.polynomial.hermite_e.hermegauss(points)
        return [(nodes, weights / np.sqrt(2 * np.pi))] * self.count

    @property
    def gaussian(self) -> Bool[np.ndarray, " k"]:
        return np.ones(self.count, bool)

    def __str__(self) -> str:
        return f"Normal × {self.count}"
