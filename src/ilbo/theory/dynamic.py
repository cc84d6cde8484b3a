"""The optimum by dynamic programming, independent of the bound: a check on it."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ilbo.errors import UserError
from ilbo.theory.mdp import FiniteMDP, action_grid
from ilbo.theory.precision import in_float64
from ilbo.theory.values import analyse


def value_iteration(
    mdp: FiniteMDP, points: int = 101, tolerance: float = 1e-12
) -> tuple[Float[np.ndarray, "n k"], float]:
    """The best table over a grid of points^k actions in each state: (μ* [n, k], J(μ*))."""
    if mdp.horizon is not None:
        raise UserError(
            "value_iteration needs an MDP without a horizon: with one, the best policy changes "
            "with time and is no table μ(s)."
        )
    actions = action_grid(mdp, points)
    choice = _value_iteration(mdp, actions, tolerance)
    mu = actions[choice, np.arange(mdp.states)]
    return mu, float(analyse(mdp, mu).J)


@in_float64
@eqx.filter_jit
def _value_iteration(
    mdp: FiniteMDP, actions: Float[Array, "grid n k"], tolerance: float
) -> Int[Array, " n"]:
    T, r = jax.vmap(mdp.model_under)(actions)  # [grid, s, s'], [grid, s]

    def sweep(carry: tuple[Float[Array, " n"], Float[Array, ""]]) -> tuple[Array, Array]:
        V, _ = carry
        better = jnp.max(r + mdp.gamma * T @ V, axis=0)
        return better, jnp.max(jnp.abs(better - V))

    def moving(carry: tuple[Float[Array, " n"], Float[Array, ""]]) -> Bool[Array, ""]:
        return carry[1] > tolerance * (1 + jnp.max(jnp.abs(carry[0])))

    V, _ = jax.lax.while_loop(moving, sweep, (jnp.zeros(mdp.states), jnp.array(jnp.inf)))
    return jnp.argmax(r + mdp.gamma * T @ V, axis=0)
