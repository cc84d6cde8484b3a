"""Occupancy, value and objective of a policy, exactly, by linear algebra."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float64

from ilbo.theory.mdp import FiniteMDP, check_model
from ilbo.theory.precision import Doubles, in_float64

Later = tuple[Float64[Array, " n"], Float64[Array, ""]]
"""The value of each state at the next step, and Σ γ^i over the steps from there."""


class Chain(eqx.Module):
    """What follows from the transition matrix and the rewards that a policy makes."""

    d: Float64[Array, " n"]
    """Occupancy d(s) = Σ_t γ^t p(s_t = s)."""
    V: Float64[Array, " n"]
    """Value V(s) at time 0."""
    J: Float64[Array, ""]
    """Objective J = Σ_s b0(s) V(s)."""
    dJ_dT: Float64[Array, "n n"]
    """∂J/∂T(s, s'), each entry of T a free variable: Σ_t γ^(t+1) p(s_t = s) V_{t+1}(s').

    Without a horizon V_{t+1} is V at every t, and this is γ d(s) V(s').
    """
    per_shift: Float64[Array, " n"]
    """What a row of `dJ_dT` grows by when 1 is added to every reward."""


class Analysis(eqx.Module):
    """All there is to know about one policy. NumPy arrays in float64."""

    mu: Float64[Doubles, "n k"]
    T: Float64[Doubles, "n n"]
    """T(s, μ(s), s')."""
    r: Float64[Doubles, " n"]
    """r(s, μ(s))."""
    d: Float64[Doubles, " n"]
    V: Float64[Doubles, " n"]
    J: Float64[Doubles, ""]
    dJ_dT: Float64[Doubles, "n n"]
    per_shift: Float64[Doubles, " n"]

    @property
    def dJ_domega(self) -> Float64[Doubles, " n"]:
        """∂J/∂ω(s) = d(s) r(s, μ(s)): Eq. (18)."""
        return self.d * self.r

    @property
    def dJ_dphi(self) -> Float64[Doubles, "n n"]:
        """∂J/∂φ(s, s') = γ d(s) T(s, μ(s), s') V(s'): Eq. (19), or its sum over a horizon."""
        return self.T * self.dJ_dT


def chain(mdp: FiniteMDP, T: Float[Array, "n n"], r: Float[Array, " n"]) -> Chain:
    """Solves the Markov chain with rewards (T, r) started in b0. Traced by JAX."""
    b0, gamma = jnp.asarray(mdp.b0), jnp.asarray(mdp.gamma)
    if mdp.horizon is None:
        visits = jnp.linalg.inv(jnp.eye(mdp.states) - gamma * T)
        d, V = b0 @ visits, visits @ r
        return Chain(d, V, b0 @ V, jnp.outer(gamma * d, V), gamma * d / (1 - gamma))

    def forwards(p: Float[Array, " n"], _: None) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        return gamma * p @ T, p

    def backwards(following: Later, _: None) -> tuple[Later, Later]:
        V, weight = following
        return (r + gamma * T @ V, 1 + gamma * weight), following

    _, p = jax.lax.scan(forwards, b0, length=mdp.horizon)
    # p[t] = γ^t p(s_t = ·), later[t] = V_{t+1}, weight[t] = Σ γ^i over the steps after t; after the
    # last step nothing follows.
    last = jnp.zeros_like(b0), jnp.zeros(())
    (V, _), (later, weight) = jax.lax.scan(backwards, last, length=mdp.horizon, reverse=True)
    moved = gamma * p.T
    return Chain(p.sum(axis=0), V, b0 @ V, moved @ later, moved @ weight)


@in_float64
@eqx.filter_jit
def objective(mdp: FiniteMDP, mu: Float[Array, "n k"]) -> Float[Array, ""]:
    """J(μ), Eq. (1). To differentiate it, call `jax.grad` under `jax.enable_x64(True)`."""
    return chain(mdp, *mdp.model_under(mu)).J


@in_float64
@eqx.filter_jit
def objective_of_logs(
    mdp: FiniteMDP, omega: Float[Array, " n"], phi: Float[Array, "n n"]
) -> Float[Array, ""]:
    """J(ω, φ), Eq. (8): the objective as a convex function of ω = ln r and φ = ln T."""
    return chain(mdp, jnp.exp(phi), jnp.exp(omega)).J


def analyse(mdp: FiniteMDP, mu: Any) -> Analysis:
    """Occupancy, value, objective and gradients of the policy μ [n, k].

    >>> import jax.numpy as jnp
    >>> stay = FiniteMDP(
    ...     T=lambda s, a: jnp.eye(2)[s], r=lambda s, a: 3.0 + a[0],
    ...     b0=[0.5, 0.5], bounds=(0.0, 1.0), gamma=0.75,
    ... )
    >>> result = analyse(stay, [[0.0], [1.0]])
    >>> result.V.round(6).tolist(), result.d.round(6).tolist(), round(float(result.J), 6)
    ([12.0, 16.0], [2.0, 2.0], 14.0)
    """
    mu = mdp.check_policy(mu)
    found = analyse_unchecked(mdp, mu)
    check_model(mu, found.T, found.r)
    return found


@in_float64
@eqx.filter_jit
def analyse_unchecked(mdp: FiniteMDP, mu: Float[Array, "n k"]) -> Analysis:
    T, r = mdp.model_under(mu)
    found = chain(mdp, T, r)
    return Analysis(jnp.asarray(mu), T, r, found.d, found.V, found.J, found.dJ_dT, found.per_shift)
