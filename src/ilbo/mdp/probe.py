"""Whether there is a gradient to plan by: which actions change what is earned, at a few states."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ilbo.mdp.bounds import within
from ilbo.mdp.changeable import with_arrays
from ilbo.mdp.compiled import Bounded
from ilbo.mdp.laws.gaussian import Gaussian
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Problem
from ilbo.mdp.simulate import draw_noise

STATES = 16
"""States that are probed: the problem's own start, and others of its region."""
LARGE = 100
"""State components from which on one state is probed after the other, to save memory."""
FAST = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""The program runs once: it is to be compiled soon, not to be fast."""


def remarks(problem: Problem) -> list[str]:
    """What is to be said about the problem's gradients, in sentences; none where all is well.

    An action component matters where the reward's derivative in it is not 0, or where it moves a
    state that the reward sees then or later.
    """
    matters = influence(problem)
    where = f"at {STATES} states of its region"
    if not matters.any():
        return [
            f"The reward of {problem.name} has no gradient in the action, neither at once nor "
            f"through later states, {where}: its derivatives do not say which action is better. "
            "Rounding, comparisons and choices between constants have none: give planning a smooth "
            "version of them, and the true model as `exact`."
        ]
    idle = [name for name, good in zip(problem.action_names, matters, strict=True) if not good]
    if not idle:
        return []
    few = ", ".join(map(repr, idle[:4])) + (f" and {len(idle) - 4} more" if len(idle) > 4 else "")
    return [
        f"Of the actions of {problem.name}, {few} had no influence on any reward, neither at once "
        f"nor later, {where}: planning has nothing to choose by. If that is not meant, look for an "
        "index that is wrong, or a factor that is 0."
    ]


def influence(problem: Problem) -> Bool[np.ndarray, " m"]:
    """Which components of the action have any influence on rewards, by derivatives."""
    n = problem.state_size
    slopes = _slopes(problem)
    on_states, on_reward = slopes[:n], slopes[n]
    reached = on_reward[:n]  # states that rewards depend on, now or later
    for _ in range(n):
        wider = reached | (on_states[:, :n] & reached[:, None]).any(axis=0)
        if (wider == reached).all():
            break
        reached = wider
    return on_reward[n:] | (on_states[:, n:] & reached[:, None]).any(axis=0)


def _slopes(problem: Problem) -> Bool[np.ndarray, "outputs inputs"]:
    """Where the derivatives of (next state, reward) in (state, action) are not 0, at some state."""
    model = with_arrays(problem.model, problem.state_size, problem.action_size)
    return np.asarray(_probe_compiled(model, _points(problem)))


def _probe(model: Model, points: tuple[Array, ...]) -> Bool[Array, "outputs inputs"]:
    n = points[0].shape[1]

    def probe(
        state: Float[Array, " n"],
        fraction: Float[Array, " m"],
        noise: Float[Array, " k"],
        time: Int[Array, ""],
    ) -> Bool[Array, "outputs inputs"]:
        now = model.at(time)

        def outcome(inputs: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
            state, action = inputs[:n], inputs[n:]
            moved = now.transition(state, action, noise)
            return jnp.append(moved, now.reward(state, action, moved))

        action = within(*now.bounds(state), fraction)
        return jax.jacrev(outcome)(jnp.concatenate([state, action])) != 0

    if n > LARGE:
        found = jax.lax.map(lambda point: probe(*point), points)
    else:
        found = jax.vmap(probe)(*points)
    return jnp.any(found, axis=0)


_probe_compiled = Bounded(_probe, 8, options=FAST)


def _points(problem: Problem) -> tuple[Any, ...]:
    """States [p, n], how far actions [p, m] lie between their bounds, noise [p, k] and times [p];
    by NumPy, which compiles nothing."""
    draw, model = np.random.default_rng(0), problem.model
    low, high = (np.asarray(end) for end in problem.region)
    states = low + draw.uniform(size=(STATES, problem.state_size)) * (high - low)
    states[0] = problem.initial_state
    fractions = draw.uniform(0.05, 0.95, size=(STATES, problem.action_size))
    normal = isinstance(model.law, Gaussian) and type(model).noise is Model.noise
    noise = (
        draw.normal(size=(STATES, model.law.size)).astype(np.float32)
        if normal
        else draw_noise(model, jax.random.key(0), (STATES,))
    )
    times = draw.integers(problem.horizon, size=STATES).astype(np.int32)
    return states.astype(np.float32), fractions.astype(np.float32), noise, times
