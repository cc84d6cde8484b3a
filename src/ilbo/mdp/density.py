"""ln T(s, a, s') from the transition and the law of its noise, one rule for every model.

If the next state is affine in the noise, s' = c(s, a) + J(s, a) ξ, its density follows from that
of ξ:

- state components driven by Gaussian noises are jointly Normal(c, J Jᵀ);
- a state component driven by one noise of another law has that law, shifted by c and scaled by J.

c and J are read off the transition itself. Where a transition clips its result from below (a level
that cannot be negative), the density is the one before the clip: c and J are taken at a noise large
enough for the clip not to bind (`Law.reference`); where it binds even there, the density above it
is zero in 32 bits.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ilbo.mdp.laws.law import Law
from ilbo.mdp.shapes import Action, Noise, State


@runtime_checkable
class Driven(Protocol):
    """All that the rule needs of a model."""

    @property
    def law(self) -> Law: ...

    def transition(self, state: State, action: Action, noise: Noise) -> State: ...


def affine(model: Driven, state: State, action: Action) -> tuple[State, Float[Array, "n k"]]:
    """c and J of s' = c + J ξ."""
    reference = model.law.reference
    moved, jacobian = value_and_jacobian(model, state, action, reference)
    return moved - jacobian @ reference, jacobian


def value_and_jacobian(
    model: Driven, state: State, action: Action, noise: Noise
) -> tuple[State, Float[Array, "n k"]]:
    """The next state and its Jacobian in the noise."""

    def twice(noise: Noise) -> tuple[State, State]:
        moved = model.transition(state, action, noise)
        return moved, moved

    jacobian, moved = jax.jacfwd(twice, has_aux=True)(noise)
    return moved, jacobian


def log_density(model: Driven, state: State, action: Action, next_state: State) -> Float[Array, ""]:
    """ln T(s, a, s') by the rule above. That the rule applies is what `check` makes sure of."""
    c, jacobian = affine(model, state, action)
    residual = next_state - c
    gaussian = model.law.gaussian
    if gaussian.all():
        return _normal(residual, jacobian)
    others = jacobian[:, ~gaussian]
    # The row that each non-Gaussian noise drives; a noise that drives none adds nothing.
    row = jnp.argmax(jnp.abs(others), axis=0)
    scale = jnp.take_along_axis(others, row[None, :], axis=0)[0]
    used = scale != 0
    scale = jnp.where(used, scale, 1.0)
    noise = jnp.zeros(model.law.size).at[~gaussian].set(residual[row] / scale)
    log_probs = model.law.log_prob(noise)[~gaussian] - jnp.log(jnp.abs(scale))
    total = jnp.sum(jnp.where(used, log_probs, 0.0))
    # A row without noise is clipped even at the reference: density 0 above the clip.
    total = jnp.where(jnp.all(jnp.any(jacobian != 0, axis=1)), total, -jnp.inf)
    if not gaussian.any():
        return total
    single = jnp.any(others != 0, axis=1)
    # Rows of the other laws enter the Normal as standard normals at 0, which is then taken off.
    normal = _normal(jnp.where(single, 0.0, residual), jacobian[:, gaussian], single)
    return total + normal + 0.5 * jnp.log(2 * jnp.pi) * jnp.sum(single)


def _normal(
    residual: State, jacobian: Float[Array, "n k"], unit_rows: Bool[Array, " n"] | None = None
) -> Float[Array, ""]:
    covariance = jacobian @ jacobian.T
    if unit_rows is not None:
        covariance += jnp.diag(unit_rows.astype(covariance.dtype))
    factor = jnp.linalg.cholesky(covariance)
    white = jax.scipy.linalg.solve_triangular(factor, residual, lower=True)
    log_scale = jnp.sum(jnp.log(jnp.diagonal(factor)))
    return -0.5 * jnp.sum(white**2) - log_scale - 0.5 * len(residual) * jnp.log(2 * jnp.pi)
