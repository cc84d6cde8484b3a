"""What ILBO's training carries along, and the random numbers it draws ahead."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Float, Int, Key

from ilbo.nn.parameters import Parameters
from ilbo.planning.lead import Lead
from ilbo.planning.store import Store

FAULTS = ("", "next state", "reward", "critic's loss", "policy's gradient")
"""Quantities that may turn out not finite; a state's `fault` is a place in this list."""


class Episodes(eqx.Module):
    """The training episodes under way."""

    state: Float[Array, "parallel n"]
    steps_left: Int[Array, " parallel"]


class ILBOState(eqx.Module):
    """All that training carries along."""

    policy: Parameters
    """θ, the parameters of the policy."""
    critic: Parameters
    """ψ, those of the critic."""
    slow_policy: Parameters
    """θ', the running average of θ: the target of the critic."""
    slow_critic: Parameters
    """ψ'."""
    policy_optimizer: Any
    critic_optimizer: Any
    policy_norm: Float[Array, ""]
    """Running mean length of the policy's gradient."""
    critic_norm: Float[Array, ""]
    strength: Float[Array, " times"]
    """Running mean square of the bound's gradients by the time left, [horizon + 1]."""
    evidence: Float[Array, "3"]
    """On the critic's share in the policy's gradient: running means, see `blend.try_out`."""
    lead: Lead
    """Whether the model's gradient or the critic's leads."""
    store: Store
    episodes: Episodes
    step: Int[Array, ""]
    trouble: Float[Array, "4"]
    """How often each quantity of `FAULTS` was not finite of late: running sums of its weights."""
    fault: Int[Array, ""]
    """0, or which quantity was not finite most of the time."""
    fault_step: Int[Array, ""]
    reward_scale: Float[Array, ""]
    """What rewards are divided by for the critic."""
    key: Key[Array, ""]
    aim: Any = None
    """Beyond the mean, an `Aim` (`ilbo.planning.aim`)."""


class Draws(NamedTuple):
    """The random numbers of a segment, drawn ahead; a leading axis over steps."""

    noise: Float[Array, "*steps parallel k"]
    explore: Float[Array, "*steps parallel m"]
    starts: Float[Array, "*steps parallel units"]
    critic_rows: Float[Array, "*steps updates b"]
    policy_rows: Float[Array, "*steps updates candidates"]
    """Places of the candidates for a policy update."""
    pick: Float[Array, "*steps updates"]
    """Which of them it takes."""
    window: Float[Array, "..."]
    """Places of the noise to replay, or fresh noise."""

    @property
    def for_policy(self) -> tuple[Array, Array, Array]:
        return self.policy_rows, self.pick, self.window
