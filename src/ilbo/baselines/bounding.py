"""How good a policy is: what it earns, and what no policy can pass.

The limit is hindsight that pays for what it knows of the noise (`penalised_hindsight`), with the
policy's own value function, fitted, or hindsight alone, whichever is the tighter on noise that the
limit is not taken on. Charges cost a policy nothing in the mean, so the limit minus what the policy
earns *with the charges on the same noise* has the right mean and little spread. What it adds to the
policy's plain return is the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ilbo.baselines.dynamic import earned
from ilbo.baselines.limit import STEPS, hindsight
from ilbo.baselines.penalty import EPISODES, Narrow, Value, charged, fit_value
from ilbo.errors import UserError, whole
from ilbo.mdp.bootstrap import bootstrap
from ilbo.mdp.numbers import precise
from ilbo.mdp.outside import NumpyPolicy
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import KeyOrSeed, Whole
from ilbo.mdp.simulate import PolicyFunction, as_key
from ilbo.mdp.uncertain import check_known

SEQUENCES = 32
"""Of noise, for the limit."""
PILOT = 8
"""Of noise, to choose the value function by."""
MOST_FEATURES = EPISODES // 3
"""Of a quadratic value function that can be fitted."""
ROUNDS = 6
"""Of random search at most; `last_gain` says what the last of them still added."""
TIGHT = 0.25
"""A bound that is farther from the policy than this share of itself says little."""


@dataclass(frozen=True)
class Bound:
    """What a policy earns, discounted, and what no policy can pass, by an estimate."""

    policy_mean: float
    mean: float
    """The bound: the policy's mean and the gap."""
    standard_error: float
    """Of the bound, as an estimate: of both its parts."""
    gap: float
    gap_ci95: tuple[float, float]
    """95 % bootstrap interval of the gap over noise sequences."""
    share: float | None
    """The upper end of the gap as a share of the bound: the policy is at most so far from the best
    possible. None where the bound is not tight."""
    charges: str
    """"fitted value" or "none": what the noise was charged by."""
    episodes: int
    last_gain: float
    """What the last rounds of the search for best actions added: near 0 where it has converged."""

    @property
    def sentence(self) -> str:
        """
        >>> bound = Bound(-2177.0, -2110.0, 1.0, 67.0, (60.0, 80.0), 0.038, "fitted value", 32, 0.0)
        >>> bound.sentence
        '-2,177.00, at most 3.8 % from the best possible'
        """
        if self.share is None:
            return (
                f"{precise(self.policy_mean)}; no tight bound known: none passes "
                f"{precise(self.mean)} in the mean"
            )
        share = f"{max(100 * self.share, 0.01):.2g}"
        return f"{precise(self.policy_mean)}, at most {share} % from the best possible"


def bound(
    problem: Problem,
    policy: PolicyFunction,
    key: KeyOrSeed = 0,
    episodes: Whole = SEQUENCES,
    start: Any = None,
    policy_returns: Float[np.ndarray, " any"] | None = None,
    steps: int = STEPS,
    rounds: int = ROUNDS,
) -> Bound:
    """How far a policy can be from the best possible.

    Args:
        problem: What the policy acts in.
        policy: A policy; the better it is, the tighter the bound.
        key: A JAX key, or a seed, of the noise.
        episodes: Noise sequences that best actions are sought for; at least 2.
        start: A start state [n]; the problem's own if None.
        policy_returns: Discounted returns of the policy in any episodes, where they are known; else
            those of 2,048 are simulated.
        steps, rounds: Of the search, as in `hindsight`.
    """
    check_known(problem, "the bound")
    count = whole(episodes, "The number of noise sequences")
    if count < 2:
        raise UserError(f"A bound needs at least 2 noise sequences, got {count}.")
    if getattr(policy, "stochastic", False) or isinstance(policy, NumpyPolicy):
        raise UserError("A bound needs a policy that draws nothing and that JAX can trace.")
    if getattr(policy, "sees_return", False):
        raise UserError("A bound is of the mean, and needs a policy that sees the state alone.")
    key = as_key(key)
    if policy_returns is None:
        policy_returns = earned(problem, policy, jax.random.fold_in(key, 1), 2048, start)
    values: dict[str, Value | None] = {"none": None}
    n = problem.state_size
    if problem.exact.law.size and (n + 1) * (n + 2) // 2 <= MOST_FEATURES:
        values["fitted value"] = fit_value(problem, policy, jax.random.fold_in(key, 2), start=start)
    kinds = {name: _charged(problem, policy, value) for name, value in values.items()}
    begin = None if start is None else problem.check_start(start)

    def gaps(name: str, key: Any, count: int) -> tuple[Float[np.ndarray, " e"], float]:
        kind, own = kinds[name]
        at = begin if begin is None or kind is problem else jnp.append(begin, jnp.zeros(2))
        best = hindsight(kind, key, count, at, steps, rounds, [own])
        return best.returns - earned(kind, own, key, count, at), best.last_gain

    chosen = "none"
    if len(kinds) > 1:
        pilot = jax.random.fold_in(key, 3)
        chosen = min(kinds, key=lambda name: float(gaps(name, pilot, PILOT)[0].mean()))
    found, last_gain = gaps(chosen, jax.random.fold_in(key, 4), count)
    gap, interval = float(found.mean()), bootstrap(found)
    policy_mean = float(policy_returns.mean())
    mean = policy_mean + gap
    error = float(np.sqrt(_squared_error(found) + _squared_error(policy_returns)))
    far = interval[1] / abs(mean) if mean else np.inf
    same_sign = mean * policy_mean > 0
    share = far if same_sign and far <= TIGHT else None
    return Bound(policy_mean, mean, error, gap, interval, share, chosen, count, last_gain)


def bound_best(
    problem: Problem,
    policies: Sequence[PolicyFunction],
    returns: Sequence[Float[np.ndarray, " any"]],
    key: KeyOrSeed,
    start: Any = None,
) -> Bound:
    """The bound of the policy that earns most; `returns` are the discounted ones of each."""
    best = max(range(len(policies)), key=lambda i: float(returns[i].mean()))
    return bound(problem, policies[best], key, start=start, policy_returns=returns[best])


def _squared_error(values: Float[np.ndarray, " any"]) -> float:
    """Of their mean."""
    return float(values.var(ddof=1) / len(values)) if len(values) > 1 else float("nan")


def _charged(
    problem: Problem, policy: PolicyFunction, value: Value | None
) -> tuple[Problem, PolicyFunction]:
    """The problem with its charges, and the policy in it."""
    if value is None:
        return problem, policy
    return charged(problem, value), Narrow(policy, problem.state_size)
