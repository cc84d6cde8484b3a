"""What simulated episodes cost, and whether they keep the limits of their problem."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ilbo.mdp.bootstrap import bootstrap
from ilbo.mdp.limits import Limit, Tally
from ilbo.mdp.model import Model
from ilbo.mdp.numbers import precise, precise_interval
from ilbo.mdp.problem import Problem
from ilbo.mdp.simulate import Trajectories
from ilbo.mdp.uncertain import Uncertain

ERRORS = 1.96
"""Standard errors of a 95 % interval."""


@dataclass(frozen=True)
class Spent:
    """What episodes cost of one kind."""

    cost: str
    mean: float
    """Mean over episodes of the sum over their steps, whatever the discount."""
    ci95: tuple[float, float]
    worst_step: float
    """Mean over episodes of the highest cost of a step."""


@dataclass(frozen=True)
class Keeping:
    """How a limit is kept."""

    limit: str
    value: float
    """What is limited: a mean, the mean at the worst step, or a share of the episodes."""
    ci95: tuple[float, float]
    """Of a share, Wilson's."""
    allowed: float
    step: int | None
    """The worst step, counted from 1, where each has a limit."""

    @property
    def kept(self) -> bool:
        """Whether the upper end of the interval keeps it."""
        return self.ci95[1] <= self.allowed

    @property
    def sentence(self) -> str:
        verdict = "kept" if self.kept else "broken" if self.value > self.allowed else "not surely"
        where = "" if self.step is None else f" at step {self.step}, the worst"
        figures = f"{precise(self.value)}{where}   95 % {precise_interval(*self.ci95)}"
        return f"{self.limit}: {verdict}, {figures}"


def spending(
    problem: Problem, trajectories: Trajectories
) -> tuple[tuple[Spent, ...], tuple[Keeping, ...]]:
    """Of all costs of the model, and of all limits of the problem."""
    names = problem.cost_names
    if not names:
        return (), ()
    found = costs_of(problem, trajectories)
    alive = np.asarray(trajectories.alive)
    spent = []
    for name in names:
        sums = np.where(alive, found[name], 0.0).sum(axis=1)
        worst = np.where(alive, found[name], -np.inf).max(axis=1)
        spent.append(Spent(name, float(sums.mean()), bootstrap(sums), float(_finite(worst).mean())))
    return tuple(spent), tuple(_keeping(one, found[one.cost], alive) for one in problem.limits)


def _keeping(
    limit: Limit,
    costs: Float[np.ndarray, "b horizon"],
    alive: Bool[np.ndarray, "b horizon"],
) -> Keeping:
    samples = np.asarray(limit.samples(costs, alive), np.float64)
    tally = Tally.of(samples)
    low, high = (np.asarray(end) for end in limit.ends(tally, ERRORS))
    at = int(np.argmax(high))
    ends = float(low[at]), float(high[at])
    if not (limit.of_chance or limit.of_steps):
        ends = bootstrap(samples[:, 0])
    step = at + 1 if limit.of_steps else None
    return Keeping(str(limit), float(tally.mean[at]), ends, float(limit.allowed), step)


def _finite(worst: Float[np.ndarray, " b"]) -> Float[np.ndarray, " b"]:
    """An episode that ends where it starts costs nothing."""
    return np.where(np.isfinite(worst), worst, 0.0)


def costs_of(
    problem: Problem, trajectories: Trajectories
) -> dict[str, Float[np.ndarray, "b horizon"]]:
    """The costs of each step, by name."""
    drawn = trajectories.drawn
    uncertain = problem.uncertain
    if uncertain is None or drawn is None:
        drawn, uncertain = jnp.zeros((len(trajectories.actions), 0)), None
    states = trajectories.states
    found = _costs(
        problem.exact, uncertain, drawn, states[:, :-1], trajectories.actions, states[:, 1:]
    )
    return {name: np.asarray(costs, np.float64) for name, costs in found.items()}


@eqx.filter_jit
def _costs(
    model: Model,
    uncertain: Uncertain | None,
    drawn: Float[Array, "b j"],
    states: Float[Array, "b horizon n"],
    actions: Float[Array, "b horizon m"],
    following: Float[Array, "b horizon n"],
) -> dict[str, Float[Array, "b horizon"]]:
    def episode(drawn: Array, *path: Array) -> dict[str, Array]:
        here = model if uncertain is None else uncertain.put_into(model, drawn)

        def one(time: Array, *step: Array) -> dict[str, Array]:
            return here.at(time).costs(*step)

        return jax.vmap(one)(jnp.arange(len(path[1])), *path)

    return jax.vmap(episode)(drawn, states, actions, following)
