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
from jaxtyping import Array, Float, Float64, Int

from ilbo.errors import UserError
from ilbo.theory.mdp import FiniteMDP, check_model, model_under
from ilbo.theory.precision import Doubles, in_float64
from ilbo.theory.values import Analysis, analyse, analyse_unchecked


class Bound(eqx.Module):
    """Ĵ(·; μ^m): call it with a policy μ [n, k]. Made by `bound`."""

    mdp: FiniteMDP
    at_m: Analysis
    """The policy μ^m, its model, occupancy and value; without the shift."""
    shift: Float64[Doubles, ""]
    """c, added to every reward so that none is negative."""

    @property
    def dJ_domega(self) -> Float64[Doubles, " n"]:
        """∂J/∂ω(s) at μ^m for the rewards r + c."""
        return self.at_m.d * (self.at_m.r + self.shift)

    @property
    def dJ_dphi(self) -> Float64[Doubles, "n n"]:
        """∂J/∂φ(s, s') at μ^m for the rewards r + c."""
        return self.at_m.T * (self.at_m.dJ_dT + self.shift * self.at_m.per_shift[:, None])

    def __call__(self, mu: Any) -> float:
        """Ĵ(μ; μ^m). −inf where μ makes impossible what μ^m makes possible and worth something."""
        mu = self.mdp.check_policy(mu)
        T, r = model_under(self.mdp, mu)
        check_rewards(mu, T, r, self.shift)
        return self.given(T, r)

    def given(self, T: Any, r: Any) -> float:
        """Ĵ at a policy that makes the transition matrix T [n, n] and the rewards r [n]."""
        c, m = self.shift, self.at_m
        omega = _weighted_log_ratio(self.dJ_domega, r + c, m.r + c, np)
        phi = _weighted_log_ratio(self.dJ_dphi, T, m.T, np)
        return float(m.J + omega.sum() + phi.sum())

    def at_state(self, s: Int[Array, ""], a: Float[Array, " k"]) -> Float[Array, ""]:
        """The part of Ĵ − J^m that the action a [k] in state s decides. Traced by JAX."""
        c, m = self.shift, self.at_m
        omega = _weighted_log_ratio(self.dJ_domega[s], self.mdp.r(s, a) + c, m.r[s] + c)
        phi = _weighted_log_ratio(self.dJ_dphi[s], self.mdp.T(s, a), m.T[s])
        return omega + jnp.sum(phi)

    def gain(self, mu: Float[Array, "n k"]) -> Float[Array, ""]:
        """Ĵ(μ; μ^m) − J^m. Traced by JAX."""
        return jnp.sum(jax.vmap(self.at_state)(jnp.arange(self.mdp.states), jnp.asarray(mu, float)))


class Together(eqx.Module):
    """Σ w Ĵ of several objectives that share T and μ^m: what `maximise_table` takes of a bound."""

    bounds: tuple[Bound, ...]
    weights: Float64[Doubles, " bounds"]

    @property
    def mdp(self) -> FiniteMDP:
        return self.bounds[0].mdp

    @property
    def at_m(self) -> Analysis:
        return self.bounds[0].at_m

    @property
    def dJ_domega(self) -> Float64[Doubles, " n"]:
        return sum(w * b.dJ_domega for w, b in zip(self.weights, self.bounds, strict=True))

    @property
    def dJ_dphi(self) -> Float64[Doubles, "n n"]:
        return sum(w * b.dJ_dphi for w, b in zip(self.weights, self.bounds, strict=True))

    def at_state(self, s: Int[Array, ""], a: Float[Array, " k"]) -> Float[Array, ""]:
        parts = zip(self.weights, self.bounds, strict=True)
        return sum(w * b.at_state(s, a) for w, b in parts)


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
    at_m = analyse_unchecked(mdp, mu_m)
    check_rewards(mu_m, at_m.T, at_m.r, shift)
    return Bound(mdp, at_m, np.asarray(shift, np.float64))


@in_float64
@eqx.filter_jit
def evaluate_bound(j_hat: Bound, mu: Float[Array, "n k"]) -> Float[Array, ""]:
    """Ĵ(μ; μ^m) without checks, for `jax.grad` under `jax.enable_x64(True)`."""
    return jnp.asarray(j_hat.at_m.J) + j_hat.gain(mu)


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
def _bound_gradient(
    mdp: FiniteMDP, at: Analysis, baseline: Float[Array, " n"]
) -> Float[Array, "n k"]:
    s = jnp.arange(mdp.states)
    grad_r = jax.vmap(jax.grad(mdp.r, argnums=1))(s, at.mu)
    grad_T = jax.vmap(jax.jacfwd(mdp.T, argnums=1))(s, at.mu)  # [s, s', k]
    worth = at.dJ_dT - (mdp.gamma * at.d * baseline)[:, None]
    return at.d[:, None] * grad_r + jnp.einsum("st,stk->sk", worth, grad_T)


def check_rewards(
    mu: Float[np.ndarray, "n k"],
    T: Float[np.ndarray, "n n"],
    r: Float[np.ndarray, " n"],
    shift: Any,
) -> None:
    """Raises a `UserError` naming the first state where the theory does not cover μ."""
    check_model(mu, T, r)
    negative = np.flatnonzero(r + shift < 0)
    if len(negative):
        s = negative[0]
        raise UserError(
            f"The reward in state {s} at action {np.round(mu[s], 6).tolist()} is {r[s]:.6g}, and "
            f"with the shift {float(shift):g} it is still negative: the bound takes its logarithm; "
            f"give a shift of {-r[s]:.6g} or more."
        )


def _weighted_log_ratio(weight: Any, x: Any, x_m: Any, xp: Any = jnp) -> Any:
    """weight · ln(x / x_m) with 0 · ln 0 = 0, −inf where only x is 0, no NaN in the gradient."""
    counts, possible = weight > 0, x > 0
    log_ratio = xp.log(xp.where(possible, x, 1.0)) - xp.log(xp.where(counts, x_m, 1.0))
    return xp.where(counts, xp.where(possible, weight * log_ratio, -xp.inf), 0.0)
