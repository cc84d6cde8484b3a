"""The slow copies of both networks: targets of the critic, and what is selected from."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from ilbo.nn.critic import Critic
from ilbo.nn.parameters import Parameters
from ilbo.nn.policy import Policy
from ilbo.planning.networks import Networks
from ilbo.planning.state import ILBOState


class Slow(NamedTuple):
    """The slow copies as functions, at fixed parameters for use over several steps."""

    policy: Policy
    critic: Critic

    @classmethod
    def of(cls, networks: Networks, state: ILBOState) -> Slow:
        policy, critic = networks.policy(state.slow_policy), networks.critic(state.slow_critic)
        return cls(policy.fixed(), critic.fixed())


def follow(networks: Networks, state: ILBOState, steps: Int[Array, ""]) -> ILBOState:
    """θ' ← τ θ + (1 − τ) θ', and ψ' likewise, as often as there were updates in these steps."""
    # After a fault nothing moves on. That the rate depends on it also lets XLA know that all use of
    # the old averages is over, so that it writes the new ones in place.
    share = 1 - networks.numbers.target_kept ** (steps * networks.config.updates)
    rate = jnp.where(state.fault == 0, share, 0.0).astype(jnp.float32)

    def closer(slow: Parameters, fast: Parameters) -> Parameters:
        return jax.tree.map(lambda slow, fast: slow + rate * (fast - slow), slow, fast)

    return eqx.tree_at(
        lambda s: (s.slow_policy, s.slow_critic),
        state,
        (closer(state.slow_policy, state.policy), closer(state.slow_critic, state.critic)),
    )
