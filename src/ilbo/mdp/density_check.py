"""Whether the rule of `density` gives a problem a density, and why not where it does not."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ilbo.errors import DensityError
from ilbo.mdp import sampling
from ilbo.mdp.density import value_and_jacobian
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Action, Noise, State


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
    gaussian, discrete = problem.model.law.gaussian, problem.model.law.discrete

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
        elif discrete[own].any():
            found[name] = "is driven by a noise with finitely many values"
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
    model = problem.model.at(jnp.zeros((), jnp.int32))
    key_state, key_action, key_noise = jax.random.split(jax.random.key(0), 3)
    states = problem.starts(key_state, (probes,)).at[0].set(problem.initial_state)

    def probe(state: State, unit: Action, noise: Noise) -> tuple[Array, ...]:
        low, high = model.bounds(state)
        low, high = jnp.maximum(low, -1e3), jnp.minimum(high, 1e3)
        action = low + unit * (high - low)
        at = jnp.stack([model.law.reference, noise])
        moved, jacobian = jax.vmap(lambda xi: value_and_jacobian(model, state, action, xi))(at)
        return moved[0] - jacobian[0] @ at[0], jacobian[0], noise, moved[1], jacobian[1]

    units = sampling.uniform(key_action, (probes, problem.action_size))
    return jax.vmap(probe)(states, units, model.law.sample(key_noise, (probes,)))


def check(problem: Problem) -> None:
    """Raises `DensityError` where the rule gives the problem no density."""
    if type(problem.model).log_density is not Model.log_density:
        return
    for name, reason in reasons(problem).items():
        if reason is not None:
            raise DensityError(
                f"{problem.name} has no density ln T: state component {name!r} {reason}; "
                "the pathwise estimator needs no density."
            )
