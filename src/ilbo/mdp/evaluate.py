"""Statistics of the returns of policies, alone and paired on equal noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ilbo.errors import UserError
from ilbo.mdp.bootstrap import bootstrap, drawn, interval, resample
from ilbo.mdp.broken import Broken, broken_constraints
from ilbo.mdp.objective import Mean, Objective, objective_of
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import AnyPolicy, KeyOrSeed, Whole
from ilbo.mdp.simulate import Trajectories, simulate
from ilbo.mdp.spending import Keeping, Spent, spending


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
    """The same with the problem's own discount: its objective."""
    discounted_std: float
    violations: float
    """Mean number of broken constraints per episode, beyond the action bounds."""
    returns: Float[np.ndarray, " episodes"] = field(repr=False)
    """The return of each."""
    discounted_returns: Float[np.ndarray, " episodes"] = field(repr=False)
    broken: tuple[Broken, ...] = field(default=(), repr=False)
    """The constraints that were broken, where the model tells them apart."""
    costs: tuple[Spent, ...] = ()
    """What the episodes cost, of each kind that the model has."""
    limits: tuple[Keeping, ...] = ()
    """How the limits of the problem are kept."""

    def quantiles(self, at: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)) -> dict[float, float]:
        return {q: float(np.quantile(self.returns, q)) for q in at}

    def value(self, objective: str | Objective) -> float:
        """An objective of the returns, discounted as the problem says, such as "entropic:0.1"."""
        return float(objective_of(objective).value(self.discounted_returns))

    def cvar(self, share: float = 0.1) -> float:
        """The mean return of the worst episodes, this share of all: conditional value at risk.

        Where the share is not a whole number of episodes, the last of them counts in part.
        """
        if not 0 < share <= 1:
            raise UserError(f"The share of the worst episodes must be in (0, 1], got {share}.")
        worst, count = np.sort(self.returns), share * self.episodes
        weights = np.clip(count - np.arange(self.episodes), 0.0, 1.0)
        return float(weights @ worst / weights.sum())


@dataclass(frozen=True)
class Comparison:
    """Two policies on equal noise: first minus second, so positive means the first is better.

    Returns are discounted as the problem says.
    """

    difference: float
    """Of the means, or of another objective."""
    ci95: tuple[float, float]
    first: Evaluation
    second: Evaluation


def evaluate(
    problem: Problem,
    policy: AnyPolicy,
    key: KeyOrSeed,
    episodes: Whole = 64,
    start: Any = None,
) -> Evaluation:
    """Simulates and summarises; the arguments are those of `simulate`.

    >>> problem = ilbo.make("navigation-3")
    >>> result = evaluate(problem, problem.model.heuristic, 0, episodes=512)
    >>> -80 < result.mean < -77
    True
    """
    return summarise(problem, simulate(problem, policy, key, episodes, start))


def summarise(problem: Problem, trajectories: Trajectories) -> Evaluation:
    """Statistics of simulated episodes; a `UserError` where a number of theirs is not finite."""
    returns, discounted = returns_of(problem, trajectories)
    costs, limits = spending(problem, trajectories)
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
        broken=broken_constraints(problem, trajectories),
        costs=costs,
        limits=limits,
    )


def returns_of(
    problem: Problem, trajectories: Trajectories
) -> tuple[Float[np.ndarray, " episodes"], Float[np.ndarray, " episodes"]]:
    """The return of each episode, and the same discounted as the problem says; a `UserError` where
    a number of the episodes is not finite."""
    _check_finite(problem, trajectories)
    rewards = np.asarray(trajectories.rewards, np.float64)
    returns = rewards.sum(axis=1)
    if problem.discount == 1:
        return returns, returns
    return returns, rewards @ problem.discount ** np.arange(problem.horizon)


def _check_finite(problem: Problem, trajectories: Trajectories) -> None:
    """Says who is the first to answer with a number that is not finite, the policy or the model.

    A model may well earn a finite reward with an action that is not a number, or in a state that
    is none: such an episode is worth nothing, whatever its return.
    """
    alive, rewards = np.asarray(trajectories.alive), np.asarray(trajectories.rewards)
    actions, states = np.asarray(trajectories.actions), np.asarray(trajectories.states)
    sound = np.isfinite(actions).all(axis=2) & np.isfinite(states[:, 1:]).all(axis=2)
    bad = np.argwhere(alive & ~(sound & np.isfinite(rewards)))
    if not len(bad):
        return
    episode, step = (int(i) for i in bad[0])
    state, action, moved = states[episode, step], actions[episode, step], states[episode, step + 1]
    if not np.isfinite(action).all():
        unbounded = np.isnan(problem.exact.at(jnp.asarray(step)).bounds(jnp.asarray(state))).any(
            axis=0
        )
        whose, names, values = "policy's action", problem.action_names, action
        if unbounded.any():  # to clip into such bounds makes any action NaN
            whose, values = "model's bound of the action", np.where(unbounded, np.nan, 0.0)
    elif not np.isfinite(moved).all():
        whose, names, values = "model's next state", problem.state_names, moved
    else:
        whose, names, values = "model's reward", (), rewards[episode, step : step + 1]
    i = int(np.argmin(np.isfinite(values)))
    component = f" {names[i]!r}" if names else ""
    raise UserError(
        f"The {whose}{component} is {values[i]} at step {step} of episode {episode} of "
        f"{problem.name}, where the state is {_written(state)}: no return can be given."
    )


def _written(vector: np.ndarray) -> str:
    numbers = [f"{x:.4g}" for x in vector]
    return f"[{', '.join(numbers if len(numbers) <= 6 else [*numbers[:3], '...', numbers[-1]])}]"


def compare(
    problem: Problem,
    first: AnyPolicy,
    second: AnyPolicy,
    key: KeyOrSeed,
    episodes: Whole = 64,
    start: Any = None,
    objective: str | Objective = "mean",
) -> Comparison:
    """Evaluates both policies on equal noise and gives the paired difference with its interval: of
    their means, or of another objective, such as "cvar:0.1"."""
    a = evaluate(problem, first, key, episodes, start)
    b = evaluate(problem, second, key, episodes, start)
    found = paired(objective, a.discounted_returns, b.discounted_returns)
    return Comparison(*found, a, b)


def paired(
    objective: str | Objective,
    first: Float[np.ndarray, " episodes"],
    second: Float[np.ndarray, " episodes"],
) -> tuple[float, tuple[float, float]]:
    """The difference of an objective of two samples on equal noise, and its 95 % interval."""
    goal = objective_of(objective)
    if isinstance(goal, Mean):
        difference = first - second
        return float(difference.mean()), bootstrap(difference)

    def differences(weights: np.ndarray) -> np.ndarray:
        rows = drawn(weights)
        return np.array([goal.value(first[row]) - goal.value(second[row]) for row in rows])

    difference = float(goal.value(first) - goal.value(second))
    return difference, interval(resample(differences, len(first)))
