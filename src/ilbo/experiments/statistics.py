"""Statistics over training runs: intervals, improvement, episodes to a quality, drops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

RESAMPLES = 4000


class Estimate(NamedTuple):
    """A figure and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


class Reach(NamedTuple):
    """When runs reached a quality."""

    reached: int
    """How many of them did."""
    runs: int
    median: float
    """Median episodes over all runs, a run that never got there counting as infinite."""


def mean(values: Sequence[float]) -> Estimate:
    """The mean over runs; the interval from resampling the runs."""
    runs = np.asarray(values, float)
    draw = np.random.default_rng(0)
    means = runs[draw.integers(len(runs), size=(RESAMPLES, len(runs)))].mean(axis=1)
    return _estimate(float(runs.mean()), means)


def spread(values: Sequence[float]) -> float:
    """Standard deviation between runs; 0 where there is only one."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def probability_of_improvement(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """How likely a run of the first beats a run of the second, ties counting half.

    The share of all pairs of runs; the interval from resampling the runs of both.

    >>> probability_of_improvement([3.0, 4.0], [1.0, 3.0]).value
    0.875
    """
    a, b = np.asarray(first, float), np.asarray(second, float)
    draw = np.random.default_rng(0)
    wins = (a[:, None] > b).astype(float) + 0.5 * (a[:, None] == b)
    rows = draw.integers(len(a), size=(RESAMPLES, len(a)))
    columns = draw.integers(len(b), size=(RESAMPLES, len(b)))
    resampled = wins[rows[:, :, None], columns[:, None, :]].mean(axis=(1, 2))
    return _estimate(float(wins.mean()), resampled)


def episodes_to_reach(episodes: Sequence[int], values: Sequence[float], quality: float) -> float:
    """Episodes of the first test whose value is at least the quality; infinite if there is none.

    >>> episodes_to_reach([10, 20, 30], [-9.0, -5.0, -6.0], quality=-5.0)
    20.0
    """
    reached = np.flatnonzero(np.asarray(values, float) >= quality)
    return float(episodes[reached[0]]) if len(reached) else np.inf


def reach(curves: Sequence[tuple[Sequence[int], Sequence[float]]], quality: float) -> Reach:
    """When the runs, each given as its episodes and values, reached the quality."""
    when = [episodes_to_reach(episodes, values, quality) for episodes, values in curves]
    ordered = sorted(when)
    middle = (ordered[(len(when) - 1) // 2], ordered[len(when) // 2])
    median = float(np.mean(middle)) if np.isfinite(middle[1]) else np.inf
    return Reach(int(np.isfinite(when).sum()), len(when), median)


def largest_drop(values: Sequence[float]) -> float:
    """How far a run ever fell below what it had reached before.

    >>> largest_drop([-10.0, -4.0, -7.0, -5.0, -1.0])
    3.0
    """
    curve = np.asarray(values, float)
    return float(np.max(np.maximum.accumulate(curve) - curve))


def _estimate(value: float, resampled: Float[np.ndarray, " resamples"]) -> Estimate:
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Estimate(value, float(low), float(high))
