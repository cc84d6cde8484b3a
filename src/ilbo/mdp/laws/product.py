"""Several laws side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from ilbo.errors import UserError
from ilbo.mdp.laws.law import Law, Rule, side_by_side


class Product(Law):
    """Several laws side by side, in one vector."""

    laws: tuple[Law, ...]

    def __init__(self, laws: Sequence[Law]):
        self.laws = tuple(laws)
        if not self.laws or not all(isinstance(law, Law) for law in self.laws):
            raise UserError(f"A Product is of one or more laws of noise, got {laws!r}.")

    @property
    def size(self) -> int:
        return sum(law.size for law in self.laws)

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape k"]:
        keys = jax.random.split(key, len(self.laws))
        draws = [law.sample(k, shape) for law, k in zip(self.laws, keys, strict=True)]
        return jnp.concatenate(draws, axis=-1)

    def log_prob(self, noise: Float[Array, " k"]) -> Float[Array, " k"]:
        return jnp.concatenate([law.log_prob(part) for law, part in self._parts(noise)])

    def quadrature(self, points: int) -> Rule:
        return side_by_side([law.quadrature(points) for law in self.laws])

    @property
    def gaussian(self) -> Bool[np.ndarray, " k"]:
        return np.concatenate([law.gaussian for law in self.laws])

    @property
    def discrete(self) -> Bool[np.ndarray, " k"]:
        return np.concatenate([law.discrete for law in self.laws])

    @property
    def reference(self) -> Float[Array, " k"]:
        return jnp.concatenate([law.reference for law in self.laws])

    def _parts(self, noise: Float[Array, " k"]) -> Iterator[tuple[Law, Float[Array, " part"]]]:
        start = 0
        for law in self.laws:
            yield law, noise[start : start + law.size]
            start += law.size

    def __str__(self) -> str:
        return " + ".join(str(law) for law in self.laws)
