"""Each distribution of RDDL as a function of base noise whose law is fixed.

A draw is planned once, when the problem is compiled: the law of its noise may use the parameters
that are constant (`constants`), never those that depend on the state or the action. Where a shape
parameter is constant the noise has the distribution's own law, so that the draw is affine in it and
the transition may have a density; where it is not, the draw is the quantile of a uniform noise.

Parameters, their meaning and their ranges are those of pyRDDLGym's simulator (`ilbo.rddl.ranges`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ilbo.mdp.laws.beta import Beta
from ilbo.mdp.laws.gamma import Gamma
from ilbo.mdp.laws.gaussian import Gaussian
from ilbo.mdp.laws.law import Law
from ilbo.mdp.laws.product import Product
from ilbo.mdp.laws.standard import Cauchy, Exponential, Gumbel, Laplace, Standard, Uniform
from ilbo.mdp.laws.student import Student
from ilbo.mdp.laws.weibull import Weibull
from ilbo.rddl import quantiles, ranges
from ilbo.rddl.operators import safe_sqrt

Shape = tuple[int, ...]
Constants = Sequence[np.ndarray | None]
"""The value of each parameter of a draw, None where it is not constant."""


@dataclass(frozen=True)
class Draw:
    """A planned draw: `sample(ξ, *parameters)` with ξ [*noise_shape] of the law."""

    law: Law
    noise_shape: Shape
    sample: Callable[..., Array]


Planner = Callable[[Shape, Constants], Draw | None]


def draw_of(name: str, shape: Shape, constants: Constants) -> Draw | None:
    """The draw of a distribution for parameters of the shape; None where it is not supported."""
    planner = _PLANNERS.get(name)
    draw = None if planner is None else planner(shape, constants)
    if draw is None or name in DISCRETE:  # a whole number cannot be NaN
        return draw
    return replace(draw, sample=ranges.guarded(name, constants, draw.sample))


def joined(laws: Sequence[Law]) -> Law:
    """The law of the draws' noises one after the other, neighbours of one kind made one law."""
    merged: list[Law] = []
    for law in laws:
        together = _merge(merged[-1], law) if merged else None
        if together is None:
            merged.append(law)
        else:
            merged[-1] = together
    if not merged:
        return Gaussian(0)
    return merged[0] if len(merged) == 1 else Product(merged)


def _merge(first: Law, second: Law) -> Law | None:
    match first, second:
        case Gaussian(), Gaussian():
            return Gaussian(first.count + second.count)
        case Standard(), Standard() if type(first) is type(second):
            return type(first)(first.count + second.count)
        case Gamma(), Gamma():
            return Gamma(jnp.concatenate([first.shape, second.shape]))
        case Weibull(), Weibull():
            return Weibull(jnp.concatenate([first.shape, second.shape]))
    return None


def _standard(law: Callable[[int], Law], sample: Callable[..., Array], each: int = 1) -> Planner:
    """Noise of a law without parameters, `each` of it for an element where that is not 1."""

    def planner(shape: Shape, constants: Constants) -> Draw:
        noise_shape = shape if each == 1 else (*shape, each)
        return Draw(law(math.prod(noise_shape)), noise_shape, sample)

    return planner


def _shaped(
    law: Callable[..., Law], shapes: int, sample: Callable[..., Array], otherwise: Planner
) -> Planner:
    """Noise of a law with the first `shapes` parameters, if constant; `otherwise` a planner."""

    def planner(shape: Shape, constants: Constants) -> Draw | None:
        given = constants[:shapes]
        if any(value is None for value in given):
            return otherwise(shape, constants)
        values = [jnp.broadcast_to(jnp.asarray(v, float), shape).ravel() for v in given]
        return Draw(law(*values), shape, sample)

    return planner


def _discrete(shape: Shape, constants: Constants) -> Draw:
    """Gumbel noise for each case; the largest perturbed log-probability is drawn."""
    noise_shape = (*shape, len(constants))
    return Draw(
        Gumbel(math.prod(noise_shape)),
        noise_shape,
        lambda g, *weights: largest(g, jnp.stack(weights, axis=-1)),
    )


def _multivariate_student(shape: Shape, constants: Constants) -> Draw | None:
    if constants[2] is None:
        return None
    degrees = jnp.broadcast_to(jnp.asarray(constants[2], float)[..., None], shape)
    return Draw(
        Student(degrees.ravel()),
        shape,
        lambda x, mean, covariance, _: mean + _times(jnp.linalg.cholesky(covariance), x),
    )


def _multinomial(shape: Shape, constants: Constants) -> Draw:
    noise_shape = (*shape[:-1], shape[-1] - 1)
    return Draw(Uniform(math.prod(noise_shape)), noise_shape, quantiles.multinomial)


def largest(gumbel: Array, weights: Array) -> Array:
    """The case drawn with probability proportional to weights [.., cases]."""
    return jnp.argmax(gumbel + jnp.log(weights), axis=-1)


_PLANNERS: dict[str, Planner] = {
    "Normal": _standard(Gaussian, lambda z, mean, variance: mean + safe_sqrt(variance) * z),
    "Uniform": _standard(Uniform, lambda u, low, high: low + (high - low) * u),
    "Exponential": _standard(Exponential, lambda e, scale: scale * e),
    "Laplace": _standard(Laplace, lambda x, mean, scale: mean + scale * x),
    "Gumbel": _standard(Gumbel, lambda x, mean, scale: mean + scale * x),
    "Cauchy": _standard(Cauchy, lambda x, mean, scale: mean + scale * x),
    "Gompertz": _standard(Exponential, lambda e, shape, scale: jnp.log1p(e / shape) / scale),
    "Pareto": _standard(Exponential, lambda e, shape, scale: scale * jnp.expm1(e / shape)),
    "Kumaraswamy": _standard(Uniform, lambda u, a, b: (1 - u ** (1 / b)) ** (1 / a)),
    "Weibull": _shaped(
        Weibull,
        1,
        lambda x, shape, scale: scale * x,
        _standard(Exponential, lambda e, shape, scale: scale * e ** (1 / shape)),
    ),
    "Gamma": _shaped(
        Gamma,
        1,
        lambda x, shape, scale: scale * x,
        _standard(Uniform, lambda u, shape, scale: scale * quantiles.gamma(u, shape)),
    ),
    "ChiSquare": _shaped(
        lambda degrees: Gamma(degrees / 2),
        1,
        lambda x, degrees: 2 * x,
        _standard(Uniform, lambda u, degrees: 2 * quantiles.gamma(u, degrees / 2)),
    ),
    "Beta": _shaped(Beta, 2, lambda x, a, b: x, _standard(Uniform, quantiles.beta, each=2)),
    "Student": _shaped(
        Student, 1, lambda x, degrees: x, _standard(Uniform, quantiles.student, each=2)
    ),
    "Bernoulli": _standard(Uniform, lambda u, p: u <= p),
    "Geometric": _standard(
        Uniform,
        lambda u, p: 1 + jnp.floor(jnp.log1p(-u) / jnp.log1p(-p)).astype(jnp.int32),
    ),
    "Poisson": _standard(Uniform, quantiles.poisson),
    "Binomial": _standard(Uniform, quantiles.binomial),
    "NegativeBinomial": _standard(Uniform, quantiles.negative_binomial),
    "Discrete": _discrete,
    "UnnormDiscrete": _discrete,
    "Discrete(p)": _standard(Gumbel, largest),
    "UnnormDiscrete(p)": _standard(Gumbel, largest),
    "MultivariateNormal": _standard(
        Gaussian, lambda z, mean, covariance: mean + _times(jnp.linalg.cholesky(covariance), z)
    ),
    "MultivariateStudent": _multivariate_student,
    "Multinomial": _multinomial,
    "Dirichlet": _shaped(
        Gamma,
        1,
        lambda x, weights: _normalised(x),
        _standard(Uniform, lambda u, weights: _normalised(quantiles.gamma(u, weights))),
    ),
}

DISCRETE = {
    *("Bernoulli", "Geometric", "Poisson", "Binomial", "NegativeBinomial"),
    *("Discrete", "UnnormDiscrete", "Discrete(p)", "UnnormDiscrete(p)", "Multinomial"),
}
"""Distributions over whole numbers or cases: a draw has no derivative in its parameters."""


def _times(matrix: Array, vector: Array) -> Array:
    return jnp.einsum("...ij,...j->...i", matrix, vector)


def _normalised(x: Array) -> Array:
    return x / jnp.sum(x, axis=-1, keepdims=True)
