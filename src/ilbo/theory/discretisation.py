"""A continuous problem with one state component as a finite MDP, by a Riemann sum.

The interval [a, b] is cut into n parts of width Δ with midpoints x_i. With T̃(x_i, a, x_j) =
T(x_i, a, x_j) Δ the integrals of the continuous objective become the sums of a finite MDP on the
x_i. Each row is divided by its sum, which is 1 but for the sum's error and the mass outside [a, b].
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ilbo.errors import UserError
from ilbo.mdp import density_check
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Problem
from ilbo.theory.mdp import FiniteMDP
from ilbo.theory.precision import in_float64


class RiemannTransition(eqx.Module):
    """T̃(x_i, a, ·), normalised."""

    model: Model
    x: Float[np.ndarray, " n"]
    """Midpoints."""

    def log_density(self, s: Int[Array, ""], a: Float[Array, " k"]) -> Float[Array, " n"]:
        x = jnp.asarray(self.x)
        return jax.vmap(lambda x_j: self.model.log_density(x[s][None], a, x_j[None]))(x)

    def __call__(self, s: Int[Array, ""], a: Float[Array, " k"]) -> Float[Array, " n"]:
        return jax.nn.softmax(self.log_density(s, a))


class RiemannReward(eqx.Module):
    """r(x_i, a) = Σ_j T̃(x_i, a, x_j) r(x_i, a, x_j): the mean, where a reward looks at s'."""

    T: RiemannTransition

    def __call__(self, s: Int[Array, ""], a: Float[Array, " k"]) -> Float[Array, ""]:
        x, model = jnp.asarray(self.T.x), self.T.model
        return self.T(s, a) @ jax.vmap(lambda x_j: model.reward(x[s][None], a, x_j[None]))(x)


class Discretised(eqx.Module):
    """The finite MDP and the midpoints that its states stand for."""

    mdp: FiniteMDP
    x: Float[np.ndarray, " n"]
    """Midpoints x_i."""
    width: float
    """Δ."""

    def mass(self, mu: Any) -> Float[np.ndarray, " n"]:
        """Σ_j T(x_i, μ(x_i), x_j) Δ, which normalising divides by. Far from 1: wrong interval or
        too few points."""
        return _mass(self.mdp.T, self.mdp.check_policy(mu), self.width)

    def table(self, policy: Any) -> Float[np.ndarray, "n k"]:
        """The policy, state [1] → action [k], at the midpoints, clipped into the bounds."""
        mu = jax.vmap(policy)(jnp.asarray(self.x, jnp.float32)[:, None])
        return np.clip(np.asarray(mu, np.float64), self.mdp.low, self.mdp.high)


def discretise(
    problem: Problem, points: int, interval: tuple[float, float] | None = None
) -> Discretised:
    """The problem on `points` midpoints of the interval.

    A problem with a discount below 1 is taken without its horizon, as in the paper's objective; one
    with discount 1 keeps it. A start between two midpoints is shared between them.

    Args:
        problem: One state component, with a density, without terminal states.
        points: n.
        interval: [a, b]; the problem's domain, or its region where that is infinite, if None.
    """
    if problem.state_size != 1:
        raise UserError(
            f"{problem.name} has {problem.state_size} state components: only a problem with one "
            "can be discretised."
        )
    if problem.sees_time:
        raise UserError(f"{problem.name} sees the time: such a problem cannot be discretised.")
    if points < 2:
        raise UserError(f"The number of points must be at least 2, got {points}.")
    density_check.check(problem)
    a, b = _interval(problem, interval)
    width = (b - a) / points
    x = a + width * (np.arange(points) + 0.5)
    low, high, ended = _bounds_and_ends(problem.model, x)
    if ended.any():
        raise UserError(
            f"{problem.name} ends in the state {x[ended][0]:g}: a problem with terminal states "
            "cannot be discretised."
        )
    T = RiemannTransition(problem.model, x)
    mdp = FiniteMDP(
        T=T,
        r=RiemannReward(T),
        b0=_shared(float(problem.initial_state[0]), x, (a, b)),
        bounds=(low, high),
        gamma=problem.discount,
        horizon=problem.horizon if problem.discount == 1 else None,
    )
    return Discretised(mdp, x, width)


def _interval(problem: Problem, interval: tuple[float, float] | None) -> tuple[float, float]:
    if interval is None:
        boxes = (problem.domain, problem.region)
        ends = [(float(low[0]), float(high[0])) for low, high in boxes]
        interval = ends[0] if np.isfinite(ends[0]).all() else ends[1]
    a, b = map(float, interval)
    if not (np.isfinite([a, b]).all() and a < b):
        raise UserError(f"The interval [{a:g}, {b:g}] to discretise must be finite and not empty.")
    return a, b


def _shared(
    start: float, x: Float[np.ndarray, " n"], interval: tuple[float, float]
) -> Float[np.ndarray, " n"]:
    """b0: the start split between its two neighbouring midpoints so that the mean is right."""
    if not interval[0] <= start <= interval[1]:
        raise UserError(
            f"The start state {start:g} lies outside the interval "
            f"[{interval[0]:g}, {interval[1]:g}] to discretise."
        )
    return np.array([np.interp(start, x, unit) for unit in np.eye(len(x))])


@in_float64
@eqx.filter_jit
def _bounds_and_ends(
    model: Model, x: Float[Array, " n"]
) -> tuple[Float[Array, "n k"], Float[Array, "n k"], Bool[Array, " n"]]:
    states = jnp.asarray(x)[:, None]
    low, high = jax.vmap(model.bounds)(states)
    return low, high, jax.vmap(model.terminal)(states)


@in_float64
@eqx.filter_jit
def _mass(T: RiemannTransition, mu: Float[Array, "n k"], width: float) -> Float[Array, " n"]:
    logs = jax.vmap(T.log_density)(jnp.arange(len(T.x)), mu)
    return jnp.exp(jax.scipy.special.logsumexp(logs, axis=1)) * width
