"""Whether the policy can share what it knows between a problem's components, and else its like."""

from __future__ import annotations

from dataclasses import replace

from ilbo.mdp.problem import Problem
from ilbo.nn.components import Components, NoComponents
from ilbo.planning.config import ILBO


def settle(problem: Problem, config: ILBO) -> tuple[ILBO, Components | None]:
    """The settings as the problem allows, and its components where the policy shares."""
    settled = config.settled(problem.sees_time)
    if not settled.shares:
        return settled, None
    try:
        return settled, Components.of(problem)
    except NoComponents:
        return replace(config, policy="auto").settled(problem.sees_time), None


def remarks(problem: Problem, config: ILBO) -> list[str]:
    """A sentence where the policy was to share but cannot."""
    if config.shares:
        try:
            Components.of(problem)
        except NoComponents as reason:
            return [f"{reason} The policy is a plain network of the whole state."]
    return []
