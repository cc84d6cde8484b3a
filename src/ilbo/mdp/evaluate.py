"""Statistics of the returns of policies, alone and paired on equal noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Key

from ilbo.errors import UserError
from ilbo.mdp.problem import Problem
from ilbo.mdp.simulate import Policy, Trajectories, simulate


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
    returns: Float[np.ndarray, " episodes"] = field(repr=False)
    """The return of each."""
    discounted_returns: Float[np.ndarray, " episodes"] = field(repr=False)

    def quantiles(self, at: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)) -> dict[float, float]:
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


def bootstrap(
    values: Float[np.ndarray, " n"], resamples: int = 2000, level: float = 0.95
) -> tuple[float, float]:
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
