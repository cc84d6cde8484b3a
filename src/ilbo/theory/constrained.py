"""Minorise-maximise under limits on costs, and the linear program that it is checked against.

A cost c with a limit C(μ) = E Σ γ^t c ≤ d is a reward in disguise: with c̄ = top − c ≥ 0, the limit
says J_c̄(μ) ≥ top Σ γ^t − d, and J_c̄ has a minoriser like any objective. So each iteration solves

    μ^{m+1} = argmax_μ Ĵ(μ; μ^m)   subject to   Ĵ_c̄(μ; μ^m) ≥ top Σ γ^t − d   for each cost.

The bounds lie below and touch at μ^m. So what keeps the limits goes on keeping them, J never
decreases, and where the iteration rests, its multipliers are those of the limits themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int
from scipy.optimize import linprog
from scipy.sparse import coo_array

from ilbo.errors import UserError
from ilbo.theory.maximise import maximise_table
from ilbo.theory.mdp import FiniteMDP, action_grid, model_under, rewards
from ilbo.theory.minoriser import Bound, Together, bound

EDGE = 12.0
"""Largest logarithm of a share against another: what is never taken has e⁻¹² of it."""
POINTS = 5
"""Of the grid of actions on which the highest cost is looked for."""
ROOM = 0.1
"""How far above the highest cost its top is put, in units of its range, so that c̄ is not 0."""
MOST = 1e4
"""Largest multiplier, in units of how J compares with the cost: where it is reached, no policy
near keeps the limit, and what is climbed is the cost."""
CLOSE = 1e-9
"""What may be to spare of a limit whose multiplier is not 0, in units of its size."""
SWEEPS = 30
KEPT = 1e-6
"""By how much of its size a limit may be broken, for rounding."""


def shares(a: Float[Array, " k"]) -> Float[Array, " choices"]:
    """The shares of k + 1 choices, from logarithms of what k of them have against the last."""
    return jax.nn.softmax(jnp.append(a, 0.0))


class MixedT(eqx.Module):
    """T(s, a, ·) of a mixture of finitely many choices."""

    T: Float64[np.ndarray, "n choices n"]

    def __call__(self, s: Int[Array, ""], a: Float[Array, " k"]) -> Float[Array, " n"]:
        return shares(a) @ jnp.asarray(self.T)[s]


class Mixed(eqx.Module):
    """r(s, a), or a cost, of a mixture of finitely many choices."""

    r: Float64[np.ndarray, "n choices"]

    def __call__(self, s: Int[Array, ""], a: Float[Array, " k"]) -> Float[Array, ""]:
        return shares(a) @ jnp.asarray(self.r)[s]


def mixture(T: Any, r: Any, b0: Any, gamma: float) -> FiniteMDP:
    """The MDP with finitely many choices in each state, T [n, choices, n] and r [n, choices], whose
    actions say in which shares they are taken: with limits, the best policy may mix."""
    T, r = np.asarray(T, np.float64), np.asarray(r, np.float64)
    k = r.shape[1] - 1
    return FiniteMDP(MixedT(T), Mixed(r), b0, (np.full(k, -EDGE), np.full(k, EDGE)), gamma)


class Below(eqx.Module):
    """c̄ = top − c."""

    cost: Callable[[Any, Any], Any]
    top: Float64[np.ndarray, ""]

    def __call__(self, s: Int[Array, ""], a: Float[Array, " k"]) -> Float[Array, ""]:
        return self.top - self.cost(s, a)


@dataclass(frozen=True)
class ConstrainedHistory:
    """A run of M iterations; entry m of `multipliers` is of that from μ^m to μ^{m+1}."""

    mu: Float[np.ndarray, "policies n k"]
    J: Float[np.ndarray, " policies"]
    """J(μ^m): never decreases once the limits are kept."""
    costs: Float[np.ndarray, "policies limits"]
    """C(μ^m)."""
    multipliers: Float[np.ndarray, "iterations limits"]
    """λ of the limits on the bounds; at the limit of the iteration, those of the limits."""
    converged: bool
    """Whether the last step was within the tolerance."""


def iterate_constrained(
    mdp: FiniteMDP,
    costs: Sequence[Callable[[Any, Any], Any]],
    at_most: Any,
    start: Any,
    *,
    shift: float = 0.0,
    tolerance: float = 1e-6,
    max_iterations: int = 2_000,
) -> ConstrainedHistory:
    """Iterates the constrained bound until no action moves by more than `tolerance`.

    Args:
        mdp: What to solve.
        costs: c(s, a) of each limit, such as r of the MDP.
        at_most: d [limits], for E Σ γ^t c.
        start: μ^0 [n, k]; it need not keep the limits.
        shift: c ≥ −min r, so that the bound can take the logarithm of r + c.
        tolerance: The step at which to stop.
        max_iterations: Where to stop at the latest.

    A `UserError` where it ends at a policy that breaks a limit, with the least found.
    """
    limits = np.asarray(at_most, np.float64).reshape(len(costs))
    total = mdp.total_weight
    grid = action_grid(mdp, POINTS)
    below = []
    for cost in costs:
        values = rewards(eqx.tree_at(lambda m: m.r, mdp, cost), grid)
        top = values.max() + ROOM * (values.max() - values.min()) + 1e-9
        below.append(eqx.tree_at(lambda m: m.r, mdp, Below(cost, np.asarray(top))))
    tops = np.array([float(one.r.top) for one in below])
    needed = tops * total - limits
    mu = mdp.check_policy(start)
    lam = np.zeros(len(costs))
    mus, J, spent = [mu], [], []
    lams: list[np.ndarray] = []
    converged = False
    while True:
        bounds = (bound(mdp, mu, shift), *(bound(one, mu) for one in below))
        J.append(float(bounds[0].at_m.J))
        spent.append(tops * total - np.array([float(b.at_m.J) for b in bounds[1:]]))
        if converged or len(lams) == max_iterations:
            break
        mu, lam = _best(bounds, needed, lam.copy())
        converged = float(np.abs(mu - mus[-1]).max()) <= tolerance
        mus.append(mu)
        lams.append(lam)
    over = spent[-1] - limits
    for i in np.flatnonzero(over > KEPT * (1 + np.abs(needed)))[:1]:
        raise UserError(
            f"No policy was found that keeps limit {i + 1}: the least found is {spent[-1][i]:.6g}, "
            f"and {limits[i]:.6g} is allowed."
        )
    return ConstrainedHistory(
        np.stack(mus), np.array(J), np.array(spent), np.array(lams), converged
    )


def _best(
    bounds: tuple[Bound, ...],
    needed: Float[np.ndarray, " limits"],
    lam: Float[np.ndarray, " limits"],
) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, " limits"]]:
    """argmax Ĵ subject to Ĵ_c̄ ≥ needed, and its multipliers.

    What is to spare of a limit grows with its own multiplier, so that each has its root where the
    others stand; they are found in turns, from those of the last step.
    """
    unit = (abs(float(bounds[0].at_m.J)) + 1e-9) / (np.abs(needed) + 1e-9)

    def best(lam: Float[np.ndarray, " limits"]) -> Float[np.ndarray, "n k"]:
        return np.asarray(maximise_table(Together(bounds, np.append(1.0, lam))))

    def spare(lam: Float[np.ndarray, " limits"]) -> Float[np.ndarray, " limits"]:
        mu = best(lam)
        T, _ = model_under(bounds[0].mdp, mu)
        values = [b.given(T, model_under(b.mdp, mu)[1]) for b in bounds[1:]]
        return (np.array(values) - needed) / (1 + np.abs(needed))

    for _ in range(SWEEPS):
        for i in range(len(lam)):

            def along(x: float, i: int = i) -> float:
                return float(spare(np.where(np.arange(len(lam)) == i, x, lam))[i])

            lam[i] = _root(along, float(lam[i]), float(unit[i]))
        left = spare(lam)
        if (left >= -CLOSE).all() and (lam * left <= CLOSE * unit).all():
            break
    return best(lam), lam


def _root(along: Callable[[float], float], x: float, unit: float) -> float:
    """The least x ≥ 0 at which a growing function is not negative, from near x."""
    here = along(x)
    if (0 <= here <= CLOSE) or (x == 0 and here >= 0):
        return x
    width = max(0.1 * x, 1e-3 * unit)
    low, high, below, above = x, x, here, here
    while above < 0 and high < MOST * unit:
        low, below, high = high, above, high + width
        above, width = along(high), 3 * width
    while below >= 0 and low > 0:
        high, above, low = low, below, max(low - width, 0.0)
        below, width = along(low), 3 * width
    if below >= 0 or above < 0:
        return low if below >= 0 else high
    for i in range(60):  # regula falsi, and halves now and then
        share = 0.5 if i % 3 == 2 else -below / (above - below)
        middle = low + share * (high - low)
        there = along(middle)
        low, below = (middle, there) if there < 0 else (low, below)
        high, above = (middle, there) if there >= 0 else (high, above)
        if above <= CLOSE or high - low <= 1e-12 * high:
            break
    return high


def linear_program(
    T: Any, r: Any, costs: Any, at_most: Any, b0: Any, gamma: float
) -> tuple[float, Float[np.ndarray, "n choices"], Float[np.ndarray, " limits"]]:
    """The constrained optimum of an MDP with finitely many choices, by its occupancies.

    max Σ r x subject to Σ_a x(s', a) − γ Σ_{s,a} T(s, a, s') x(s, a) = b0(s'), Σ c x ≤ d, x ≥ 0.

    Args:
        T: [n, choices, n].
        r: [n, choices].
        costs: [limits, n, choices].
        at_most: d [limits].
        b0: [n].
        gamma: Discount.

    Returns the optimum, the shares of the choices in each state, and the multipliers.
    """
    T, r = np.asarray(T, np.float64), np.asarray(r, np.float64)
    n, m = r.shape
    c = np.asarray(costs, np.float64).reshape(-1, n * m)
    own = coo_array((np.ones(n * m), (np.repeat(np.arange(n), m), np.arange(n * m))), (n, n * m))
    flow = own.toarray() - gamma * T.reshape(n * m, n).T
    found = linprog(
        -r.ravel(), A_ub=c, b_ub=np.asarray(at_most), A_eq=flow, b_eq=b0, method="highs"
    )
    if not found.success:
        raise UserError(f"The linear program has no optimum: {found.message}")
    x = found.x.reshape(n, m)
    visits = x.sum(axis=1, keepdims=True)
    split = np.where(visits > 1e-12, x / np.maximum(visits, 1e-12), 1 / m)
    return -float(found.fun), split, -np.asarray(found.ineqlin.marginals)
