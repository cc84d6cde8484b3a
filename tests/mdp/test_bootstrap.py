"""Bootstrap intervals against the normal law and the exact distribution of tiny samples."""

import numpy as np
import pytest

from ilbo.mdp.bootstrap import bootstrap, resample


def test_bootstrap_interval_is_that_of_the_mean_and_repeatable():
    values = np.random.default_rng(0).normal(5, 2, 400)
    low, high = bootstrap(values)
    error = values.std(ddof=1) / 20
    np.testing.assert_allclose(
        [low, high], values.mean() + 1.96 * error * np.array([-1, 1]), rtol=0.02
    )
    assert bootstrap(values) == (low, high)


def test_bootstrap_interval_covers_the_mean_as_often_as_it_says():
    draw = np.random.default_rng(1)
    covered = [
        low < 1.0 < high for low, high in (bootstrap(draw.exponential(1, 60)) for _ in range(300))
    ]
    assert 0.88 < np.mean(covered) < 0.98


def test_bootstrap_of_many_values_is_the_same_in_parts():
    values = np.random.default_rng(0).normal(size=5000)  # more than one part of resamples
    low, high = bootstrap(values)
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 / 5000**0.5, rel=0.1)


def test_resampled_means_of_two_values_follow_their_exact_law():
    means = resample(lambda weights: weights @ np.array([0.0, 1.0]), 2)
    shares = [np.mean(means == value) for value in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(shares, [0.25, 0.5, 0.25], atol=0.04)


def test_samples_are_resampled_independently():
    values = np.array([0.0, 1.0, 2.0])
    a, b = resample(lambda u, v: np.stack([u @ values, v @ values], axis=1), 3, 3).T
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.08
    assert a.var() == pytest.approx(values.var() / 3, rel=0.1)
