"""Policies that need no training: random, the midpoint, nothing, the model's own controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ilbo.mdp import sampling
from ilbo.mdp.bounds import within
from ilbo.mdp.model import Model
from ilbo.mdp.shapes import Action, PolicyFunction, State


class OfModel(eqx.Module):
    """What a model makes plain; it sees the time where the model does."""

    model: Model

    @property
    def timed(self) -> bool:
        return self.model.sees_time


class Midpoint(OfModel):
    """The middle of the action bounds; where one is infinite, the other; where both are, 0."""

    def __call__(self, state: State, time: Any = None) -> Action:
        low, high = self.model.at(time).bounds(state)
        return within(low, high, 0.5)


class Hold(OfModel):
    """Nothing, or as little as may be: the action in the bounds that is nearest to 0."""

    def __call__(self, state: State, time: Any = None) -> Action:
        low, high = self.model.at(time).bounds(state)
        return jnp.clip(jnp.zeros_like(low), low, high)


class Random(OfModel):
    """Uniform within the action bounds; an infinite bound counts as 1 away from the other or 0."""

    stochastic = True

    def __call__(self, state: State, *rest: Any) -> Action:
        """`rest` is a key, or the time and a key."""
        *time, key = rest
        low, high = self.model.at(*(time or [None])).bounds(state)
        return within(low, high, sampling.uniform(key, low.shape))


class Heuristic(OfModel):
    """The model's hand-written controller."""

    def __call__(self, state: State, time: Any = None) -> Action:
        return self.model.at(time).heuristic(state)


POLICIES: dict[str, Callable[[Model], PolicyFunction]] = {
    "random": Random,
    "midpoint": Midpoint,
    "hold": Hold,
    "heuristic": Heuristic,
}
