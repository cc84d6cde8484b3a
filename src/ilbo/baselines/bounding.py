"""How good a policy is: what it earns, and what no policy can pass.

The limit is hindsight that pays for what it knows of the noise (`penalised_hindsight`), with the
policy's own value function, fitted, or hindsight alone, whichever is the tighter on noise that the
limit is not taken on. Charges cost a policy nothing in the mean, so the limit minus what the policy
earns *with the charges on the same noise* has the right mean and little spread. The same charges
take most of the noise out of what the policy earns; the sum of the two is the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from ilbo.baselines.dynamic import earned
from ilbo.baselines.limit import STEPS, Limit, hindsight
from ilbo.baselines.penalty import DRAWS, EPISODES, Narrow, Value, charged, fit_value
from ilbo.errors import UserError, whole
from ilbo.mdp.bootstrap import bootstrap
from ilbo.mdp.numbers import precise, with_error
from ilbo.mdp.outside import NumpyPolicy
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import KeyOrSeed, Whole
from ilbo.mdp.simulate import PolicyFunction, as_key
from ilbo.mdp.uncertain import check_known

SEQUENCES = 32
"""Of noise, for the limit."""
PILOT = 8
"""Of noise, to choose the charges by."""
FEW_DRAWS = 4
"""For the expectation in a charge, where they may be enough: two pairs of opposite draws are, where
the value is quadratic, and cost an eighth."""
ENOUGH, BETTER = 0.01, 0.9
"""Charges that leave a gap of less than this share of the mean need no others beside them; others
must leave less than this share of their gap."""
EARNED = 2048
"""Episodes that the policy's mean is taken on."""
MOST_DRAWS = 2**14
"""Numbers drawn for an episode of these, beside its own: for the expectations in its charges."""
MOST_FEATURES = EPISODES // 3
"""Of a quadratic value function that can be fitted."""
ROUNDS = 6
"""Of random search at most; `last_gain` says what the end of the search still added."""
TIGHT = 0.25
"""A bound that is farther from the policy than this share of itself says little."""


@dataclass(frozen=True)
class Bound:
    """What a policy earns, discounted, and what no policy can pass, by an estimate."""

    policy_mean: float
    """What the policy earns, with its charges where these make it more certain."""
    mean: float
    """The bound: the policy's mean and the gap."""
    standard_error: float
    """Of the bound, as an estimate: of both its parts, and what the search may lack."""
    gap: float
    gap_ci95: tuple[float, float]
    """95 % bootstrap interval of the gap over noise sequences."""
    share: float | None
    """The upper end of the gap, with what the search may lack, as a share of the bound: the
    policy is at most so far from the best possible. None where the bound is not tight."""
    charges: str
    """"fitted value" or "none": what the noise was charged by."""
    episodes: int
    last_gain: float
    """What the end of the search for best actions added: near 0 where it has converged."""

    @property
    def sentence(self) -> str:
        """
        >>> bound = Bound(-2177.0, -2110.0, 1.0, 67.0, (60.0, 80.0), 0.038, "fitted value", 32, 0.0)
        >>> bound.sentence
        '-2,177.00, at most 3.8 % from the best possible (none passes -2,110.00 ± 1.00)'
        """
        best = with_error(self.mean, self.standard_error)
        return f"{precise(self.policy_mean)}, {self.distance} (none passes {best})"

    @property
    def distance(self) -> str:
        """How far the best possible is at most, in words."""
        if self.share is None:
            return "no tight bound known"
        return f"at most {max(100 * self.share, 0.01):.2g} % from the best possible"


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
            2,048 are simulated. They give way to charged ones, where these vary less.
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
    keys = [jax.random.fold_in(key, i) for i in range(6)]
    plain = policy_returns
    if plain is None:
        plain = earned(problem, policy, keys[1], EARNED, start)
    value = None
    if problem.exact.law.size and _features(problem.state_size) <= MOST_FEATURES:
        value = fit_value(problem, policy, keys[2], start=start)
    chosen = _choose(_rivals(problem, policy, value, start), plain.mean(), keys[3], steps)
    found, limit = chosen.gaps(keys[4], count, steps, rounds)
    returns = plain
    if value is not None:
        most = MOST_DRAWS // (problem.horizon * problem.exact.law.size)
        draws = int(np.clip(most, DRAWS, 256)) // 2 * 2  # in pairs
        by_draws = charged(problem, value, start, draws)
        returns = min(plain, earned(by_draws, Narrow(policy), keys[5], EARNED), key=_squared_error)
    gap, interval = float(found.mean()), bootstrap(found)
    policy_mean = float(returns.mean())
    mean = policy_mean + gap
    error = float(np.sqrt(_squared_error(found) + _squared_error(returns))) + limit.lacking
    far = (interval[1] + limit.lacking) / abs(mean) if mean else np.inf
    share = far if mean * policy_mean > 0 and far <= TIGHT else None
    return Bound(
        policy_mean, mean, error, gap, interval, share, chosen.name, count, limit.last_gain
    )


@dataclass(frozen=True)
class Charges:
    """A problem in which noise is charged for, or is not, and the policy in it."""

    problem: Problem
    policy: PolicyFunction
    value: Value | None = None
    """What is charged by."""
    start: Any = None

    @property
    def name(self) -> str:
        return "none" if self.value is None else "fitted value"

    def gaps(
        self, key: Any, episodes: int, steps: int, rounds: int
    ) -> tuple[Float[np.ndarray, " e"], Limit]:
        """How far the policy is below hindsight on each noise sequence, and hindsight."""
        own = [self.policy]
        best = hindsight(self.problem, key, episodes, self.start, steps, rounds, own)
        ours = earned(self.problem, self.policy, key, episodes, self.start)
        return best.returns - ours, best


def _rivals(
    problem: Problem, policy: PolicyFunction, value: Value | None, start: Any
) -> list[Charges]:
    """What may be charged; what costs most to try comes last."""
    none = Charges(problem, policy, None, start)
    if value is None:
        return [none]
    own = Narrow(policy)
    few, many = (Charges(charged(problem, value, start, d), own, value) for d in (FEW_DRAWS, None))
    return [few, none, many] if problem.exact.law.gaussian.all() else [none, many]


def _choose(rivals: Sequence[Charges], mean: float, key: Any, steps: int) -> Charges:
    """The surest to be tight, by a pilot: mean and two standard errors of the gap are the least. Or
    the first that is tight enough."""
    best, least = rivals[0], np.inf
    for rival in rivals if len(rivals) > 1 else ():
        gaps, _ = rival.gaps(key, PILOT, steps, 0)
        gap = float(gaps.mean() + 2 * np.sqrt(_squared_error(gaps)))
        best, least = (rival, gap) if gap < BETTER * least else (best, least)
        if least <= ENOUGH * abs(mean):
            break
    return best


def _features(n: int) -> int:
    """Of a quadratic function of n components."""
    return (n + 1) * (n + 2) // 2


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
