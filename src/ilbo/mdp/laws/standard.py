"""Laws without parameters: so many independent components of one kind."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ilbo.mdp.laws.law import Law, Rule, by_quantile, components


class Standard(Law):
    """So many components of a law without parameters."""

    count: int = components()

    def quantile(self, u: np.ndarray) -> np.ndarray:
        """The inverse of the distribution function."""
        raise NotImplementedError

    def rules(self, points: int) -> list[Rule]:
        return [by_quantile(self.quantile, points)] * self.count

    @property
    def size(self) -> int:
        return self.count

    def __str__(self) -> str:
        return f"{type(self).__name__} × {self.count}"


class Uniform(Standard):
    """Uniform on [0, 1]."""

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape k"]:
        return jax.random.uniform(key, (*shape, self.count))

    def log_prob(self, noise: Float[Array, " k"]) -> Float[Array, " k"]:
        return jnp.where((noise >= 0) & (noise <= 1), 0.0, -jnp.inf)

    @property
    def reference(self) -> Float[Array, " k"]:
        return jnp.full(self.count, 0.99)

    def quantile(self, u: np.ndarray) -> np.ndarray:
        return u


class Exponential(Standard):
    """Exponential of mean 1."""

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape k"]:
        return jax.random.exponential(key, (*shape, self.count))

    def log_prob(self, noise: Float[Array, " k"]) -> Float[Array, " k"]:
        return jnp.where(noise >= 0, -noise, -jnp.inf)

    @property
    def reference(self) -> Float[Array, " k"]:
        return jnp.full(self.count, 11.0)

    def rules(self, points: int) -> list[Rule]:
        return [np.polynomial.laguerre.laggauss(points)] * self.count


class Laplace(Standard):
    """Laplace of location 0 and scale 1."""

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape k"]:
        return jax.random.laplace(key, (*shape, self.count))

    def log_prob(self, noise: Float[Array, " k"]) -> Float[Array, " k"]:
        return -jnp.abs(noise) - jnp.log(2.0)

    def quantile(self, u: np.ndarray) -> np.ndarray:
        return np.sign(0.5 - u) * np.log(1 - 2 * np.abs(u - 0.5))

    @property
    def reference(self) -> Float[Array, " k"]:
        return jnp.full(self.count, 15.0)


class Gumbel(Standard):
    """Gumbel of location 0 and scale 1."""

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape k"]:
        return jax.random.gumbel(key, (*shape, self.count))

    def log_prob(self, noise: Float[Array, " k"]) -> Float[Array, " k"]:
        return -noise - jnp.exp(-noise)

    def quantile(self, u: np.ndarray) -> np.ndarray:
        return -np.log(-np.log(u))

    @property
    def reference(self) -> Float[Array, " k"]:
        return jnp.full(self.count, 15.0)


class Cauchy(Standard):
    """Cauchy of location 0 and scale 1."""

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape k"]:
        return jax.random.cauchy(key, (*shape, self.count))

    def log_prob(self, noise: Float[Array, " k"]) -> Float[Array, " k"]:
        return -jnp.log1p(noise**2) - jnp.log(jnp.pi)

    def quantile(self, u: np.ndarray) -> np.ndarray:
        return np.tan(np.pi * (u - 0.5))

    @property
    def reference(self) -> Float[Array, " k"]:
        return jnp.full(self.count, 100.0)
