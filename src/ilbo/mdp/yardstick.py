"""What a policy is measured by: the problem's own controller, and the best of the simple ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ilbo.errors import UserError
from ilbo.mdp.bootstrap import bootstrap
from ilbo.mdp.evaluate import returns_of
from ilbo.mdp.model import Model
from ilbo.mdp.numbers import precise, precise_interval
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Action, KeyOrSeed, State, Whole
from ilbo.mdp.simple import Heuristic, Hold, Midpoint, Random
from ilbo.mdp.simulate import simulate

Returns = Float[np.ndarray, " episodes"]
SIMPLE = ("midpoint", "hold", "random")
WORDS = {
    "heuristic": "the problem's own controller",
    "midpoint": "the middle of the action bounds",
    "hold": "the action nearest to 0",
    "random": "random actions",
}


class _Simple(eqx.Module):
    """One of the simple policies, chosen by a number, so that one program serves all of them."""

    model: Model
    which: Int[Array, ""]
    stochastic = True

    @property
    def timed(self) -> bool:
        return self.model.sees_time

    def __call__(self, state: State, *rest: Any) -> Action:
        *time, _ = rest
        middle, still = Midpoint(self.model)(state, *time), Hold(self.model)(state, *time)
        drawn = Random(self.model)(state, *rest)
        return jnp.select([self.which == 0, self.which == 1], [middle, still], drawn)


@dataclass(frozen=True)
class Yardstick:
    """How a policy does against another one on the same noise; returns are discounted."""

    policy: str
    mean: float
    """What the other one earns."""
    difference: float
    """The policy minus the other: positive where the policy is better."""
    ci95: tuple[float, float] | None
    """95 % bootstrap interval of the difference; None where there is one episode."""

    @property
    def sentence(self) -> str:
        other = f"{WORDS[self.policy]} ({precise(self.mean)})"
        by = f"by {precise(abs(self.difference))}"
        if self.ci95 is None:
            return f"{'above' if self.difference > 0 else 'below'} {other} {by} in one episode"
        interval = f"95 % {precise_interval(*self.ci95)}"
        if self.ci95[0] > 0:
            return f"better than {other} {by}   {interval}"
        if self.ci95[1] < 0:
            return f"worse than {other} {by}   {interval}"
        return f"no clear difference from {other}: {precise(self.difference)}   {interval}"


def yardsticks(
    problem: Problem, key: KeyOrSeed, episodes: Whole = 64, start: Any = None
) -> dict[str, Returns]:
    """The discounted returns of the problem's controller, where it has one, and of the best of the
    simple policies, by name; the arguments are those of `simulate`.

    One that meets a number that is not finite is left out: it says nothing about others.
    """

    def earned(policy: Any) -> Returns | None:
        try:
            return returns_of(problem, simulate(problem, policy, key, episodes, start))[1]
        except UserError:
            return None

    model = problem.exact
    simple = {
        name: found
        for i, name in enumerate(SIMPLE)
        if (found := earned(_Simple(model, jnp.asarray(i)))) is not None
    }
    own = earned(Heuristic(model)) if has_controller(model) else None
    result = {} if own is None else {"heuristic": own}
    if simple:
        best = max(simple, key=lambda name: simple[name].mean())
        result[best] = simple[best]
    return result


def has_controller(model: Model) -> bool:
    """Whether the model has a hand-written controller."""
    return type(model).heuristic is not Model.heuristic


def against(returns: Sequence[Returns], others: dict[str, Returns]) -> list[Yardstick]:
    """Compares policies, by their discounted returns, one array for each seed, with yardsticks.

    All must have had the same noise. Of several seeds it is their mean that is compared.
    """
    mean = np.mean(returns, axis=0)
    found = []
    for name, other in others.items():
        difference = mean - other
        interval = bootstrap(difference) if len(difference) > 1 else None
        found.append(Yardstick(name, float(other.mean()), float(difference.mean()), interval))
    return found
