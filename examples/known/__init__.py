"""Problems whose optimum is known: by Riccati's equation, a closed form, dynamic programming on a
grid or linear programming. Each is an ordinary model; `benchmarks/optima.py` plans on all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

import ilbo
from ilbo.baselines import dynamic


@dataclass(frozen=True)
class Truth:
    """What is known about a problem."""

    value: float
    """What the best policy earns in the mean, discounted."""
    source: str
    """How that is known."""
    policy: Any = None
    """A best policy, which may see the time (`timed`), where there is one to write down."""
    error: float = 0.0
    """About how far the value may be off, where it comes from a grid."""


@dataclass(frozen=True)
class Known:
    """A problem and the truth about it."""

    problem: ilbo.Problem
    """What is planned on."""
    truth: Callable[[], Truth]
    """A function, since dynamic programming takes its time."""
    judged: ilbo.Problem | None = None
    """The same with the horizon that policies are judged on, where it is a longer one: a discounted
    problem without an end is planned on its first steps."""
    episodes: int = 16384
    """That policies are judged on."""

    @property
    def judge(self) -> ilbo.Problem:
        return self.problem if self.judged is None else self.judged


def by_grid(
    problem: ilbo.Problem, grids: tuple[int, int], box: Any, noises: int, stationary: bool = False
) -> Truth:
    """By dynamic programming on two grids; their difference is the error."""
    coarse, fine = (dynamic.solve(problem, points, box, noises) for points in grids)
    start, horizon = problem.initial_state, problem.horizon
    value = float(fine.value(start, horizon))
    return Truth(
        value,
        "dynamic programming",
        table_of(fine, horizon) if stationary else fine,
        abs(value - float(coarse.value(start, horizon))),
    )


class FromTable(eqx.Module):
    """The best actions at the points of a grid, and between them by interpolation."""

    grid: dynamic.Grid
    tables: Float[Array, "horizon m wide"]
    """By the steps left, less one."""
    model: ilbo.Model
    left: int | None = eqx.field(static=True, default=None)
    """As if so many steps were always left; None: it sees the time."""

    @property
    def timed(self) -> bool:
        return self.left is None

    def __call__(self, state, time=None):
        left = len(self.tables) - time if self.left is None else self.left
        rows = self.tables[left - 1]
        action = jnp.stack([self.grid.interpolate(row, state) for row in rows])
        return jnp.clip(action, *self.model.bounds(state))


def table_of(found: dynamic.GridPolicy, left: int | None = None) -> FromTable:
    """The actions of dynamic programming as a quick policy."""
    per_step = jnp.swapaxes(found.actions, 1, 2)  # [horizon, m, all]
    if left is not None:
        per_step = per_step[left - 1 : left]
    wide = [[found.grid.with_margin(row) for row in rows] for rows in per_step]
    tables = jnp.stack([jnp.stack(rows) for rows in wide])
    return FromTable(found.grid, tables, found.ahead.model, None if left is None else 1)
