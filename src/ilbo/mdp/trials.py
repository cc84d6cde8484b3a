"""Trials of a model for `mdp/check.py`: episodes, single changes, derivatives, lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ilbo.mdp import sampling
from ilbo.mdp.bounds import within
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Action, Noise, State
from ilbo.mdp.simulate import draw_noise, step

EPISODES = 64
SINGLE = 64
"""Steps in each of which one input is changed."""
AHEAD = 20
"""Steps that an action's derivative looks ahead at most."""
SLOPES = 256
LINES, POINTS = 4, 129
"""States with a line through each input, and points of a line."""
STEEP = 0.05
"""Share of a line's range between neighbours that is looked into."""
HALVINGS = 10
MOST = 64
"""Inputs that lines go through at most."""
FAST = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""The programs run once: they are to be compiled soon, not to be fast."""


@dataclass(frozen=True)
class Seen:
    """What the trials showed; e steps of random episodes, n states, m actions, k noises."""

    visited: Float[np.ndarray, "v n"]
    """States of random episodes from the problem's own start, as long as they last."""
    earned: Float[np.ndarray, " r"]
    """Their rewards."""
    steps: Int[np.ndarray, " episodes"]
    """How long they last."""
    ended: float
    """Share of them that reach a terminal state."""
    states: Float[np.ndarray, "e n"]
    """States of single steps: half of them visited ones, half of the region."""
    actions: Float[np.ndarray, "e m"]
    noise: Float[np.ndarray, "e k"]
    moved: Float[np.ndarray, "e n"]
    rewards: Float[np.ndarray, " e"]
    low: Float[np.ndarray, "e m"]
    high: Float[np.ndarray, "e m"]
    changes: Bool[np.ndarray, "inputs outputs"]
    """Whether changing a state, an action or a noise changes a next state, the reward, or (last)
    the bounds or the end; a state's change of itself aside."""
    slopes: Float[np.ndarray, "g m"]
    """Derivatives in an action of what is earned from there on."""
    slope_states: Float[np.ndarray, "g n"]
    slope_actions: Float[np.ndarray, "g m"]
    felt: Bool[np.ndarray, "m horizon"]
    """Whether a change of the first action changes the reward of so many steps later."""
    jump: tuple[int, int, float, int, float] | None
    """Row of `states`, input, its value, output and size of a jump; None where none was found."""


def look(problem: Problem, key: Key[Array, ""]) -> Seen:
    """Runs all trials."""
    model = problem.exact
    keys = jax.random.split(key, 4)
    states, alive, rewards = map(np.asarray, _episodes(problem, keys[0]))
    steps = alive.sum(axis=1)
    inside = np.concatenate([np.ones((len(states), 1), bool), alive], axis=1)
    visited = states[inside].astype(float)
    here = _chosen(problem, states[:, :-1][alive], SINGLE)
    actions, noise = _inputs(model, here, keys[1])
    moved, earned, low, high = map(np.asarray, _steps(model, here, actions, noise))
    starts = _chosen(problem, states[:, :-1][alive], SLOPES)
    slopes, tried = map(np.asarray, _slopes(problem, starts, keys[2]))
    return Seen(
        visited=visited,
        earned=rewards[alive].astype(float),
        steps=steps,
        ended=float(np.mean(_ends(model, jnp.asarray(states[:, -1])))),
        states=np.asarray(here),
        actions=np.asarray(actions),
        noise=np.asarray(noise),
        moved=moved,
        rewards=earned,
        low=low,
        high=high,
        changes=_changes(problem, here, actions, noise),
        slopes=slopes,
        slope_states=np.asarray(starts),
        slope_actions=tried,
        felt=np.asarray(_felt(problem, keys[3])),
        jump=_jump(problem, here, actions, noise, visited),
    )


def _run(function: Callable[..., Any], *inputs: Any) -> Any:
    return jax.jit(function, compiler_options=FAST)(*inputs)


def _chosen(
    problem: Problem, visited: Float[np.ndarray, "v n"], count: int
) -> Float[Array, "count n"]:
    """States: a half of visited ones, a half of the region."""
    draw = np.random.default_rng(0)
    low, high = (np.asarray(end) for end in problem.region)
    there = low + draw.uniform(size=(count, problem.state_size)) * (high - low)
    there[0] = problem.initial_state
    good = visited[np.isfinite(visited).all(axis=1)]
    if len(good):
        there[1::2] = good[draw.integers(len(good), size=len(there[1::2]))]
    return jnp.asarray(there, jnp.float32)


def _episodes(problem: Problem, key: Key[Array, ""]) -> tuple[Array, Array, Array]:
    """States [e, horizon + 1, n], whether a step was made [e, horizon], rewards."""
    model, shape = problem.exact, (EPISODES, problem.horizon)
    noise_key, action_key = jax.random.split(key)
    noise = draw_noise(model, noise_key, shape)
    units = sampling.uniform(action_key, (*shape, problem.action_size))

    def episode(xis: Array, fractions: Array) -> tuple[Array, Array, Array]:
        return _follow(model, problem.initial_state, fractions, xis)

    return _run(jax.vmap(episode), noise, units)


def _follow(
    model: Model,
    start: State,
    fractions: Float[Array, "horizon m"],
    noise: Float[Array, "horizon k"],
) -> tuple[Float[Array, "times n"], Bool[Array, " horizon"], Float[Array, " horizon"]]:
    """An episode whose actions are fractions of the way between their bounds."""

    def one(carry: tuple[State, Array], inputs: tuple[Action, Noise]) -> tuple[Any, Any]:
        state, alive = carry
        action = within(*model.bounds(state), inputs[0])
        moved, reward, still = step(model, state, action, inputs[1], alive)
        return (moved, still), (moved, alive, reward)

    first = (start, ~model.terminal(start))
    _, (states, alive, rewards) = jax.lax.scan(one, first, (fractions, noise))
    return jnp.concatenate([start[None], states]), alive, rewards


def _ends(model: Model, states: Float[Array, "e n"]) -> Bool[Array, " e"]:
    return _run(jax.vmap(model.terminal), states)


def _inputs(
    model: Model, states: Float[Array, "e n"], key: Key[Array, ""]
) -> tuple[Float[Array, "e m"], Float[Array, "e k"]]:
    noise_key, action_key = jax.random.split(key)

    def act(state: State, unit: Action) -> Action:
        return within(*model.bounds(state), unit)

    size = jax.eval_shape(model.bounds, states[0])[0].shape
    units = sampling.uniform(action_key, (len(states), *size))
    return _run(jax.vmap(act), states, units), draw_noise(model, noise_key, (len(states),))


def _outcome(model: Model, state: State, action: Action, noise: Noise) -> Float[Array, " outputs"]:
    """Next state, reward."""
    moved = model.transition(state, action, noise)
    return jnp.append(moved, model.reward(state, action, moved))


def _steps(model: Model, states: Array, actions: Array, noise: Array) -> tuple[Array, ...]:
    def one(state: State, action: Action, xi: Noise) -> tuple[Array, ...]:
        result = _outcome(model, state, action, xi)
        return result[:-1], result[-1], *model.bounds(state)

    return _run(jax.vmap(one), states, actions, noise)


def _changes(
    problem: Problem, states: Array, actions: Array, noise: Array
) -> Bool[np.ndarray, "inputs outputs"]:
    """Each input of a step in turn is replaced by that of another step."""
    model, n, m = problem.exact, problem.state_size, problem.action_size
    inputs = jnp.concatenate([states, actions, noise], axis=1)

    def one(x: Float[Array, " i"]) -> Float[Array, " outputs"]:
        state = x[:n]
        others = [*model.bounds(state), model.terminal(state)[None].astype(x.dtype)]
        return jnp.concatenate([_outcome(model, state, x[n : n + m], x[n + m :]), *others])

    def changed(i: Int[Array, ""], x: Float[Array, "e i"]) -> Bool[Array, " outputs"]:
        other = x.at[:, i].set(jnp.roll(x[:, i], 1))
        before, after = jax.vmap(one)(x), jax.vmap(one)(other)
        return ((before != after) & ~(jnp.isnan(before) & jnp.isnan(after))).any(axis=0)

    every = jnp.arange(inputs.shape[1])
    found = np.array(_run(lambda x: jax.lax.map(partial(changed, x=x), every), inputs))
    for i in range(n):
        found[i, i] = False
    rest = found[:, n + 1 :].any(axis=1, keepdims=True)
    return np.concatenate([found[:, : n + 1], rest], axis=1)


def _slopes(problem: Problem, states: Array, key: Key[Array, ""]) -> tuple[Array, Array]:
    """Derivatives in the first action of what a random episode from there earns, and that."""
    model, ahead = problem.model, min(problem.horizon, AHEAD)
    noise_key, action_key = jax.random.split(key)
    noise = draw_noise(model, noise_key, (len(states), ahead))
    shape = (len(states), ahead, problem.action_size)
    fractions = 0.02 + 0.96 * sampling.uniform(action_key, shape)

    def earned(action: Action, state: State, later: Array, xis: Array) -> Float[Array, ""]:
        moved = model.transition(state, action, xis[0])
        first = model.reward(state, action, moved)
        return first + jnp.sum(_follow(model, moved, later, xis[1:])[2])

    def one(state: State, units: Array, xis: Array) -> tuple[Array, Array]:
        action = within(*model.bounds(state), units[0])
        return jax.grad(earned)(action, state, units[1:], xis), action

    def batch(inputs: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        return one(*inputs)

    return _run(lambda *x: jax.lax.map(batch, x, batch_size=64), states, fractions, noise)


def _felt(problem: Problem, key: Key[Array, ""]) -> Bool[Array, "m horizon"]:
    """Episodes with and without a change of each component of the first action."""
    model, shape = problem.exact, (8, problem.horizon)
    noise_key, action_key, other_key = jax.random.split(key, 3)
    noise = draw_noise(model, noise_key, shape)
    units = sampling.uniform(action_key, (*shape, problem.action_size))
    others = sampling.uniform(other_key, (8, problem.action_size))

    def rewards(fractions: Array, xis: Array) -> Float[Array, " horizon"]:
        return _follow(model, problem.initial_state, fractions, xis)[2]

    def one(i: Int[Array, ""], units: Array, others: Array, noise: Array) -> Array:
        changed = units.at[:, 0, i].set(others[:, i])
        plain, other = (jax.vmap(rewards)(plan, noise) for plan in (units, changed))
        return (plain != other).any(axis=0)

    def every(*inputs: Array) -> Array:
        return jax.lax.map(lambda i: one(i, *inputs), jnp.arange(problem.action_size))

    return _run(every, units, others, noise)


def _jump(
    problem: Problem,
    states: Float[Array, "e n"],
    actions: Float[Array, "e m"],
    noise: Float[Array, "e k"],
    visited: Float[np.ndarray, "v n"],
) -> tuple[int, int, float, int, float] | None:
    """Lines through each input; where neighbours differ much, the gap is halved: a jump stays."""
    model, n, m = problem.exact, problem.state_size, problem.action_size
    low, high = (np.asarray(end, float) for end in problem.region)
    whole_numbers = (visited == np.round(visited)).all(axis=0)  # nothing is in between
    which = [i for i in range(n) if high[i] > low[i] and not whole_numbers[i]]
    which = [*which, *range(n, n + m)][:MOST]
    if not which:
        return None
    bounds = [np.asarray(x) for x in _run(jax.vmap(model.bounds), states[:LINES])]
    ends = [np.where(np.isfinite(b), b, s) for b, s in zip(bounds, (-1.0, 1.0), strict=True)]
    bottom, top = (
        np.concatenate([np.tile(region, (LINES, 1)), bound], axis=1)
        for region, bound in zip((low, high), ends, strict=True)
    )  # [LINES, n + m]
    rows, inputs = (a.ravel() for a in np.meshgrid(np.arange(LINES), which, indexing="ij"))

    def at(row: Array, which: Array, value: Array) -> Float[Array, " outputs"]:
        x = jnp.concatenate([states[row], actions[row]]).at[which].set(value)
        return _outcome(model, x[:n], x[n:], noise[row])

    evaluate = jax.jit(jax.vmap(at), compiler_options=FAST)
    units = np.linspace(0, 1, POINTS)
    a, b = bottom[rows, inputs], top[rows, inputs]
    values = a[:, None] + units * (b - a)[:, None]
    tile = [np.repeat(x, POINTS) for x in (rows, inputs)]
    table = np.asarray(evaluate(*tile, values.ravel().astype(np.float32)), float)
    table = table.reshape(len(rows), POINTS, n + 1)
    if not np.isfinite(table).all():
        return None
    gaps = np.abs(np.diff(table, axis=1))
    spans = np.ptp(table, axis=1)[:, None]
    steep = np.where(spans > 0, gaps / np.where(spans > 0, spans, 1.0), 0.0)
    steep = steep.reshape(len(rows), -1)
    place, output = np.divmod(steep.argmax(axis=1), n + 1)
    line = np.arange(len(rows))
    left, right = values[line, place], values[line, place + 1]
    before = gaps[line, place, output]
    at_left, at_right = table[line, place, output], table[line, place + 1, output]
    for _ in range(HALVINGS):
        middle = (left + right) / 2
        here = np.asarray(evaluate(rows, inputs, middle.astype(np.float32)), float)[line, output]
        first = np.abs(here - at_left) > np.abs(at_right - here)
        left, right = np.where(first, left, middle), np.where(first, middle, right)
        at_left, at_right = np.where(first, at_left, here), np.where(first, here, at_right)
    size = np.abs(at_right - at_left)
    rounding = 1e-4 * np.abs(table).max(axis=1)[line, output]
    found = (steep.max(axis=1) > STEEP) & (size > 0.5 * before) & (size > rounding) & (b > a)
    # A reward that climbs towards its jump leads over it: such a jump does no harm.
    aside = (b - a) / (POINTS - 1)
    low_side = np.where(at_right > at_left, left, right)
    farther = np.where(at_right > at_left, left - aside, right + aside)
    near, far = (
        np.asarray(evaluate(rows, inputs, x.astype(np.float32)), float)[line, output]
        for x in (low_side, farther)
    )
    found &= ~((output == n) & (near > far))
    if not found.any():
        return None
    i = int(found.argmax())
    return int(rows[i]), int(inputs[i]), float(right[i]), int(output[i]), float(size[i])
