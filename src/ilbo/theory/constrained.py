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
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int
from scipy.optimize import linprog, minimize
from scipy.sparse import coo_array

from ilbo.errors import UserError
from ilbo.theory.maximise import maximise_table
from ilbo.theory.mdp import FiniteMDP, action_grid, model_under, rewards
from ilbo.theory.minoriser import Bound, Together, bound

POINTS = 9
"""Of the grid of actions on which the highest cost is looked for."""
ROOM = 0.1
"""How far above the highest cost its top is put, in units of its range, so that c̄ is not 0."""
MOST = 1e4
"""Largest multiplier, in units of how J compares with the cost: where it is reached, no policy
near keeps the limit, and what is climbed is the cost."""
KEPT = 1e-6
"""By how much of its size a limit may be broken, for rounding."""


def shares(a: Float[Array, " k"]) -> Float[Array, " choices"]:
    """The shares of k + 1 choices from k numbers in [0, 1]: each takes its part of what is left."""
    left = jnp.cumprod(1 - a)
    return jnp.append(a, 1.0) * jnp.append(1.0, left)


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
    actions are the shares in which they are taken: with limits, the best policy may mix."""
    T, r = np.asarray(T, np.float64), np.asarray(r, np.float64)
    k = r.shape[1] - 1
    return FiniteMDP(MixedT(T), Mixed(r), b0, (np.zeros(k), np.ones(k)), gamma)


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
        mu, lam = _best(bounds, needed, lam)
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
    """argmax Ĵ subject to Ĵ_c̄ ≥ needed, and its multipliers, which make Ĵ + Σ λ (Ĵ_c̄ − needed) at
    its maximum smallest."""
    unit = abs(float(bounds[0].at_m.J)) + 1e-9
    sizes = np.abs(needed) + 1e-9

    def dual(x: Float[np.ndarray, " limits"]) -> tuple[float, Float[np.ndarray, " limits"]]:
        mu = maximise_table(Together(bounds, np.append(1.0, x * unit / sizes)))
        T, _ = model_under(bounds[0].mdp, mu)
        values = [b.given(T, model_under(b.mdp, mu)[1]) for b in bounds]
        slack = (np.array(values[1:]) - needed) / sizes
        return values[0] / unit + float(x @ slack), slack

    found = minimize(
        dual,
        lam * sizes / unit,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, MOST)] * len(needed),
        options={"ftol": 1e-15, "gtol": 1e-9},
    )
    lam = found.x * unit / sizes
    return np.asarray(maximise_table(Together(bounds, np.append(1.0, lam)))), lam


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
