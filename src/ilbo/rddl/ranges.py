"""Which parameters a distribution of RDDL may have.

What is constant is checked when the problem is compiled (`fault`). What depends on the state or the
action turns the draw into NaN where it leaves its range (`guarded`), and the whole next state where
the draw is a whole number, which cannot be NaN (`sound`): whoever evaluates is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

SUM_TOLERANCE = 1e-5
ROUNDING = 1e-4
"""How far probabilities that are computed along the way may be off in 32 bits."""


class Range(NamedTuple):
    """A parameter's name, what must be true of it in words, and as a function."""

    name: str
    words: str
    holds: Callable[[Any], Any]


def _any(name: str) -> Range:
    return Range(name, "be finite", lambda x: abs(x) < np.inf)


def _positive(name: str) -> Range:
    return Range(name, "be positive", lambda x: (x > 0) & (x < np.inf))


def _not_negative(name: str) -> Range:
    return Range(name, "not be negative", lambda x: (x >= 0) & (x < np.inf))


_PROBABILITY = Range("probability", "be from 0 to 1", lambda x: (x >= 0) & (x <= 1))
_CHANCE = Range("probability", "be above 0 and at most 1", lambda x: (x > 0) & (x <= 1))

_RANGES: dict[str, tuple[Range, ...]] = {
    "Normal": (_any("mean"), _not_negative("variance")),
    "Uniform": (_any("lower bound"), _any("upper bound")),
    "Exponential": (_positive("scale"),),
    "Laplace": (_any("mean"), _positive("scale")),
    "Gumbel": (_any("mean"), _positive("scale")),
    "Cauchy": (_any("mean"), _positive("scale")),
    "Gompertz": (_positive("shape"), _positive("scale")),
    "Pareto": (_positive("shape"), _positive("scale")),
    "Kumaraswamy": (_positive("first shape"), _positive("second shape")),
    "Weibull": (_positive("shape"), _positive("scale")),
    "Gamma": (_positive("shape"), _positive("scale")),
    "ChiSquare": (_positive("number of degrees of freedom"),),
    "Beta": (_positive("first shape"), _positive("second shape")),
    "Student": (_positive("number of degrees of freedom"),),
    "Bernoulli": (_PROBABILITY,),
    "Geometric": (_CHANCE,),
    "Poisson": (_not_negative("rate"),),
    "Binomial": (_not_negative("number of trials"), _PROBABILITY),
    "NegativeBinomial": (_positive("number of successes"), _CHANCE),
    "MultivariateNormal": (_any("mean"), _any("covariance")),
    "MultivariateStudent": (
        _any("mean"),
        _any("covariance"),
        _positive("number of degrees of freedom"),
    ),
    "Dirichlet": (_positive("weight"),),
    "Multinomial": (_not_negative("number of trials"), _not_negative("weight")),
}
"""The parameters of each distribution; the weights of the discrete ones are of any number."""


def fault(name: str, constants: Sequence[np.ndarray | None]) -> str | None:
    """What is wrong with the constant parameters of a draw, None where nothing is."""
    given = [None if value is None else np.asarray(value, float) for value in constants]
    discrete = "Discrete" in name
    ranges = (_not_negative("weight"),) * len(given) if discrete else _RANGES.get(name, ())
    for (label, words, holds), value in zip(ranges, given, strict=False):
        if value is not None and not np.all(holds(value)):
            return f"the {label} must {words}, got {value[~holds(value)].flat[0]:g}"
    known = [value for value in given if value is not None]
    if len(known) < len(given):
        return None
    if name == "Uniform" and np.any(known[0] > known[1]):
        low, high = (x[known[0] > known[1]].flat[0] for x in np.broadcast_arrays(*known))
        return f"the lower bound must not lie above the upper, got {low:g} and {high:g}"
    if discrete:
        weights = known[0] if "(p)" in name else np.stack(np.broadcast_arrays(*known), axis=-1)
        return _fault_of_weights(np.atleast_1d(weights.sum(axis=-1)), name)
    if name == "Multinomial":
        return _fault_of_weights(np.atleast_1d(known[1].sum(axis=-1)), name)
    if name.startswith("Multivariate") and not _is_covariance(known[1]):
        return "the covariance must be symmetric and positive definite"
    return None


def guarded(
    name: str, constants: Sequence[np.ndarray | None], sample: Callable[..., Array]
) -> Callable[..., Array]:
    """The draw of a real-valued distribution, NaN where a parameter that is not constant is out of
    its range; means, and covariances, pass on themselves what is wrong with them."""
    watched = [
        (i, range_.holds)
        for i, (range_, value) in enumerate(zip(_RANGES[name], constants, strict=True))
        if value is None and range_.words != "be finite"
    ]
    ordered = name == "Uniform" and any(value is None for value in constants)
    if not watched and not ordered:
        return sample

    def draw(noise: Array, *parameters: Array) -> Array:
        good = parameters[0] <= parameters[1] if ordered else jnp.array(True)
        for i, holds in watched:
            good = good & holds(parameters[i])
        if name == "Dirichlet":
            good = jnp.all(good, axis=-1, keepdims=True)
        return jnp.where(good, sample(noise, *parameters), jnp.nan)

    return draw


def sound(name: str, parameters: Sequence[Array]) -> Array:
    """Whether all parameters of draws of a whole number are in range, but for rounding."""
    if "Discrete" in name:
        weights = parameters[0] if "(p)" in name else jnp.stack(parameters, axis=-1)
        sums = jnp.sum(weights, axis=-1)
        summed = sums > 0 if name.startswith("Unnorm") else jnp.abs(sums - 1) < ROUNDING
        return jnp.all(weights >= -ROUNDING) & jnp.all(summed)
    good = jnp.array(True)
    if name == "Multinomial":
        good = jnp.all(jnp.abs(jnp.sum(parameters[1], axis=-1) - 1) < ROUNDING)
    for range_, value in zip(_RANGES[name], parameters, strict=True):
        rounded = jnp.clip(value, -ROUNDING, 1 + ROUNDING) == value
        good &= jnp.all(rounded if range_ is _PROBABILITY else range_.holds(value))
    return good


def _fault_of_weights(sums: np.ndarray, name: str) -> str | None:
    if name.startswith("Unnorm"):
        return None if np.all(sums > 0) else "one of the weights must be positive, got none"
    bad = sums[~np.isclose(sums, 1, rtol=SUM_TOLERANCE)]
    return f"the probabilities must sum to 1, got {bad.flat[0]:g}" if bad.size else None


def _is_covariance(matrix: np.ndarray) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return np.allclose(matrix, np.swapaxes(matrix, -1, -2), rtol=1e-4)
