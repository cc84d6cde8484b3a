"""Open-loop plans: an action for each step, whatever the state."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ilbo.mdp.bounds import into_bounds
from ilbo.mdp.problem import Problem


class OpenLoop(eqx.Module):
    """A plan as a policy."""

    plan: Float[Array, "horizon m"]
    """Before the curve that maps it into the bounds."""
    problem: Problem
    shake: Float[Array, "horizon m"] | None = None
    """Added to the actions, in shares of them."""
    timed = True

    def __call__(self, state: Float[Array, " n"], time: Int[Array, ""]) -> Float[Array, " m"]:
        low, high = self.problem.exact.at(time).bounds(state)
        action = into_bounds(self.plan[time], low, high)
        if self.shake is None:
            return action
        return jnp.clip(action * (1 + self.shake[time]), low, high)


class Open(NamedTuple):
    """The sides on which actions have no bound."""

    below: Bool[Array, " m"]
    above: Bool[Array, " m"]

    @classmethod
    def of(cls, problem: Problem) -> Open:
        low, high = problem.exact.at(jnp.zeros((), jnp.int32)).bounds(problem.initial_state)
        return cls(~jnp.isfinite(low), ~jnp.isfinite(high))

    @property
    def either(self) -> Bool[Array, " m"]:
        return self.below | self.above

    def stretch(self, plan: Float[Array, "*h m"]) -> Float[Array, "*h m"]:
        """A plan of the search's as a policy has it: near 0, and towards a bound, the same; else
        steps of a factor further out."""
        return jnp.where(jnp.where(plan > 0, self.above, self.below), jnp.sinh(plan), plan)
