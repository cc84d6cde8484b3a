"""Whole trajectories, batched and compiled, and the statistics of their returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ilbo import sampling
from ilbo.errors import UserError
from ilbo.model import Model, Problem

Policy = Callable[..., Array]
"""state [n] → action [m]; called with a key as well where it has a true `stochastic`."""


class Trajectories(eqx.Module):
    """Simulated episodes. After a terminal state, rewards are 0 and the state stands still."""

    states: Float[Array, "episodes horizon+1 n"]
    actions: Float[Array, "episodes horizon m"]
    rewards: Float[Array, "episodes horizon"]
    alive: Bool[Array, "episodes horizon"]
    """Whether the episode was still running when the action was taken."""
    violations: Int[Array, "episodes horizon"]
    """Constraints beyond the action bounds that the action broke."""


class Midpoint(eqx.Module):
    """The middle of the action bounds; where one is infinite, the other; where both are, 0."""

    model: Model

    def __call__(self, state: Array) -> Array:
        low, high = self.model.bounds(state)
        return within(low, high, 0.5)


class Random(eqx.Module):
    """Uniform within the action bounds; an infinite bound counts as 1 away from the other or 0."""

    model: Model
    stochastic = True

    def __call__(self, state: Array, key: Key[Array, ""]) -> Array:
        low, high = self.model.bounds(state)
        return within(low, high, sampling.uniform(key, low.shape))


class Heuristic(eqx.Module):
    """The model's hand-written controller."""

    model: Model

    def __call__(self, state: Array) -> Array:
        return self.model.heuristic(state)


POLICIES: dict[str, Callable[[Model], Policy]] = {
    "random": Random,
    "midpoint": Midpoint,
    "heuristic": Heuristic,
}


def within(low: Array, high: Array, fraction: Array | float) -> Array:
    """The action at the fraction of the way from low to high, missing bounds replaced."""
    has_low, has_high = jnp.isfinite(low), jnp.isfinite(high)
    bottom = jnp.where(has_low, low, jnp.where(has_high, high - 1, -1.0))
    top = jnp.where(has_high, high, jnp.where(has_low, low + 1, 1.0))
    return bottom + fraction * (top - bottom)


@eqx.filter_jit
def draw_noise(model: Model, key: Key[Array, ""], shape: tuple[int, ...]) -> Array:
    """Noise for many steps at once, [*shape, k]."""
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


def act(model: Model, policy, states: Float[Array, "b n"], key) -> Float[Array, "b m"]:
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


@eqx.filter_jit
def roll(model, policy, noise, key, starts) -> Trajectories:
    """Episodes along the noise [horizon, episodes, k]; the key is for stochastic policies."""

    def step(carry, inputs):
        states, alive = carry
        xi, k = inputs
        actions = act(model, policy, states, k)
        moved = jax.vmap(model.transition)(states, actions, xi)
        rewards = jnp.where(alive, jax.vmap(model.reward)(states, actions, moved), 0.0)
        broken = jnp.where(alive, jax.vmap(model.violations)(states, actions), 0)
        moved = jnp.where(alive[:, None], moved, states)
        return (moved, alive & ~jax.vmap(model.terminal)(moved)), (
            moved,
            actions,
            rewards,
            alive,
            broken,
        )

    carry = (starts, ~jax.vmap(model.terminal)(starts))
    _, (states, *rest) = jax.lax.scan(step, carry, (noise, jax.random.split(key, len(noise))))
    states = jnp.concatenate([starts[None], states])
    return Trajectories(*(jnp.swapaxes(x, 0, 1) for x in (states, *rest)))


class Trial(NamedTuple):
    """Episodes to put policies through."""

    noise: Float[Array, "horizon b k"]
    starts: Float[Array, "b n"]


def returns(problem: Problem, policy, trial: Trial) -> Float[Array, " b"]:
    """The returns of a policy that draws nothing itself, on the exact model."""
    no_draws = jax.random.key(0)
    path = roll(problem.exact, policy, trial.noise, no_draws, trial.starts)
    return jnp.sum(path.rewards, axis=1)


def simulate(
    problem: Problem,
    policy: Policy,
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
    if episodes < 1:
        raise UserError(f"The number of episodes must be at least 1, got {episodes}.")
    state = problem.initial_state if start is None else problem.check_start(start)
    if state.ndim == 2 and len(state) != episodes:
        raise UserError(f"There are {len(state)} start states for {episodes} episodes.")
    starts = jnp.broadcast_to(state, (episodes, problem.state_size))
    noise_key, policy_key = jax.random.split(as_key(key))
    noise = draw_noise(problem.exact, noise_key, (problem.horizon, episodes))
    return roll(problem.exact, policy, noise, policy_key, starts)


@dataclass(frozen=True)
class Evaluation:
    """Statistics of a policy's episodes. Returns are undiscounted sums of rewards unless said."""

    episodes: int
    mean: float
    std: float
    """Standard deviation between episodes."""
    ci95: tuple[float, float]
    """95 % bootstrap interval of the mean."""
    discounted_mean: float
    discounted_std: float
    violations: float
    """Mean number of broken constraints an episode, beyond the action bounds."""
    returns: np.ndarray = field(repr=False)
    """[episodes] the return of each."""
    discounted_returns: np.ndarray = field(repr=False)

    def quantiles(self, at=(0.05, 0.25, 0.5, 0.75, 0.95)) -> dict[float, float]:
        return {q: float(np.quantile(self.returns, q)) for q in at}


@dataclass(frozen=True)
class Comparison:
    """Two policies on equal noise: first minus second, so positive means the first is better."""

    difference: float
    ci95: tuple[float, float]
    first: Evaluation
    second: Evaluation


def evaluate(
    problem: Problem,
    policy: Policy,
    key: Key[Array, ""] | int,
    episodes: int = 64,
    start: Any = None,
) -> Evaluation:
    """Simulates and sums up; the arguments are those of `simulate`.

    >>> problem = ilbo.make("navigation-3")
    >>> result = evaluate(problem, problem.model.heuristic, 0, episodes=512)
    >>> -80 < result.mean < -77
    True
    """
    return summarise(problem, simulate(problem, policy, key, episodes, start))


def summarise(problem: Problem, trajectories: Trajectories) -> Evaluation:
    rewards = np.asarray(trajectories.rewards, np.float64)
    bad = np.argwhere(~np.isfinite(rewards))
    if len(bad):
        episode, step = bad[0]
        action = np.asarray(trajectories.actions[episode, step])
        cause = (
            "the model's reward or transition is not finite there"
            if np.isfinite(action).all()
            else f"the policy's action there is {action}"
        )
        raise UserError(
            f"The reward of {problem.name} is {rewards[episode, step]} at step {step} of an "
            f"episode: {cause}."
        )
    returns = rewards.sum(axis=1)
    discounted = rewards @ problem.discount ** np.arange(problem.horizon)
    return Evaluation(
        episodes=len(returns),
        mean=float(returns.mean()),
        std=float(returns.std(ddof=1)) if len(returns) > 1 else 0.0,
        ci95=bootstrap(returns),
        discounted_mean=float(discounted.mean()),
        discounted_std=float(discounted.std(ddof=1)) if len(returns) > 1 else 0.0,
        violations=float(np.asarray(trajectories.violations).sum(axis=1).mean()),
        returns=returns,
        discounted_returns=discounted,
    )


def compare(
    problem: Problem,
    first: Policy,
    second: Policy,
    key: Key[Array, ""] | int,
    episodes: int = 64,
    start: Any = None,
) -> Comparison:
    """Evaluates both policies on equal noise and gives the paired difference with its interval."""
    a = evaluate(problem, first, key, episodes, start)
    b = evaluate(problem, second, key, episodes, start)
    difference = a.returns - b.returns
    return Comparison(float(difference.mean()), bootstrap(difference), a, b)


def bootstrap(values: np.ndarray, resamples: int = 2000, level: float = 0.95):
    """Percentile bootstrap interval of the mean; the same values always give the same interval."""
    draw = np.random.default_rng(0)
    n = len(values)
    chunk = max(1, 2**22 // n)  # bounds the memory of the resampled indices
    means = np.concatenate(
        [
            values[draw.integers(n, size=(min(chunk, resamples - done), n))].mean(axis=1)
            for done in range(0, resamples, chunk)
        ]
    )
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)
