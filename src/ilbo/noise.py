"""Laws of the base noise ξ: what is random in one step, independent of state and action."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jaxtyping import Array, Float, Key

from ilbo import sampling


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
        return sampling.normal(key, (*shape, self.count))

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
        return sampling.standard_gamma(key, jnp.broadcast_to(self.shape, (*shape, self.size)))

    def log_prob(self, noise):
        return gamma_log_prob(noise, self.shape)

    @property
    def reference(self):
        # What lies further out has a density below e⁻¹⁰⁰: zero in 32 bits.
        return self.shape + 100 * jnp.maximum(1.0, jnp.sqrt(self.shape))

    def __str__(self) -> str:
        return f"Gamma × {self.size}"


class Standard(Law):
    """Components of one law without parameters: "Uniform" on [0, 1], "Exponential" of mean 1,
    "Laplace", "Gumbel" and "Cauchy" of location 0 and scale 1."""

    kind: str = eqx.field(static=True)
    count: int = eqx.field(static=True)

    def __check_init__(self):
        if self.kind not in _STANDARD:
            raise ValueError(f"no law {self.kind!r}; there are {', '.join(_STANDARD)}")

    @property
    def size(self) -> int:
        return self.count

    def sample(self, key, shape=()):
        return _STANDARD[self.kind].sample(key, (*shape, self.count))

    def log_prob(self, noise):
        return _STANDARD[self.kind].log_prob(noise)

    @property
    def reference(self):
        return jnp.full(self.count, _STANDARD[self.kind].reference)

    def __str__(self) -> str:
        return f"{self.kind} × {self.count}"


class Weibull(Law):
    """Weibull components of unit scale.

    Attributes:
        shape: [k] shape parameters, positive.
    """

    shape: Float[Array, " k"]

    @property
    def size(self) -> int:
        return self.shape.shape[0]

    def sample(self, key, shape=()):
        return jax.random.exponential(key, (*shape, self.size)) ** (1 / self.shape)

    def log_prob(self, noise):
        inside = noise > 0
        safe = jnp.where(inside, noise, 1.0)
        log_prob = jnp.log(self.shape) + (self.shape - 1) * jnp.log(safe) - safe**self.shape
        return jnp.where(inside, log_prob, -jnp.inf)

    @property
    def reference(self):
        return 11.0 ** (1 / self.shape)

    def __str__(self) -> str:
        return f"Weibull × {self.size}"


class Beta(Law):
    """Beta components.

    Attributes:
        a: [k] first shape parameters, positive.
        b: [k] second shape parameters, positive.
    """

    a: Float[Array, " k"]
    b: Float[Array, " k"]

    @property
    def size(self) -> int:
        return self.a.shape[0]

    def sample(self, key, shape=()):
        shapes = jnp.broadcast_to(jnp.stack([self.a, self.b]), (*shape, 2, self.size))
        draws = sampling.standard_gamma(key, shapes)
        return draws[..., 0, :] / jnp.sum(draws, axis=-2)

    def log_prob(self, noise):
        inside = (noise > 0) & (noise < 1)
        safe = jnp.where(inside, noise, 0.5)
        log_prob = (
            (self.a - 1) * jnp.log(safe)
            + (self.b - 1) * jnp.log1p(-safe)
            - jax.scipy.special.betaln(self.a, self.b)
        )
        return jnp.where(inside, log_prob, -jnp.inf)

    @property
    def reference(self):
        mean = self.a / (self.a + self.b)
        return mean + 0.99 * (1 - mean)

    def __str__(self) -> str:
        return f"Beta × {self.size}"


class Student(Law):
    """Student's t components of location 0 and scale 1.

    Attributes:
        degrees: [k] degrees of freedom, positive.
    """

    degrees: Float[Array, " k"]

    @property
    def size(self) -> int:
        return self.degrees.shape[0]

    def sample(self, key, shape=()):
        key_normal, key_gamma = jax.random.split(key)
        half = jnp.broadcast_to(self.degrees / 2, (*shape, self.size))
        spread = jnp.sqrt(half / sampling.standard_gamma(key_gamma, half))
        return spread * jax.random.normal(key_normal, (*shape, self.size))

    def log_prob(self, noise):
        return stats.t.logpdf(noise, self.degrees)

    @property
    def reference(self):
        return jnp.full(self.size, 15.0)

    def __str__(self) -> str:
        return f"Student × {self.size}"


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


class _StandardLaw(NamedTuple):
    """How a law without parameters is drawn, its log-density, and its `Law.reference`."""

    sample: Callable[..., Array]
    log_prob: Callable[[Array], Array]
    reference: float


_STANDARD = {
    "Uniform": _StandardLaw(
        jax.random.uniform, lambda x: jnp.where((x >= 0) & (x <= 1), 0.0, -jnp.inf), 0.99
    ),
    "Exponential": _StandardLaw(
        jax.random.exponential, lambda x: jnp.where(x >= 0, -x, -jnp.inf), 11.0
    ),
    "Laplace": _StandardLaw(jax.random.laplace, lambda x: -jnp.abs(x) - jnp.log(2.0), 15.0),
    "Gumbel": _StandardLaw(jax.random.gumbel, lambda x: -x - jnp.exp(-x), 15.0),
    "Cauchy": _StandardLaw(jax.random.cauchy, lambda x: -jnp.log1p(x**2) - jnp.log(jnp.pi), 100.0),
}
