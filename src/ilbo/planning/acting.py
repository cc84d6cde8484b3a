"""Training episodes: where they start, how they explore, and how stored noise is replayed."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from ilbo.mdp import sampling
from ilbo.mdp.bounds import within
from ilbo.mdp.problem import Problem
from ilbo.mdp.simulate import Trial
from ilbo.planning.config import ILBO
from ilbo.planning.networks import Networks
from ilbo.planning.state import Draws, Episodes, ILBOState
from ilbo.planning.store import Store, Transition
from ilbo.planning.units import probe_rewards

REWARD_UNIT = 50.0
"""Root mean square of the rewards that the critic sees at the start."""


def own_share(problem: Problem, config: ILBO) -> float:
    """Share of the episodes that start in the problem's own start."""
    if config.own_start is not None:
        return config.own_start
    return 1.0 if problem.region_is_guessed else 0.75


def reset(problem: Problem, config: ILBO, units: Float[Array, "p units"]) -> Episodes:
    """New episodes, each from the own start or from the region, as uniforms [p, 1 + n] decide."""
    own = units[:, 0] < own_share(problem, config)
    region = problem.in_region(units[:, 1:])
    state = jnp.where(own[:, None], problem.initial_state, region)
    return Episodes(state, jnp.full(len(own), problem.horizon, jnp.int32))


def explore(
    networks: Networks, state: ILBOState, draws: Draws, share_done: Float[Array, ""]
) -> ILBOState:
    """Acts with exploration noise, steps the episodes and stores what happened."""
    problem, config = networks.problem, networks.config
    model, episodes = problem.model, state.episodes
    sizes = config.exploration, max(config.final_exploration, 1e-9)
    size = sizes[0] * (sizes[1] / max(sizes[0], 1e-9)) ** share_done
    policy = networks.policy(state.policy).fixed()

    def one(s: Array, xi: Array, normal: Array, left: Array) -> Transition:
        low, high = model.bounds(s)
        spread = within(low, high, 1.0) - within(low, high, 0.0)
        action = jnp.clip(networks.act(policy, s, left) + size * spread * normal, low, high)
        moved = model.transition(s, action, xi).astype(s.dtype)
        reward = model.reward(s, action, moved)
        return Transition(s, action, xi, moved, reward, left, model.terminal(moved))

    batch = jax.vmap(one)(episodes.state, draws.noise, draws.explore, episodes.steps_left)
    over = batch.ended | (batch.steps_left <= 1)
    fresh = reset(problem, config, draws.starts)
    following = Episodes(
        jnp.where(over[:, None], fresh.state, batch.next_state),
        jnp.where(over, fresh.steps_left, batch.steps_left - 1),
    )
    state = watch(state, 1, jnp.all(jnp.isfinite(batch.next_state)))
    state = watch(state, 2, jnp.all(jnp.isfinite(batch.reward)))
    return eqx.tree_at(lambda s: (s.store, s.episodes), state, (state.store.add(batch), following))


def watch(state: ILBOState, fault: int, finite: Bool[Array, ""]) -> ILBOState:
    """Notes the first quantity that is not finite, and when."""
    first = (state.fault == 0) & ~finite
    return eqx.tree_at(
        lambda s: (s.fault, s.fault_step),
        state,
        (jnp.where(first, fault, state.fault), jnp.where(first, state.step, state.fault_step)),
    )


def replay(
    problem: Problem, config: ILBO, store: Store, key: Key[Array, ""], episodes: int
) -> Trial:
    """Episodes along noise of the store, from starts as in training."""
    horizon = problem.horizon
    units = sampling.uniform(key, (episodes, horizon + 1 + problem.state_size))
    noise = store.noise(store.recent(units[:, :horizon].T))
    return Trial(noise, reset(problem, config, units[:, horizon:]).state)


def reward_scale(problem: Problem, unit: float, key: Key[Array, ""]) -> Float[Array, ""]:
    """What rewards, in units, are divided by for the critic, from random steps in the region."""
    rewards = probe_rewards(problem, key)
    rewards = rewards if unit == 1 else rewards / unit
    size = jnp.sqrt(jnp.mean(rewards**2))
    return jnp.where(jnp.isfinite(size) & (size > 0), size, 1.0).astype(jnp.float32) / REWARD_UNIT
