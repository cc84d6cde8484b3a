"""What ILBO's training carries along, draws ahead and reports."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from ilbo.nn.critic import Critic
from ilbo.nn.layers import Packed
from ilbo.nn.policy import Policy
from ilbo.planning.store import Store

FAULTS = ("", "next state", "reward", "critic's loss", "policy's gradient")
"""Quantities that may turn out not finite; a state's `fault` is a place in this list."""


class Episodes(eqx.Module):
    """The training episodes under way."""

    state: Float[Array, "parallel n"]
    steps_left: Int[Array, " parallel"]


class State(eqx.Module):
    """All that training carries along."""

    policy: Packed
    """θ, the parameters of the policy."""
    critic: Packed
    """ψ, those of the critic."""
    slow_policy: Packed
    """θ', the running average of θ: the target of the critic."""
    slow_critic: Packed
    """ψ'."""
    found: Packed
    """The θ' that is handed out: the latest that earned more than the one before."""
    policy_optimizer: Any
    critic_optimizer: Any
    policy_norm: Float[Array, ""]
    """Running mean length of the policy's gradient."""
    critic_norm: Float[Array, ""]
    strength: Float[Array, " horizon+1"]
    """Running mean square of the bound's gradients by the time left."""
    store: Store
    episodes: Episodes
    step: Int[Array, ""]
    fault: Int[Array, ""]
    """0, or which quantity was not finite."""
    fault_step: Int[Array, ""]
    reward_scale: Float[Array, ""]
    """What rewards are divided by for the critic."""
    key: Key[Array, ""]


class Slow(NamedTuple):
    """The slow copies of both networks, as functions."""

    policy: Policy
    critic: Critic


class Metrics(NamedTuple):
    """Means over a segment of training."""

    critic_loss: Array
    """Mean square error of the critic, in units of the reward scale."""
    bound: Array
    """The bound at the current policy: the estimated return from the sampled states."""
    policy_gradient: Array
    """Length of the bound's gradient in θ, in units of the reward."""
    critic_gradient: Array

    @classmethod
    def zeros(cls) -> Metrics:
        """To add those of single steps to."""
        return cls(*jnp.zeros(len(cls._fields)))


class Draws(NamedTuple):
    """The random numbers of a segment, drawn ahead; a leading axis over steps."""

    noise: Array
    explore: Array
    starts: Array
    critic_rows: Array
    policy_rows: Array
    """Places of the candidates for a policy update."""
    pick: Array
    """Which of them it takes."""
    window: Array
    """Places of the noise to replay, or fresh noise."""

    @property
    def for_policy(self) -> tuple[Array, Array, Array]:
        return self.policy_rows, self.pick, self.window
