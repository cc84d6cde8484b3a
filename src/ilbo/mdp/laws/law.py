"""What a law of noise is."""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key


class Law(eqx.Module):
    """Law of a vector ξ [size] with independent components, each with a density."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of components."""

    @abstractmethod
    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape k"]:
        """Independent draws, all at once."""

    @abstractmethod
    def log_prob(self, noise: Float[Array, " k"]) -> Float[Array, " k"]:
        """Log-density of each component."""

    @property
    def gaussian(self) -> Bool[np.ndarray, " k"]:
        """Which components are standard normal (these may mix in one state component)."""
        return np.zeros(self.size, bool)

    @property
    def reference(self) -> Float[Array, " k"]:
        """A noise at which a transition that is clipped from below is not clipped."""
        return jnp.zeros(self.size)

    @abstractmethod
    def __str__(self) -> str: ...
