"""The minoriser Ĵ(μ; μ^m) of the objective, with its constant, and its gradient.

J is convex in ω = ln r and φ = ln T (Eq. 8), so its tangent at (ω^m, φ^m) lies below it everywhere:

    Ĵ(μ; μ^m) = J^m + Σ_s ∂J/∂ω(s) [ln r(s, μ(s)) − ln r(s, μ^m(s))]
                    + Σ_{s,s'} ∂J/∂φ(s, s') [ln T(s, μ(s), s') − ln T(s, μ^m(s), s')]

with both gradients taken at μ^m. The terms in μ are Eq. (22); the rest is a constant it leaves out.

Rewards that can be negative have no logarithm. A shift c adds c to every reward and so the constant
c Σ_t γ^t to J, whatever the policy. The bound is then built for r + c and the constant taken off
again: it still touches J and lies below it, in the rewards' own units.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ilbo.errors import UserError
from ilbo.mm.mdp import FiniteMDP, check_model
from ilbo.mm.precision import in_float64
from ilbo.mm.values import Analysis, analyse, chain


class Bound(eqx.Module):
    """Ĵ(·; μ^m): call it with a policy μ [n, k]. Made by `bound`."""

    mdp: FiniteMDP
    mu_m: Float[Array, "n k"]
    shift: Float[Array, ""]
    """c, added to every reward so that none is negative."""
    J_m: Float[Array, ""]
    """J(μ^m), without the shift."""
    r_m: Float[Array, " n"]
    """r(s, μ^m(s)), without the shift."""
    T_m: Float[Array, "n n"]
    """T(s, μ^m(s), s')."""
    dJ_domega: Float[Array, " n"]
    dJ_dphi: Float[Array, "n n"]

    def __call__(self, mu: Any) -> float:
        """Ĵ(μ; μ^m). −inf where μ makes impossible what μ^m makes possible and worth something."""
        mu = self.mdp.check_policy(mu)
        value, there = advance(self, mu)
        check_bound(there)
        return float(value)

    def at_state(self, s: Array, a: Array) -> Float[Array, ""]:
        """The part of Ĵ − J^m that the action a [k] in state s decides. Traced by JAX."""
        r, r_m = self.mdp.r(s, a) + self.shift, self.r_m[s] + self.shift
        gained = _weighted_log_ratio(self.dJ_domega[s], r, r_m)
        return gained + jnp.sum(_weighted_log_ratio(self.dJ_dphi[s], self.mdp.T(s, a), self.T_m[s]))

    def gain(self, mu: Float[Array, "n k"]) -> Float[Array, ""]:
        """Ĵ(μ; μ^m) − J^m. Traced by JAX."""
        return jnp.sum(jax.vmap(self.at_state)(jnp.arange(self.mdp.states), jnp.asarray(mu, float)))


def bound(mdp: FiniteMDP, mu_m: Any, shift: float = 0.0) -> Bound:
    """The minoriser of J at μ^m [n, k], for rewards r + shift ≥ 0.

    >>> import jax, jax.numpy as jnp
    >>> mdp = FiniteMDP(
    ...     T=lambda s, a: jax.nn.softmax(jnp.array([1.0, 0.0]) * a[0]),
    ...     r=lambda s, a: s + jnp.exp(-a[0] ** 2),
    ...     b0=[1.0, 0.0], bounds=(-2.0, 2.0), gamma=0.9,
    ... )
    >>> here, there = [[0.0], [0.5]], [[-1.0], [1.0]]
    >>> j_hat = bound(mdp, here)
    >>> bool(abs(j_hat(here) - analyse(mdp, here).J) < 1e-12)
    True
    >>> bool(j_hat(there) <= analyse(mdp, there).J)
    True
    """
    mu_m = mdp.check_policy(mu_m)
    found = tangent(mdp, mu_m, np.asarray(shift, np.float64))
    check_bound(found)
    return found


@in_float64
@eqx.filter_jit
def tangent(mdp: FiniteMDP, mu_m: Array, shift: Array) -> Bound:
    """`bound` without its checks."""
    T, r = mdp.model_under(mu_m)
    shifted = chain(mdp, T, r + shift)
    return Bound(
        mdp=mdp,
        mu_m=jnp.asarray(mu_m),
        shift=jnp.asarray(shift),
        J_m=shifted.d @ r,
        r_m=r,
        T_m=T,
        dJ_domega=shifted.d * (r + shift),
        dJ_dphi=T * shifted.dJ_dT,
    )


@in_float64
@eqx.filter_jit
def evaluate_bound(j_hat: Bound, mu: Float[Array, "n k"]) -> Float[Array, ""]:
    """Ĵ(μ; μ^m) without checks, for `jax.grad` under `jax.enable_x64(True)`."""
    return j_hat.J_m + j_hat.gain(mu)


@in_float64
@eqx.filter_jit
def advance(j_hat: Bound, mu: Float[Array, "n k"]) -> tuple[Float[Array, ""], Bound]:
    """Ĵ(μ; μ^m) and the bound at μ, in one program; without checks."""
    return evaluate_bound(j_hat, mu), tangent(j_hat.mdp, mu, j_hat.shift)


def bound_gradient(
    mdp: FiniteMDP, mu_m: Any, baseline: Float[np.ndarray, " n"] | None = None
) -> Float[np.ndarray, "n k"]:
    """∇_{μ(s)} Ĵ at μ = μ^m for each state, Eq. (24) without the chain rule's last link ∇_θ μ_θ(s):

        d(s) ∇_a r(s, a) + γ Σ_s' d(s) (V(s') − b(s)) ∇_a T(s, a, s')   at a = μ^m(s)

    Any baseline b [n] leaves the sum as it is, because Σ_s' ∇_a T(s, a, s') = 0; over samples of
    s', b = V takes variance away. A shift of the rewards is such a baseline: it changes nothing.
    """
    b = np.zeros(mdp.states) if baseline is None else np.asarray(baseline, np.float64)
    return _bound_gradient(mdp, analyse(mdp, mu_m), b)


@in_float64
@eqx.filter_jit
def _bound_gradient(mdp: FiniteMDP, at: Analysis, baseline: Array) -> Float[Array, "n k"]:
    s = jnp.arange(mdp.states)
    grad_r = jax.vmap(jax.grad(mdp.r, argnums=1))(s, at.mu)
    grad_T = jax.vmap(jax.jacfwd(mdp.T, argnums=1))(s, at.mu)  # [s, s', k]
    worth = at.dJ_dT - (mdp.gamma * at.d * baseline)[:, None]
    return at.d[:, None] * grad_r + jnp.einsum("st,stk->sk", worth, grad_T)


def check_bound(j_hat: Bound) -> None:
    """Raises a `UserError` naming the first state that the theory does not cover at μ^m."""
    mu, T, r = (np.asarray(x) for x in (j_hat.mu_m, j_hat.T_m, j_hat.r_m))
    shift = float(j_hat.shift)
    check_model(mu, T, r)
    negative = np.flatnonzero(r + shift < 0)
    if len(negative):
        s = negative[0]
        raise UserError(
            f"The reward in state {s} at action {np.round(mu[s], 6).tolist()} is {r[s]:.6g}, and "
            f"with the shift {shift:g} it is still negative: the bound takes its logarithm; "
            f"give a shift of {-r[s]:.6g} or more."
        )


def _weighted_log_ratio(weight: Array, x: Array, x_m: Array) -> Array:
    """weight · ln(x / x_m) with 0 · ln 0 = 0, −inf where only x is 0, no NaN in the gradient."""
    counts, possible = weight > 0, x > 0
    log_ratio = jnp.log(jnp.where(possible, x, 1.0)) - jnp.log(jnp.where(counts, x_m, 1.0))
    return jnp.where(counts, jnp.where(possible, weight * log_ratio, -jnp.inf), 0.0)
