"""Whole trajectories, batched and compiled."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ilbo.errors import UserError, whole
from ilbo.forks import check_not_forked
from ilbo.mdp.changeable import loosened, with_arrays
from ilbo.mdp.compiled import Bounded
from ilbo.mdp.laws.law import Law
from ilbo.mdp.model import Model
from ilbo.mdp.outside import NumpyPolicy, as_policy, is_timed
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import AnyPolicy, KeyOrSeed, PolicyFunction, Whole
from ilbo.mdp.widened import Sight, Sighted, Widened, sighted

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
    drawn: Float[Array, "*episodes j"] | None = None
    """The uncertain parameters of each episode, where the problem has such."""


def draw_noise(
    model: Model, key: Key[Array, ""], shape: tuple[int, ...]
) -> Float[Array, "*shape k"]:
    """Noise for many steps at once."""
    if type(model).noise is Model.noise:  # then nothing else of the model matters
        return _draw_of_law(model.law, key, shape)
    return _draw_of_model(model, key, shape)


@eqx.filter_jit
def _draw_of_law(law: Law, key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
    return law.sample(key, shape)


@eqx.filter_jit
def _draw_of_model(
    model: Model, key: Key[Array, ""], shape: tuple[int, ...]
) -> Float[Array, "..."]:
    keys = jax.random.split(key, shape)
    draw = model.noise
    for _ in shape:
        draw = jax.vmap(draw)
    return draw(keys)


def as_key(key: KeyOrSeed) -> Key[Array, ""]:
    """The key itself, or the key of a seed."""
    if isinstance(key, jax.Array) and not jnp.issubdtype(key.dtype, jnp.signedinteger):
        return key
    seed = whole(key, "A seed, where no JAX key is given,")
    if not 0 <= seed < 2**63:
        raise UserError(f"A seed is a whole number from 0 to 2⁶³ − 1, got {seed}.")
    return jax.random.key(seed)


def act(
    model: Model,
    policy: PolicyFunction,
    states: Float[Array, "b n"],
    key: Key[Array, ""],
    time: Int[Array, ""],
) -> Float[Array, "b m"]:
    """The policy's actions, clipped into the bounds; the key is for stochastic policies."""
    arguments: list[Array] = [states]
    if is_timed(policy):
        arguments.append(jnp.broadcast_to(time, (len(states),)))
    if getattr(policy, "stochastic", False):
        arguments.append(jax.random.split(key, len(states)))
    actions = jax.vmap(policy)(*arguments)
    return into_model(model.at(time), states, actions)


def into_model(
    model: Model, states: Float[Array, "b n"], actions: Float[Array, "..."]
) -> Float[Array, "b m"]:
    """The actions clipped into the bounds; an error where they are not of the model's size."""
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
        inputs: tuple[Float[Array, "b k"], Key[Array, ""], Int[Array, ""]],
    ) -> tuple[tuple[Float[Array, "b n"], Bool[Array, " b"]], tuple[Array, ...]]:
        states, alive = carry
        xi, k, time = inputs
        now = model.at(time)
        actions = act(model, policy, states, k, time)
        broken = jnp.where(alive, jax.vmap(now.violations)(states, actions), 0)
        moved, rewards, still = jax.vmap(partial(step, now))(states, actions, xi, alive)
        return (moved, still), (moved, actions, rewards, alive, broken)

    carry = (starts, ~jax.vmap(model.terminal)(starts))
    inputs = noise, jax.random.split(key, len(noise)), jnp.arange(len(noise))
    _, (states, *rest) = jax.lax.scan(one, carry, inputs)
    states = jnp.concatenate([starts[None], states])
    return Trajectories(*(jnp.swapaxes(x, 0, 1) for x in (states, *rest)))


_roll = Bounded(_roll_plain, most=32)


def roll_outside(
    model: Model,
    policy: NumpyPolicy,
    noise: Float[Array, "horizon b k"],
    key: Key[Array, ""],
    starts: Float[Array, "b n"],
) -> Trajectories:
    """The same for a policy that is called between the steps, in Python."""
    alive = ~jax.vmap(model.terminal)(starts)
    visited, rest = [starts], []
    for time, (xi, k) in enumerate(zip(noise, jax.random.split(key, len(noise)), strict=True)):
        given = [np.full(len(starts), time)] if policy.timed else []
        keys = [jax.random.split(k, len(starts))] if policy.stochastic else []
        actions = policy.actions(np.array(visited[-1]), *given, *keys)
        now = model.at(jnp.asarray(time, jnp.int32))
        moved, *others, alive = _step_all(now, visited[-1], jnp.asarray(actions), xi, alive)
        visited.append(moved)
        rest.append(others)
    columns = [visited, *zip(*rest, strict=True)]
    return Trajectories(*(jnp.stack(column, axis=1) for column in columns))


@eqx.filter_jit
def _step_all(
    model: Model,
    states: Float[Array, "b n"],
    actions: Float[Array, "..."],
    noise: Float[Array, "b k"],
    alive: Bool[Array, " b"],
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Next states, actions in their bounds, rewards, alive, violations; and whether it goes on."""
    actions = into_model(model, states, actions)
    broken = jnp.where(alive, jax.vmap(model.violations)(states, actions), 0)
    moved, rewards, still = jax.vmap(partial(step, model))(states, actions, noise, alive)
    return moved, actions, rewards, alive, broken, still


class Trial(NamedTuple):
    """Noise and start states of test episodes."""

    noise: Float[Array, "horizon b k"]
    starts: Float[Array, "b n"]


def discounted_sum(problem: Problem, rewards: Float[Array, "*b horizon"]) -> Float[Array, "*b"]:
    """Σ_t γ^t r_t with the problem's own discount: the objective of an episode."""
    if isinstance(problem.discount, float) and problem.discount == 1:
        return jnp.sum(rewards, axis=-1)
    return jnp.sum(rewards * problem.discount ** jnp.arange(problem.horizon), axis=-1)


def returns(problem: Problem, policy: PolicyFunction, trial: Trial) -> Float[Array, " b"]:
    """The returns of a deterministic policy on the exact model, discounted as the problem says.

    An episode with an action, state or reward that is not finite counts as −inf, so that no choice
    by returns falls on such a policy: the rewards alone may look fine.
    """
    no_draws = jax.random.key(0)
    path = roll(problem.exact, policy, trial.noise, no_draws, trial.starts)
    return jnp.where(is_sound(path), discounted_sum(problem, path.rewards), -jnp.inf)


def is_sound(path: Trajectories) -> Bool[Array, " b"]:
    """Whether all numbers of an episode are finite for as long as it runs."""
    sound = jnp.all(jnp.isfinite(path.actions), axis=2) & jnp.all(
        jnp.isfinite(path.states[:, 1:]), axis=2
    )
    return jnp.all((sound & jnp.isfinite(path.rewards)) | ~path.alive, axis=1)


def simulate(
    problem: Problem,
    policy: AnyPolicy,
    key: KeyOrSeed,
    episodes: Whole = 64,
    start: Any = None,
) -> Trajectories:
    """Simulates episodes of the exact model, all at once.

    Args:
        problem: What to simulate.
        policy: state [n] → action [m], clipped into the action bounds; or "heuristic", "midpoint",
            "hold", "random". A function that JAX cannot trace, such as one of NumPy arrays, and a
            model with `predict` are called step by step in Python, which is slower.
        key: A JAX key, or a seed. Equal keys give equal noise, whatever the policy.
        episodes: How many.
        start: A start state [n], or one per episode [episodes, n]; the problem's own if None.
    """
    check_not_forked()
    policy = as_policy(problem.exact, policy)
    episodes = whole(episodes, "The number of episodes")
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
    sizes = problem.state_size, problem.action_size
    model, policy = with_arrays(problem.exact, *sizes), loosened(policy, *sizes)
    sight = Sight.of(policy)
    if problem.uncertain is None and not sight.earned:
        return _along(model, policy, noise, policy_key, starts)
    uncertain, drawn = problem.uncertain, jnp.zeros((episodes, 0))
    if uncertain is not None:
        uncertain = dataclasses.replace(uncertain, seen=sight.drawn)
        drawn = uncertain.sample(jax.random.fold_in(noise_key, 1), (episodes,))
    wide = Widened.around(model, problem, uncertain, sight.earned)
    found = _along(wide, sighted(policy, wide), noise, policy_key, wide.begin(starts, drawn))
    own = found.states[..., : problem.state_size]
    return dataclasses.replace(found, states=own, drawn=None if uncertain is None else drawn)


def _along(
    model: Model,
    policy: Any,
    noise: Float[Array, "horizon b k"],
    policy_key: Key[Array, ""],
    starts: Float[Array, "b n"],
) -> Trajectories:
    """Episodes of a policy that JAX can trace, or else that is called in Python."""
    if not isinstance(policy, NumpyPolicy):
        try:
            return roll(model, policy, noise, policy_key, starts)
        except (UserError, MemoryError, jax.errors.JaxRuntimeError):
            raise
        except Exception:  # what tracing makes of a function of something else may be any
            inner, sees = (
                (policy.policy, policy.sees) if isinstance(policy, Sighted) else (policy, None)
            )
            if isinstance(inner, eqx.Module):
                raise
        policy = NumpyPolicy(inner).seeing(sees)
    return roll_outside(model, policy, noise, policy_key, starts)
