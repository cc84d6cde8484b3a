"""Laws of the base noise ξ: what is random in one step, independent of state and action."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jaxtyping import Array, Float, Key


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
    def gaussian(self) -> np.ndarray:
        """[k] which components are standard normal (these may mix in one state component)."""
        return np.zeros(self.size, bool)

    @property
    def reference(self) -> Float[Array, " k"]:
        """A noise at which a transition that is clipped from below is not clipped."""
        return jnp.zeros(self.size)

    @abstractmethod
    def __str__(self) -> str: ...


class Gaussian(Law):
    """Standard normal components."""

    count: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        return self.count

    def sample(self, key, shape=()):
        return jax.random.normal(key, (*shape, self.count))

    def log_prob(self, noise):
        return stats.norm.logpdf(noise)

    @property
    def gaussian(self):
        return np.ones(self.count, bool)

    def __str__(self) -> str:
        return f"Normal × {self.count}"


class Gamma(Law):
    """Gamma components of unit scale.

    Attributes:
        shape: [k] shape parameters, positive.
    """

    shape: Float[Array, " k"]

    @property
    def size(self) -> int:
        return self.shape.shape[0]

    def sample(self, key, shape=()):
        return standard_gamma(key, jnp.broadcast_to(self.shape, (*shape, self.size)))

    def log_prob(self, noise):
        return gamma_log_prob(noise, self.shape)

    @property
    def reference(self):
        return self.shape + 10 * jnp.sqrt(self.shape)

    def __str__(self) -> str:
        return f"Gamma × {self.size}"


class Product(Law):
    """Several laws side by side, in one vector."""

    laws: tuple[Law, ...]

    def __init__(self, laws: Sequence[Law]):
        self.laws = tuple(laws)

    @property
    def size(self) -> int:
        return sum(law.size for law in self.laws)

    def sample(self, key, shape=()):
        keys = jax.random.split(key, len(self.laws))
        draws = [law.sample(k, shape) for law, k in zip(self.laws, keys, strict=True)]
        return jnp.concatenate(draws, axis=-1)

    def log_prob(self, noise):
        return jnp.concatenate([law.log_prob(part) for law, part in self._parts(noise)])

    @property
    def gaussian(self):
        return np.concatenate([law.gaussian for law in self.laws])

    @property
    def reference(self):
        return jnp.concatenate([law.reference for law in self.laws])

    def _parts(self, noise):
        start = 0
        for law in self.laws:
            yield law, noise[start : start + law.size]
            start += law.size

    def __str__(self) -> str:
        return " + ".join(str(law) for law in self.laws)


def gamma_log_prob(x: Array, shape: Array) -> Array:
    """ln Gamma(x; shape, 1), −inf outside the support, with a finite gradient everywhere."""
    inside = x > 0
    safe = jnp.where(inside, x, 1.0)
    log_prob = (shape - 1) * jnp.log(safe) - safe - jax.scipy.special.gammaln(shape)
    return jnp.where(inside, log_prob, -jnp.inf)


def standard_gamma(key: Key[Array, ""], shape: Array) -> Array:
    """Exact Gamma(shape, 1) draws by Marsaglia and Tsang's rejection, in vector code.

    One proposal for every element settles over 95 % of them; the rest are gathered and proposed for
    again until none is left. Element-by-element rejection is many times slower on a CPU.
    """
    wanted = shape.ravel()
    boost_key, first_key, key = jax.random.split(key, 3)
    boosted = jnp.where(wanted < 1, wanted + 1, wanted)
    draw, accepted = _propose_gamma(first_key, boosted)
    gathered = min(wanted.size, max(wanted.size // 8, 64))

    def again(carry):
        key, draw, accepted = carry
        key, round_key = jax.random.split(key)
        (index,) = jnp.nonzero(~accepted, size=gathered, fill_value=wanted.size)
        proposal, good = _propose_gamma(round_key, boosted.at[index].get(mode="clip"))
        draw = draw.at[index].set(proposal, mode="drop")
        return key, draw, accepted.at[index].set(good, mode="drop")

    _, draw, _ = jax.lax.while_loop(lambda carry: ~jnp.all(carry[2]), again, (key, draw, accepted))

    def shrink(draw):
        u = jax.random.uniform(boost_key, wanted.shape, minval=jnp.finfo(draw.dtype).tiny)
        return jnp.where(wanted < 1, draw * u ** (1 / jnp.minimum(wanted, 1.0)), draw)

    return jax.lax.cond(jnp.any(wanted < 1), shrink, lambda draw: draw, draw).reshape(shape.shape)


def _propose_gamma(key: Key[Array, ""], shape: Array) -> tuple[Array, Array]:
    """One proposal for each shape >= 1, and whether it is accepted."""
    key_x, key_u = jax.random.split(key)
    d = shape - 1 / 3
    x = jax.random.normal(key_x, shape.shape)
    u = jax.random.uniform(key_u, shape.shape, minval=jnp.finfo(x.dtype).tiny)
    v = (1 + x / jnp.sqrt(9 * d)) ** 3
    safe = jnp.where(v > 0, v, 1.0)
    accepted = (v > 0) & (jnp.log(u) < 0.5 * x**2 + d * (1 - safe + jnp.log(safe)))
    return d * v, accepted
