"""A Markov decision process with finitely many states and continuous actions.

States are numbered s = 0 … n − 1. A policy is the table μ [n, k] of the action in each state.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int

from ilbo.errors import UserError
from ilbo.theory.precision import in_float64

SUM_TOLERANCE = 1e-6
"""How far a row of T may be from summing to one: the rounding of tables kept in float32."""


class FiniteMDP(eqx.Module):
    """The tuple (S, A, T, r, γ) with b0; all arrays are float64 NumPy arrays.

    T and r are JAX functions of one state's number and one action [k]. If they are `equinox`
    modules rather than closures, MDPs of one family and size share one compilation.

    >>> import jax, jax.numpy as jnp
    >>> mdp = FiniteMDP(
    ...     T=lambda s, a: jax.nn.softmax(jnp.array([1.0, 0.0]) * a[0]),
    ...     r=lambda s, a: s + jnp.exp(-a[0] ** 2),
    ...     b0=[1.0, 0.0],
    ...     bounds=(-2.0, 2.0),
    ...     gamma=0.9,
    ... )
    >>> mdp.states, mdp.action_size
    (2, 1)
    """

    T: Callable[[Int[Array, ""], Float[Array, " k"]], Float[Array, " n"]]
    """T(s, a) → [n] the probability of each next state."""
    r: Callable[[Int[Array, ""], Float[Array, " k"]], Float[Array, ""]]
    """r(s, a) → the reward; what the bound asks of its sign is said there."""
    b0: Float64[np.ndarray, " n"]
    """Start distribution."""
    gamma: Float64[np.ndarray, ""]
    """Discount."""
    low: Float64[np.ndarray, "n k"]
    """Lowest action in each state; −inf where there is none."""
    high: Float64[np.ndarray, "n k"]
    """Highest action."""
    horizon: int | None = eqx.field(static=True)
    """Number of steps, or None for an infinite horizon."""

    def __init__(
        self,
        T: Callable[[Any, Any], Any],
        r: Callable[[Any, Any], Any],
        b0: Any,
        bounds: tuple[Any, Any],
        gamma: float = 1.0,
        horizon: int | None = None,
    ):
        """Builds the MDP and checks it at the lowest, middle and highest actions.

        Args:
            T: T(s, a) → [n].
            r: r(s, a) → scalar.
            b0: [n] start distribution.
            bounds: (low, high), each a number, [k] or [n, k]; ±inf where there is no bound.
            gamma: In (0, 1); with a horizon, 1 is allowed.
            horizon: Number of steps, or None for the discounted sum without end.
        """
        self.T, self.r = T, r
        self.b0 = _start_distribution(b0)
        self.low, self.high = _bounds(bounds, self.b0.size)
        self.gamma, self.horizon = _discount(gamma, horizon)
        _check_shapes(self)
        for fraction in (0.0, 0.5, 1.0):
            mu = between(*finite_bounds(self), fraction)
            check_model(mu, *model_under(self, mu))

    @property
    def states(self) -> int:
        return self.low.shape[0]

    @property
    def action_size(self) -> int:
        return self.low.shape[1]

    @property
    def total_weight(self) -> float:
        """Σ_t γ^t over the steps: what adding 1 to every reward adds to J."""
        gamma, steps = float(self.gamma), np.inf if self.horizon is None else self.horizon
        return float(steps) if gamma == 1 else (1 - gamma**steps) / (1 - gamma)

    def model_under(
        self, mu: Float[Array, "n k"]
    ) -> tuple[Float[Array, "n n"], Float[Array, " n"]]:
        """T(s, μ(s), ·) [n, n] and r(s, μ(s)) [n]. Traced by JAX."""
        s = jnp.arange(self.states)
        mu = jnp.asarray(mu, float)
        return jax.vmap(self.T)(s, mu), jax.vmap(self.r)(s, mu)

    def check_policy(self, mu: Any) -> Float[np.ndarray, "n k"]:
        """The policy as float64 [n, k] within the bounds, or a `UserError` naming the state."""
        mu = np.asarray(mu, np.float64)
        if mu.shape != self.low.shape:
            raise UserError(
                f"The policy has shape {mu.shape}, but there are {self.states} states with "
                f"{self.action_size} action components each: give shape {self.low.shape}."
            )
        outside = np.argwhere(~((mu >= self.low - 1e-9) & (mu <= self.high + 1e-9)))
        if len(outside):
            s, i = outside[0]
            raise UserError(
                f"The policy's action in state {s} is {mu[s].tolist()}, outside the bounds "
                f"[{self.low[s, i]:g}, {self.high[s, i]:g}] of component {i}."
            )
        return np.clip(mu, self.low, self.high)


def check_model(
    mu: Float[np.ndarray, "n k"], T: Float[np.ndarray, "n n"], r: Float[np.ndarray, " n"]
) -> None:
    """Raises a `UserError` naming the first state where T(s, μ(s), ·) or r(s, μ(s)) is unsound."""
    sums = T.sum(axis=1)
    sound = np.isfinite(r) & (T >= 0).all(axis=1) & (np.abs(sums - 1) <= SUM_TOLERANCE)
    for s in np.flatnonzero(~sound):
        at = f"in state {s} at action {np.round(mu[s], 6).tolist()}"
        if not np.isfinite(T[s]).all():
            raise UserError(f"The transition is not finite {at}: T must return probabilities.")
        if (T[s] < 0).any():
            raise UserError(
                f"The transition {at} gives next state {int(T[s].argmin())} the probability "
                f"{T[s].min():.6g}: probabilities must be at least 0."
            )
        if abs(sums[s] - 1) > SUM_TOLERANCE:
            raise UserError(
                f"The transition {at} sums to {sums[s]:.6g}: T must return probabilities of the "
                "next states that sum to 1."
            )
        if not np.isfinite(r[s]):
            raise UserError(f"The reward is {r[s]} {at}: rewards must be finite numbers.")


@in_float64
@eqx.filter_jit
def model_under(
    mdp: FiniteMDP, mu: Float[Array, "n k"]
) -> tuple[Float[Array, "n n"], Float[Array, " n"]]:
    """`FiniteMDP.model_under`, compiled."""
    return mdp.model_under(mu)


def between(
    low: Float[np.ndarray, "n k"], high: Float[np.ndarray, "n k"], fraction: Any
) -> Float[np.ndarray, "*grid n k"]:
    """The actions at the fraction of the way from low to high."""
    return low + np.asarray(fraction) * (high - low)


def finite_bounds(
    mdp: FiniteMDP,
) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
    """The action bounds, an infinite one replaced by 1 away from the other, or ±1."""
    low, high = mdp.low, mdp.high
    has_low, has_high = np.isfinite(low), np.isfinite(high)
    with np.errstate(invalid="ignore"):
        return (
            np.where(has_low, low, np.where(has_high, high - 1, -1.0)),
            np.where(has_high, high, np.where(has_low, low + 1, 1.0)),
        )


def action_grid(mdp: FiniteMDP, points: int) -> Float[np.ndarray, "grid n k"]:
    """All points^k combinations of equally spaced actions, the bounds among them."""
    if not (np.isfinite(mdp.low).all() and np.isfinite(mdp.high).all()):
        raise UserError("A grid of actions needs finite action bounds in every state.")
    axis = np.linspace(0.0, 1.0, points)
    fractions = np.array(list(itertools.product(axis, repeat=mdp.action_size)))
    return between(mdp.low, mdp.high, fractions[:, None, :])


def lowest_reward(mdp: FiniteMDP, points: int = 33) -> float:
    """min r(s, a) over an action grid: minus this is the least shift that the bound can do with.

    The bounds are on the grid, so this is exact for rewards concave in the action; for others it is
    as good as the grid is fine.
    """
    return float(rewards(mdp, action_grid(mdp, points)).min())


@in_float64
@eqx.filter_jit
def rewards(mdp: FiniteMDP, actions: Float[Array, "grid n k"]) -> Float[Array, "grid n"]:
    s = jnp.arange(mdp.states)
    return jax.vmap(jax.vmap(mdp.r), (None, 0))(s, actions)


def _start_distribution(b0: Any) -> Float[np.ndarray, " n"]:
    b0 = np.asarray(b0, np.float64)
    if b0.ndim != 1 or not b0.size:
        raise UserError(f"The start distribution must be a vector [n], got shape {b0.shape}.")
    bad = np.flatnonzero(~((b0 >= 0) & np.isfinite(b0)))
    if len(bad):
        raise UserError(
            f"The start distribution gives state {bad[0]} the probability {b0[bad[0]]:g}: "
            "probabilities must be at least 0."
        )
    if abs(b0.sum() - 1) > SUM_TOLERANCE:
        raise UserError(f"The start distribution sums to {b0.sum():.6g}: it must sum to 1.")
    return b0


def _bounds(
    bounds: tuple[Any, Any], states: int
) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
    try:
        low, high = (np.atleast_1d(np.asarray(bound, np.float64)) for bound in bounds)
        shape = np.broadcast_shapes((states, 1), low.shape, high.shape)
        low, high = np.broadcast_to(low, shape).copy(), np.broadcast_to(high, shape).copy()
    except (TypeError, ValueError):
        shape = ()
    if len(shape) != 2 or shape[0] != states:
        raise UserError(
            f"The action bounds must be a pair (low, high) of numbers or of arrays [k] or "
            f"[{states}, k]."
        )
    wrong = np.argwhere(~(low <= high))
    if len(wrong):
        s, i = wrong[0]
        raise UserError(
            f"The action bounds of state {s} are [{low[s, i]:g}, {high[s, i]:g}] in component {i}: "
            "the low one must not exceed the high one."
        )
    return low, high


def _discount(gamma: float, horizon: int | None) -> tuple[Float[np.ndarray, ""], int | None]:
    if horizon is None and not 0 < gamma < 1:
        raise UserError(
            f"The discount is {gamma:g}: without a horizon it must lie strictly between 0 and 1; "
            "for an undiscounted sum give a horizon."
        )
    if not 0 < gamma <= 1:
        raise UserError(f"The discount is {gamma:g}: with a horizon it must be in (0, 1].")
    if horizon is not None and horizon < 1:
        raise UserError(f"The horizon must be at least 1 step, got {horizon}.")
    return np.asarray(gamma, np.float64), None if horizon is None else int(horizon)


@in_float64
def _check_shapes(mdp: FiniteMDP) -> None:
    def evaluate(s: Int[Array, ""], a: Float[Array, " k"]) -> tuple[Array, Array]:
        return jnp.asarray(mdp.T(s, a)), jnp.asarray(mdp.r(s, a))

    try:
        T, r = jax.eval_shape(evaluate, jnp.array(0), jnp.zeros(mdp.action_size))
    except (TypeError, ValueError, IndexError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"T or r fails on a state number and an action of size {mdp.action_size}, both traced "
            f"by JAX: {reason}"
        ) from error
    if T.shape != (mdp.states,):
        raise UserError(
            f"T(s, a) returns shape {T.shape}, but the start distribution has {mdp.states} states."
        )
    if r.shape != ():
        raise UserError(f"r(s, a) must return a scalar, got shape {r.shape}.")
