"""Minorise-maximise to convergence, with everything that happened on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ilbo.errors import UserError
from ilbo.theory.maximise import Parametric, maximise_parameters, maximise_table, table
from ilbo.theory.mdp import FiniteMDP, between, finite_bounds
from ilbo.theory.minoriser import Bound, bound
from ilbo.theory.precision import in_float64
from ilbo.theory.values import analyse_unchecked


@dataclass(frozen=True)
class History:
    """A run of M minorise-maximise iterations; entry m of `J_hat`, `step`, `gap` is of the
    iteration that went from μ^m to μ^{m+1}."""

    mu: Float[np.ndarray, "policies n k"]
    """The policies μ^0 … μ^M."""
    theta: Float[np.ndarray, "policies *shape"] | None
    """Their parameters; None for tables."""
    J: Float[np.ndarray, " policies"]
    """J(μ^m): never decreases."""
    J_hat: Float[np.ndarray, " iterations"]
    """Ĵ(μ^{m+1}; μ^m), the maximum of the bound."""
    step: Float[np.ndarray, " iterations"]
    """max |μ^{m+1} − μ^m| over states and action components."""
    gap: Float[np.ndarray, " iterations"]
    """J(μ^{m+1}) − Ĵ(μ^{m+1}; μ^m) ≥ 0: the improvement of J beyond that of the bound."""
    converged: bool
    """Whether the last step was within the tolerance."""

    @property
    def iterations(self) -> int:
        return len(self.step)


def iterate(
    mdp: FiniteMDP,
    start: Any,
    policy: Parametric | None = None,
    *,
    shift: float = 0.0,
    tolerance: float = 1e-8,
    max_iterations: int = 10_000,
    restarts: int = 0,
    seed: int = 0,
) -> History:
    """Runs μ^{m+1} = argmax_μ Ĵ(μ; μ^m), Eq. (4), until no action moves by more than `tolerance`.

    Args:
        mdp: What to solve.
        start: μ^0 [n, k], or θ^0 of any shape where there is a policy.
        policy: μ_θ as (θ, s) → action [k], for example `Linear(features)`; None for a table.
        shift: c ≥ −min r, so that the bound can take the logarithm of r + c.
        tolerance: The step at which to stop.
        max_iterations: Where to stop at the latest.
        restarts: Further starting points of the nonlinear program in every iteration.
        seed: Of these points.
    """
    if not tolerance > 0 or max_iterations < 1:
        raise UserError(
            f"iterate needs a positive tolerance and at least one iteration, got "
            f"tolerance={tolerance} and max_iterations={max_iterations}."
        )
    theta = np.asarray(start, np.float64)
    mu = mdp.check_policy(theta if policy is None else table(policy, theta, mdp.states))
    j_hat = bound(mdp, mu, shift)
    mus, thetas, J = [mu], [theta], [float(j_hat.at_m.J)]
    J_hat: list[float] = []
    steps: list[float] = []
    while len(steps) < max_iterations:
        if policy is None:
            theta = mu = maximise_table(j_hat)
        else:
            theta = maximise_parameters(j_hat, policy, theta, restarts, seed + len(steps))
            mu = np.clip(table(policy, theta, mdp.states), mdp.low, mdp.high)
        following = bound(mdp, mu, shift)
        J_hat.append(j_hat.given(following.at_m.T, following.at_m.r))
        steps.append(float(np.abs(mu - mus[-1]).max()))
        mus.append(mu)
        thetas.append(theta)
        j_hat = following
        J.append(float(j_hat.at_m.J))
        if steps[-1] <= tolerance:
            break
    return History(
        mu=np.stack(mus),
        theta=None if policy is None else np.stack(thetas),
        J=np.array(J),
        J_hat=np.array(J_hat),
        step=np.array(steps),
        gap=np.array(J[1:]) - np.array(J_hat),
        converged=steps[-1] <= tolerance,
    )


def iterate_from_many(
    mdp: FiniteMDP,
    starts: int = 64,
    *,
    seed: int = 0,
    shift: float = 0.0,
    tolerance: float = 1e-8,
    max_iterations: int = 10_000,
) -> History:
    """`iterate` from tables drawn uniformly within the action bounds; the history of the best end.

    All starts run side by side in one compiled program, to the square root of the tolerance, which
    is enough to rank them; only the best is then run to the tolerance, for its history.
    """
    if starts < 1:
        raise UserError(f"The number of starts must be at least 1, got {starts}.")
    draw = np.random.default_rng(seed)
    mu_0 = between(*finite_bounds(mdp), draw.uniform(size=(starts, *mdp.low.shape)))
    for mu in mu_0:
        bound(mdp, mu, shift)
    ends = _run_all(mdp, mu_0, np.asarray(shift, np.float64), tolerance**0.5, max_iterations)
    best = int(np.argmax([analyse_unchecked(mdp, mu).J for mu in ends]))
    return iterate(mdp, mu_0[best], shift=shift, tolerance=tolerance, max_iterations=max_iterations)


Carry = tuple[Float[Array, "starts n k"], Float[Array, ""], Int[Array, ""]]
"""The tables, the largest step of the last iteration, and the number of iterations."""


@in_float64
@eqx.filter_jit
def _run_all(
    mdp: FiniteMDP,
    mu_0: Float[Array, "starts n k"],
    shift: Float[Array, ""],
    tolerance: float,
    max_iterations: int,
) -> Float[Array, "starts n k"]:
    def improved(mu: Float[Array, "n k"]) -> Float[Array, "n k"]:
        return maximise_table(Bound(mdp, analyse_unchecked(mdp, mu), shift))

    def advance(carry: Carry) -> Carry:
        mu, _, count = carry
        following = jax.vmap(improved)(mu)
        return following, jnp.max(jnp.abs(following - mu)), count + 1

    def moving(carry: Carry) -> Bool[Array, ""]:
        return (carry[1] > tolerance) & (carry[2] < max_iterations)

    first = (jnp.asarray(mu_0), jnp.array(jnp.inf), jnp.array(0))
    return jax.lax.while_loop(moving, advance, first)[0]
