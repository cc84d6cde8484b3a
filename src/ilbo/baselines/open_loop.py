"""Straight-line plans: one open-loop sequence of actions, whatever the noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Key

from ilbo.errors import UserError
from ilbo.mdp.bounds import bounds_at, within
from ilbo.mdp.evaluate import Evaluation, summarise
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Action, Noise, State
from ilbo.mdp.simple import POLICIES
from ilbo.mdp.simulate import (
    PolicyFunction,
    Trajectories,
    as_key,
    discounted_sum,
    draw_noise,
    roll,
    step,
)

BATCH = 64
"""Noise sequences of one gradient step."""
STEPS = 600
RATE = 0.05
"""Initial learning rate, in units of the actions' range; it decays to 0."""


@dataclass(frozen=True)
class StraightLine:
    """An open-loop plan and its returns on noise that was not used to optimise it."""

    actions: Float[Array, "horizon m"]
    """Clipped into the bounds at the state reached."""
    evaluation: Evaluation


def straight_line(
    problem: Problem, key: Key[Array, ""] | int, episodes: int = 64, start: Any = None
) -> StraightLine:
    """The best single sequence of actions, by stochastic gradient ascent on its mean return.

    Args:
        problem: What to plan for.
        key: A JAX key, or a seed. The plan is tested on the noise that `evaluate` draws for it.
        episodes: Episodes of that test.
        start: A start state [n]; the problem's own if None.
    """
    state = problem.initial_state if start is None else problem.check_start(start)
    key = as_key(key)
    first_guesses = [
        _mean_actions(problem, policy, state) for policy in reference_policies(problem)
    ]
    plans = [_ascend(problem, guess, width, state) for guess, width in first_guesses]
    actions, _ = max(plans, key=lambda plan: float(plan[1]))
    noise = evaluation_noise(problem, key, episodes)
    tested = eqx.filter_jit(jax.vmap(lambda xi: follow(problem.exact, clip, actions, xi, state)))(
        noise
    )
    return StraightLine(actions, summarise(problem, tested))


def evaluation_noise(
    problem: Problem, key: Key[Array, ""], episodes: int
) -> Float[Array, "episodes horizon k"]:
    """The noise that `simulate` draws for the key."""
    if episodes < 1:
        raise UserError(f"The number of episodes must be at least 1, got {episodes}.")
    noise_key, _ = jax.random.split(key)
    return jnp.swapaxes(draw_noise(problem.exact, noise_key, (problem.horizon, episodes)), 0, 1)


def reference_policies(problem: Problem) -> list[PolicyFunction]:
    """Simple policies to start an ascent from: the midpoint, and the heuristic if there is one."""
    names = ["midpoint"]
    if type(problem.exact).heuristic is not Model.heuristic:
        names.append("heuristic")
    return [POLICIES[name](problem.exact) for name in names]


def clip(planned: Action, low: Action, high: Action) -> Action:
    return jnp.clip(planned, low, high)


def follow(
    model: Model,
    act: Callable[[Action, Action, Action], Action],
    plan: Float[Array, "horizon m"],
    noise: Float[Array, "horizon k"],
    start: State,
) -> Trajectories:
    """One episode along a plan; act(plan[t], low, high) is the action between the bounds there."""

    def one(
        carry: tuple[State, Bool[Array, ""]], inputs: tuple[Action, Noise, Array]
    ) -> tuple[tuple[State, Bool[Array, ""]], tuple[Array, ...]]:
        state, alive = carry
        planned, xi, time = inputs
        now = model.at(time)
        action = act(planned, *now.bounds(state))
        broken = jnp.where(alive, now.violations(state, action), 0)
        moved, reward, still = step(now, state, action, xi, alive)
        return (moved, still), (moved, action, reward, alive, broken)

    carry = (start, ~model.terminal(start))
    _, (states, *rest) = jax.lax.scan(one, carry, (plan, noise, jnp.arange(len(plan))))
    return Trajectories(jnp.concatenate([start[None], states]), *rest)


def _mean_actions(
    problem: Problem, policy: PolicyFunction, start: State
) -> tuple[Float[Array, "horizon m"], Float[Array, "horizon m"]]:
    """Mean actions of a policy over episodes, and the mean width of their bounds."""
    key = jax.random.key(0)
    noise = draw_noise(problem.exact, key, (problem.horizon, BATCH))
    starts = jnp.broadcast_to(start, (BATCH, problem.state_size))
    path = roll(problem.exact, policy, noise, key, starts)
    low, high = bounds_at(problem.exact, path.states[:, :-1], jnp.arange(problem.horizon))
    width = jnp.mean(within(low, high, 1.0) - within(low, high, 0.0), axis=0)
    return jnp.mean(path.actions, axis=0), jnp.maximum(width, 1e-6)


@eqx.filter_jit
def _ascend(
    problem: Problem,
    guess: Float[Array, "horizon m"],
    width: Float[Array, "horizon m"],
    start: State,
) -> tuple[Float[Array, "horizon m"], Float[Array, ""]]:
    """Ascends from a guess; the plan and its mean return on the last batches."""
    optimizer = optax.adam(optax.cosine_decay_schedule(RATE, STEPS))

    def mean_return(shift: Float[Array, "horizon m"], key: Key[Array, ""]) -> Float[Array, ""]:
        noise = draw_noise(problem.model, key, (BATCH, problem.horizon))
        plan = guess + width * shift
        paths = jax.vmap(lambda xi: follow(problem.model, clip, plan, xi, start))(noise)
        return jnp.mean(discounted_sum(problem, paths.rewards))

    def update(
        carry: tuple[Float[Array, "horizon m"], optax.OptState], key: Key[Array, ""]
    ) -> tuple[tuple[Float[Array, "horizon m"], optax.OptState], Float[Array, ""]]:
        shift, state = carry
        value, gradient = jax.value_and_grad(mean_return)(shift, key)
        updates, state = optimizer.update(jax.tree.map(jnp.negative, gradient), state)
        return (optax.apply_updates(shift, updates), state), value

    shift = jnp.zeros_like(guess)
    keys = jax.random.split(jax.random.key(1), STEPS)
    (shift, _), values = jax.lax.scan(update, (shift, optimizer.init(shift)), keys)
    return guess + width * shift, jnp.mean(values[-STEPS // 10 :])
