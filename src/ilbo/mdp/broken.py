"""Which constraints were broken in simulated episodes, how often, and where first."""

from __future__ import annotations

import re
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Array, Int

from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Action, State
from ilbo.mdp.simulate import Trajectories

SHOWN = 6
"""Components of a state or an action that a sentence names."""


@dataclass(frozen=True)
class Broken:
    """A constraint that was broken."""

    constraint: str
    times: int
    """How often, over all episodes, steps and objects that it speaks of."""
    episodes: int
    """In how many episodes."""
    step: int
    """The step, counted from 1, of the first episode that broke it, and what was there."""
    state: dict[str, float]
    action: dict[str, float]

    @property
    def sentence(self) -> str:
        """Counts, and the components of the first state and action that the constraint names."""
        named = {
            name: value
            for name, value in {**self.state, **self.action}.items()
            if re.search(rf"(?<![\w-]){re.escape(name.split('(')[0])}(?![\w-])", self.constraint)
        }
        shown = [f"{name} = {value:.4g}" for name, value in named.items()][:SHOWN]
        more = [f"and {len(named) - SHOWN} more"] if len(named) > SHOWN else []
        where = f" with {', '.join(shown + more)}" if shown else ""
        return (
            f"{self.constraint}: {self.times:,} times, in {self.episodes:,} episodes; "
            f"first in step {self.step}{where}"
        )


def broken_constraints(problem: Problem, trajectories: Trajectories) -> tuple[Broken, ...]:
    """The constraints that the episodes broke, those broken most often first."""
    model = problem.exact
    constraints = model.constraints()
    if not constraints or not np.any(trajectories.violations):
        return ()

    def count(state: State, action: Action) -> Int[Array, " constraints"]:
        return model.broken(state, action)

    states, actions = trajectories.states[:, :-1], trajectories.actions
    counts = np.asarray(jax.jit(jax.vmap(jax.vmap(count)))(states, actions))
    counts = counts * np.asarray(trajectories.alive)[..., None]
    found = []
    for constraint, each in zip(constraints, np.moveaxis(counts, -1, 0), strict=True):
        if not each.any():
            continue
        episode, step = np.argwhere(each)[0]
        found.append(
            Broken(
                constraint,
                times=int(each.sum()),
                episodes=int(each.any(axis=1).sum()),
                step=int(step) + 1,
                state=_named(problem.state_names, states[episode, step]),
                action=_named(problem.action_names, actions[episode, step]),
            )
        )
    return tuple(sorted(found, key=lambda broken: -broken.times))


def _named(names: tuple[str, ...], vector: Array) -> dict[str, float]:
    return dict(zip(names, np.asarray(vector, float).tolist(), strict=True))
