"""The settings that are numbers only: inputs of the compiled programs, not parts of them.

A program depends on the sizes and choices among the settings (`ILBO.form`). Rates and the like
travel with the trainer as arrays, so that to change one compiles nothing, and several values of one
can be mapped over (`jax.vmap`). A plain Python number here is a part of the program: 0 or 1, where
that switches something off.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ilbo.mdp.objective import objective_of
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Number
from ilbo.planning.config import ILBO

UNDER_A_PRICE = 0.1
"""Least share of the critic's slope where the cost of whole episodes is charged a price: that pulls
wherever the model's derivatives see the cost and not what it buys, such as a step of the reward."""
LARGEST = float(np.finfo(np.float32).max)
"""A learning rate beyond it would not be a number of 32 bits."""


class Numbers(eqx.Module):
    """What training computes with of the settings; worked out ahead in double precision."""

    policy_rate: Number
    critic_rate: Number
    rate_drop: Number
    """Share of the learning rates that is gone by the end."""
    clip: Number
    critic_share: Number
    least_share: Number
    inward: Number
    target_kept: Number
    """1 − τ: share of the slow copies that stays at each step."""
    exploration: Number
    exploration_left: Number
    """The last exploration noise as a share of the first."""
    own_start: Number
    """Share of the episodes that start in the problem's own start."""
    extremes: Number
    discount: Number
    """γ of the objective: the problem's own; a stationary critic needs one below 1."""

    @classmethod
    def of(cls, problem: Problem, config: ILBO) -> Numbers:
        of_returns = objective_of(config.objective).of_returns
        first, last = config.exploration, max(config.final_exploration, 1e-9)
        own = config.own_start
        if own is None:
            # Objectives and limits are of episodes from there.
            own = 1.0 if problem.region_is_guessed or of_returns or problem.limits else 0.75
        # A chance is charged by a soft step, whose slope is where it matters; and prices of single
        # steps settle better by the model's derivatives alone.
        priced = any(not (limit.of_chance or limit.of_steps) for limit in problem.limits)
        discount = problem.discount
        if config.critic == "discounted":
            discount = min(discount, config.discount)
        return cls(
            policy_rate=_array(min(config.policy_rate, LARGEST)),
            critic_rate=_array(min(config.critic_rate, LARGEST)),
            rate_drop=_array(1 - config.final_rate),
            clip=_array(config.clip, off=0.0),
            critic_share=_array(config.critic_share, off=0.0),
            least_share=UNDER_A_PRICE if priced else 0.0,
            inward=_array(config.inward, off=0.0),
            target_kept=_array(1 - config.target_rate),
            exploration=_array(first),
            exploration_left=_array(last / max(first, 1e-9)),
            own_start=_array(own),
            extremes=_array(config.extremes, off=0.0),
            discount=_array(discount, off=1.0),
        )


def _array(value: float, off: float | None = None) -> Number:
    return value if value == off else jnp.array(value, jnp.float32)


def is_off(number: Any) -> bool:
    """Whether it is a 0 that the program knows of."""
    return not isinstance(number, jax.Array) and number <= 0
