"""Whole trajectories, batched and compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from ilbo.errors import UserError
from ilbo.forks import check_not_forked
from ilbo.mdp.compiled import Bounded
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Problem

PolicyFunction = Callable[..., Array]
"""state [n] → action [m]; called with a key as well where it has a true `stochastic`."""

MOST_EPISODES = 10_000_000
"""More is a slip, and would take all memory: all are simulated at once."""


class Trajectories(eqx.Module):
    """Simulated episodes. After a terminal state, rewards are 0 and the state stays the same."""

    states: Float[Array, "*episodes visited n"]
    """The start and the state after each action: one more than there are actions."""
    actions: Float[Array, "*episodes horizon m"]
    rewards: Float[Array, "*episodes horizon"]
    alive: Bool[Array, "*episodes horizon"]
    """Whether the episode was still running when the action was taken."""
    violations: Int[Array, "*episodes horizon"]
    """Constraints beyond the action bounds that the action broke."""


@eqx.filter_jit
def draw_noise(
    model: Model, key: Key[Array, ""], shape: tuple[int, ...]
) -> Float[Array, "*shape k"]:
    """Noise for many steps at once."""
    if type(model).noise is Model.noise:
        return model.law.sample(key, shape)
    keys = jax.random.split(key, shape)
    draw = model.noise
    for _ in shape:
        draw = jax.vmap(draw)
    return draw(keys)


def as_key(key: Key[Array, ""] | int) -> Key[Array, ""]:
    """The key itself, or the key of a seed."""
    if not isinstance(key, int):
        return key
    if not 0 <= key < 2**63:
        raise UserError(f"A seed is a whole number from 0 to 2⁶³ − 1, got {key}.")
    return jax.random.key(key)


def act(
    model: Model, policy: PolicyFunction, states: Float[Array, "b n"], key: Key[Array, ""]
) -> Float[Array, "b m"]:
    """The policy's actions, clipped into the bounds; the key is for stochastic policies."""
    if getattr(policy, "stochastic", False):
        actions = jax.vmap(policy)(states, jax.random.split(key, len(states)))
    else:
        actions = jax.vmap(policy)(states)
    low, high = jax.vmap(model.bounds)(states)
    if actions.shape != low.shape:
        raise UserError(
            f"The policy returns an action of shape {actions.shape[1:]}, "
            f"but the model takes one of shape {low.shape[1:]}."
        )
    return jnp.clip(actions, low, high)


def step(
    model: Model, state: Array, action: Array, noise: Array, alive: Array
) -> tuple[Array, Array, Array]:
    """One step of an episode: next state [n], reward [], and whether the episode goes on [].

    An episode that has ended (alive false) stays where it is and earns 0.
    """
    # A model may answer in double precision where JAX has been told to allow it.
    moved = model.transition(state, action, noise).astype(state.dtype)
    reward = jnp.where(alive, model.reward(state, action, moved), 0.0)
    moved = jnp.where(alive, moved, state)
    return moved, reward, alive & ~model.terminal(moved)


def roll(
    model: Model,
    policy: PolicyFunction,
    noise: Float[Array, "horizon b k"],
    key: Key[Array, ""],
    starts: Float[Array, "b n"],
) -> Trajectories:
    """Episodes along the noise; the key is for stochastic policies."""
    return _roll(model, policy, noise, key, starts)


def _roll_plain(
    model: Model,
    policy: PolicyFunction,
    noise: Float[Array, "horizon b k"],
    key: Key[Array, ""],
    starts: Float[Array, "b n"],
) -> Trajectories:
    def one(
        carry: tuple[Float[Array, "b n"], Bool[Array, " b"]],
        inputs: tuple[Float[Array, "b k"], Key[Array, ""]],
    ) -> tuple[tuple[Float[Array, "b n"], Bool[Array, " b"]], tuple[Array, ...]]:
        states, alive = carry
        xi, k = inputs
        actions = act(model, policy, states, k)
        broken = jnp.where(alive, jax.vmap(model.violations)(states, actions), 0)
        moved, rewards, still = jax.vmap(partial(step, model))(states, actions, xi, alive)
        return (moved, still), (moved, actions, rewards, alive, broken)

    carry = (starts, ~jax.vmap(model.terminal)(starts))
    _, (states, *rest) = jax.lax.scan(one, carry, (noise, jax.random.split(key, len(noise))))
    states = jnp.concatenate([starts[None], states])
    return Trajectories(*(jnp.swapaxes(x, 0, 1) for x in (states, *rest)))


_roll = Bounded(_roll_plain, most=32)


class Trial(NamedTuple):
    """Noise and start states of test episodes."""

    noise: Float[Array, "horizon b k"]
    starts: Float[Array, "b n"]


def discounted_sum(problem: Problem, rewards: Float[Array, "*b horizon"]) -> Float[Array, "*b"]:
    """Σ_t γ^t r_t with the problem's own discount: the objective of an episode."""
    if problem.discount == 1:
        return jnp.sum(rewards, axis=-1)
    return jnp.sum(rewards * problem.discount ** jnp.arange(problem.horizon), axis=-1)


def returns(problem: Problem, policy: PolicyFunction, trial: Trial) -> Float[Array, " b"]:
    """The returns of a deterministic policy on the exact model, discounted as the problem says.

    An episode with an action, state or reward that is not finite counts as −inf, so that no choice
    by returns falls on such a policy: the rewards alone may look fine.
    """
    no_draws = jax.random.key(0)
    path = roll(problem.exact, policy, trial.noise, no_draws, trial.starts)
    sound = jnp.all(jnp.isfinite(path.actions), axis=2) & jnp.all(
        jnp.isfinite(path.states[:, 1:]), axis=2
    )
    sound = jnp.all((sound & jnp.isfinite(path.rewards)) | ~path.alive, axis=1)
    return jnp.where(sound, discounted_sum(problem, path.rewards), -jnp.inf)


def simulate(
    problem: Problem,
    policy: PolicyFunction,
    key: Key[Array, ""] | int,
    episodes: int = 64,
    start: Any = None,
) -> Trajectories:
    """Simulates episodes of the exact model, all at once.

    Args:
        problem: What to simulate.
        policy: state [n] → action [m], a pure function; clipped into the action bounds.
        key: A JAX key, or a seed. Equal keys give equal noise, whatever the policy.
        episodes: How many.
        start: A start state [n], or one per episode [episodes, n]; the problem's own if None.
    """
    check_not_forked()
    if episodes < 1:
        raise UserError(f"The number of episodes must be at least 1, got {episodes}.")
    if episodes > MOST_EPISODES:
        raise UserError(f"At most {MOST_EPISODES:,} episodes can be simulated, not {episodes:,}.")
    state = problem.initial_state if start is None else problem.check_start(start)
    if state.ndim == 2 and len(state) != episodes:
        raise UserError(f"There are {len(state)} start states for {episodes} episodes.")
    starts = jnp.broadcast_to(state, (episodes, problem.state_size))
    noise_key, policy_key = jax.random.split(as_key(key))
    noise = draw_noise(problem.exact, noise_key, (problem.horizon, episodes))
    return roll(problem.exact, policy, noise, policy_key, starts)
