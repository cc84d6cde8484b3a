"""What trainers that go on update by update share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from ilbo.mdp.problem import Problem
from ilbo.planning.trainer import Metrics


def repeat(
    update: Callable[[Any], tuple[Any, Metrics]], state: Any, times: Int[Array, ""], unit: float
) -> tuple[Any, Metrics]:
    """The state after so many updates, and the means of their metrics in the reward's own units."""

    def one(_: Array, carry: tuple[Any, Metrics]) -> tuple[Any, Metrics]:
        state, sums = carry
        state, metrics = update(state)
        return state, jax.tree.map(jnp.add, sums, metrics)

    state, sums = jax.lax.fori_loop(0, times, one, (state, Metrics.zeros()))
    return state, jax.tree.map(lambda total: total / times, sums).in_reward_units(unit)


def not_finite(
    problem: Problem, fault: Int[Array, ""], what: str, number: Int[Array, ""]
) -> str | None:
    """Why training stopped, where a fault was noted."""
    if int(fault) == 0:
        return None
    return (
        f"The return or its gradient is not finite at {what} {int(number)} of "
        f"{problem.name}: training stopped and the last good policy is kept."
    )
