"""Rewards in units of the problem's own, where theirs are too large or small to compute with.

Training squares rewards and gradients, which 32 bits bear between some 1e-19 and 1e19. A problem
whose rewards lie far outside of what is usual is trained with rewards divided by a power of two
near their size: exact, so that it is the same problem. Within the band nothing is changed at all.
Tests and returns stay in the user's units.
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ilbo.errors import UserError
from ilbo.mdp import sampling
from ilbo.mdp.bounds import within
from ilbo.mdp.changeable import changeable
from ilbo.mdp.laws.law import Law
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Action, Noise, State
from ilbo.mdp.simulate import draw_noise

BAND = (1e-6, 1e8)
"""Root mean squares of rewards that are left as they are."""
PROBES = 256
LARGEST = float(np.finfo(np.float32).max)


class InUnits(Model):
    """A model whose rewards are divided by a unit, a power of two; all else is the model's own."""

    model: Model
    unit: float = eqx.field(static=True)

    @property
    def law(self) -> Law:
        return self.model.law

    @property
    def sees_time(self) -> bool:
        return self.model.sees_time

    def at(self, time: Any) -> Model:
        return InUnits(self.model.at(time), self.unit) if self.sees_time else self

    def noise(self, key: Key[Array, ""]) -> Noise:
        return self.model.noise(key)

    def transition(self, state: State, action: Action, noise: Noise) -> State:
        return self.model.transition(state, action, noise)

    def reward(self, state: State, action: Action, next_state: State) -> Float[Array, ""]:
        return self.model.reward(state, action, next_state) / self.unit

    def bounds(self, state: State) -> tuple[Action, Action]:
        return self.model.bounds(state)

    def log_density(self, state: State, action: Action, next_state: State) -> Float[Array, ""]:
        return self.model.log_density(state, action, next_state)

    def terminal(self, state: State) -> Bool[Array, ""]:
        return self.model.terminal(state)

    def violations(self, state: State, action: Action) -> Int[Array, ""]:
        return self.model.violations(state, action)

    def costs(self, state: State, action: Action, next_state: State) -> dict[str, Float[Array, ""]]:
        return self.model.costs(state, action, next_state)


def in_units(problem: Problem, unit: float) -> Problem:
    """The problem as training sees it; the problem itself where the unit is 1."""
    if unit == 1:
        return problem
    return eqx.tree_at(lambda p: p.model, problem, InUnits(problem.model, unit))


def is_probed(problem: Problem) -> bool:
    """Whether the size of its rewards has to be found: that of built-in problems is known."""
    return not (problem.origin.kind == "built-in" and problem.is_as_built)


def unit_of(problem: Problem) -> float:
    """The unit of a problem's rewards: 1, or a power of two near their root mean square.

    A `UserError` where the return of an episode is more than 32 bits hold.
    """
    if not is_probed(problem):
        return 1.0
    rewards = np.asarray(_probe_compiled(changeable(problem), jax.random.key(0)), np.float64)
    rewards = rewards[np.isfinite(rewards)]  # training says which are not, and when
    largest = float(np.max(np.abs(rewards), initial=0.0))
    if largest * problem.horizon > LARGEST:
        raise UserError(
            f"Rewards of {problem.name} are as large as {largest:.3g}: the return of "
            f"{problem.horizon} steps is beyond the {LARGEST:.3g} that 32 bits hold; divide the "
            "reward by a large number."
        )
    size = math.sqrt(float(np.mean(rewards**2))) if len(rewards) else 0.0
    if size == 0 or BAND[0] <= size <= BAND[1]:
        return 1.0
    return 2.0 ** min(max(round(math.log2(size)), -126), 126)


def probe_rewards(problem: Problem, key: Key[Array, ""]) -> Float[Array, " probes"]:
    """Rewards of random steps from states of the region."""
    model = problem.model
    key_state, key_action, key_noise = jax.random.split(key, 3)
    states = problem.starts(key_state, (PROBES,))
    units = sampling.uniform(key_action, (PROBES, problem.action_size))
    noise = draw_noise(model, key_noise, (PROBES,))

    def earned(state: State, unit: Action, xi: Noise, time: Int[Array, ""]) -> Float[Array, ""]:
        now = model.at(time)
        action = within(*now.bounds(state), unit)
        return now.reward(state, action, now.transition(state, action, xi))

    return jax.vmap(earned)(states, units, noise, jnp.arange(PROBES) % problem.horizon)


_probe_compiled = eqx.filter_jit(probe_rewards)
