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

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ilbo import sampling
from ilbo.errors import DensityError

if TYPE_CHECKING:
    from ilbo.model import Model, Problem


def affine(model: Model, state: Array, action: Array) -> tuple[Array, Array]:
    """c [n] and J [n, k] of s' = c + J ξ."""
    reference = model.law.reference
    moved, jacobian = _value_and_jacobian(model, state, action, reference)
    return moved - jacobian @ reference, jacobian


def _value_and_jacobian(
    model: Model, state: Array, action: Array, noise: Array
) -> tuple[Array, Array]:
    """The next state [n] and its Jacobian [n, k] in the noise."""

    def twice(noise):
        moved = model.transition(state, action, noise)
        return moved, moved

    jacobian, moved = jax.jacfwd(twice, has_aux=True)(noise)
    return moved, jacobian


def log_density(model: Model, state: Array, action: Array, next_state: Array) -> Float[Array, ""]:
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
    # A row without noise is clipped even at the reference: what is above the clip has no chance.
    total = jnp.where(jnp.all(jnp.any(jacobian != 0, axis=1)), total, -jnp.inf)
    if not gaussian.any():
        return total
    single = jnp.any(others != 0, axis=1)
    # Rows of the other laws enter the Normal as standard normals at 0, which is then taken off.
    normal = _normal(jnp.where(single, 0.0, residual), jacobian[:, gaussian], single)
    return total + normal + 0.5 * jnp.log(2 * jnp.pi) * jnp.sum(single)


def _normal(residual: Array, jacobian: Array, unit_rows: Array | None = None) -> Array:
    covariance = jacobian @ jacobian.T
    if unit_rows is not None:
        covariance += jnp.diag(unit_rows.astype(covariance.dtype))
    factor = jnp.linalg.cholesky(covariance)
    white = jax.scipy.linalg.solve_triangular(factor, residual, lower=True)
    log_scale = jnp.sum(jnp.log(jnp.diagonal(factor)))
    return -0.5 * jnp.sum(white**2) - log_scale - 0.5 * len(residual) * jnp.log(2 * jnp.pi)


def reasons(problem: Problem, probes: int = 16) -> dict[str, str | None]:
    """For each state component, why it has no density, or None where it has one.

    The structure is found by evaluating the transition at start states of the region.
    """
    c, jacobian, noises, actual, local = (
        np.asarray(x, np.float64) for x in _probe(problem, probes)
    )
    predicted = c + np.einsum("pnk,pk->pn", jacobian, noises)
    scale = 1 + np.abs(actual) + np.abs(jacobian).sum(-1)
    wrong = ~(np.abs(predicted - actual) <= 1e-3 * scale)
    clipped = ~np.any(local != 0, axis=-1)
    drives = np.any(jacobian != 0, axis=0)  # [n, k]
    gaussian = problem.model.law.gaussian

    found: dict[str, str | None] = {}
    for i, name in enumerate(problem.state_names):
        own = np.flatnonzero(drives[i])
        sharing = [
            problem.state_names[j]
            for j in range(len(drives))
            if j != i and (drives[j] & drives[i] & ~gaussian).any()
        ]
        if np.any(wrong[:, i] & ~clipped[:, i]):
            found[name] = "is not affine in the noise"
        elif len(own) == 0:
            found[name] = "is deterministic given the state and the action"
        elif not gaussian[own].all() and len(own) > 1:
            found[name] = f"mixes {len(own)} noises that are not all Gaussian"
        elif sharing:
            found[name] = f"shares a noise that is not Gaussian with {sharing[0]!r}"
        else:
            found[name] = None
    normal = [i for i, row in enumerate(drives) if row.any() and gaussian[row].all()]
    if normal and not any(found.values()):
        rows = jacobian[:, normal][:, :, gaussian]
        singular = np.linalg.matrix_rank(rows) < len(normal)
        if singular.any():
            for i in normal:
                found[problem.state_names[i]] = (
                    "is one of Gaussian components whose covariance is singular"
                )
    return found


@eqx.filter_jit
def _probe(problem: Problem, probes: int) -> tuple[Array, ...]:
    """c, J, a noise, the next state and the Jacobian at that noise, at `probes` random steps."""
    model = problem.model
    key_state, key_action, key_noise = jax.random.split(jax.random.key(0), 3)
    states = problem.starts(key_state, (probes,)).at[0].set(problem.initial_state)

    def probe(state, unit, noise):
        low, high = model.bounds(state)
        low, high = jnp.maximum(low, -1e3), jnp.minimum(high, 1e3)
        action = low + unit * (high - low)
        at = jnp.stack([model.law.reference, noise])
        moved, jacobian = jax.vmap(lambda xi: _value_and_jacobian(model, state, action, xi))(at)
        return moved[0] - jacobian[0] @ at[0], jacobian[0], noise, moved[1], jacobian[1]

    units = sampling.uniform(key_action, (probes, problem.action_size))
    return jax.vmap(probe)(states, units, model.law.sample(key_noise, (probes,)))


def check(problem: Problem) -> None:
    """Raises `DensityError` where the rule gives the problem no density."""
    if type(problem.model).log_density is not _default(problem):
        return
    for name, reason in reasons(problem).items():
        if reason is not None:
            raise DensityError(
                f"{problem.name} has no density ln T: state component {name!r} {reason}; "
                "the pathwise estimator needs no density."
            )


def _default(problem: Problem):
    from ilbo.model import Model

    return Model.log_density
