"""The bootstrap: percentile intervals of statistics of samples, the same for the same samples."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

RESAMPLES = 2000
CHUNK = 2**22
"""Draws held in memory at once."""


def bootstrap(values: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of the mean of values [n].

    >>> bootstrap(np.array([1.0, 1.0, 1.0]))
    (1.0, 1.0)
    """
    return interval(resample(lambda weights: weights @ values, len(values)))


def resample(statistic: Callable[..., np.ndarray], *sizes: int) -> np.ndarray:
    """The bootstrap distribution [RESAMPLES, ...] of a statistic of independent samples.

    Args:
        statistic: Called with weights [r, n] for each sample, whose sums over n are 1: the share
            of each value in each of r resamples. Returns the statistic of each resample [r, ...].
        sizes: The sizes n of the samples.
    """
    draw = np.random.default_rng(0)
    chunk = max(1, CHUNK // max(sizes))
    counts = [min(chunk, RESAMPLES - done) for done in range(0, RESAMPLES, chunk)]
    return np.concatenate([statistic(*(_weights(draw, n, r) for n in sizes)) for r in counts])


def interval(distribution: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """The central interval of a bootstrap distribution [resamples] that holds the level."""
    tail = (1 - level) / 2
    low, high = np.quantile(distribution, [tail, 1 - tail])
    return float(low), float(high)


def _weights(draw: np.random.Generator, n: int, resamples: int) -> np.ndarray:
    """[resamples, n] how often each of n values is drawn in n draws with replacement, over n."""
    drawn = draw.integers(n, size=(resamples, n)) + n * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * n).reshape(resamples, n) / n


def drawn(weights: np.ndarray) -> list[np.ndarray]:
    """The places [n] in each resample, each as often as it was drawn, of weights [r, n]: for
    statistics that are no weighted sums."""
    places = np.arange(weights.shape[1])
    return [np.repeat(places, np.rint(row * len(places)).astype(int)) for row in weights]
