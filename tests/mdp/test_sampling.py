"""Draws: the generator equals JAX's own, the laws are exact, keys decide everything."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ilbo.mdp import sampling


def test_words_are_those_of_jax_keys():
    key = jax.random.key(42)
    a, b = sampling.words(key, 1000)
    np.testing.assert_array_equal(a ^ b, jax.random.bits(key, (1000,)))


def test_streams_and_keys_differ():
    draws = [
        np.asarray(sampling.words(jax.random.key(seed), 256, stream)[word])
        for seed in (0, 1)
        for stream in (0, 1)
        for word in (0, 1)
    ]
    for i, first in enumerate(draws):
        for second in draws[:i]:
            assert np.mean(first == second) < 0.02


@pytest.fixture(scope="module")
def every_cell():
    """One word of each of the 2²³ cells that a draw distinguishes: the whole law, not a sample."""
    return jnp.arange(2**23, dtype=jnp.uint32) << 9


def test_uniform_and_normal_are_exact_over_every_cell(every_cell):
    u = np.asarray(sampling._uniform(every_cell), np.float64)
    assert u.min() > 0
    assert u.max() < 1
    np.testing.assert_allclose([u.mean(), u.var()], [1 / 2, 1 / 12], rtol=1e-6)
    x = np.asarray(jax.jit(sampling._normal)(every_cell), np.float64)
    np.testing.assert_allclose([x.mean(), x.var()], [0, 1], atol=1e-6)
    some = slice(0, None, 4001)
    np.testing.assert_allclose(x[some], stats.norm.ppf(u[some]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [1.0, 1.8, 30.0])
def test_accepted_proposals_have_the_gamma_law_over_every_cell(every_cell, shape, monkeypatch):
    """The proposal's whole law, weighted by how often each is accepted, against the Gamma's."""
    monkeypatch.setattr(sampling, "words", lambda *_: (every_cell, every_cell))
    shapes = jnp.full(every_cell.shape, shape)
    proposal, accepted = sampling._propose_gamma(jax.random.key(0), shapes, 0)
    y = np.asarray(proposal, np.float64)
    d = shape - 1 / 3
    v = np.maximum(y / d, 1e-30)
    x = (np.cbrt(v) - 1) * np.sqrt(9 * d)
    weight = np.where(y > 0, np.exp(x**2 / 2 + d * (1 - v + np.log(v))), 0)
    assert weight.mean() > 0.95
    u = np.asarray(sampling._uniform(every_cell))
    assert np.mean(np.asarray(accepted) != (u < weight)) < 1e-4
    mean = np.average(y, weights=weight)
    np.testing.assert_allclose(mean, shape, rtol=1e-5)
    np.testing.assert_allclose(np.average((y - mean) ** 2, weights=weight), shape, rtol=1e-5)
    for at in stats.gamma(shape).ppf([0.01, 0.3, 0.5, 0.9, 0.999]):
        below = np.average(y <= at, weights=weight)
        np.testing.assert_allclose(below, stats.gamma(shape).cdf(at), atol=1e-5)


@pytest.mark.parametrize("shape", [0.05, 0.6, 1.0, 1.5, 2.9, 100.0])
def test_gamma_draws_follow_the_law(shape):
    draws = np.asarray(sampling.standard_gamma(jax.random.key(3), jnp.full(20_000, shape)))
    positive = draws[draws > 0]  # what is below 1e-38 is 0 in 32 bits
    assert len(positive) > 0.95 * len(draws)
    assert stats.kstest(draws, stats.gamma(shape).cdf).pvalue > 1e-3


def test_gamma_draws_follow_the_law_where_rejects_are_gathered():
    """Enough draws for both levels of gathering, of several shapes side by side."""
    shape = jnp.broadcast_to(jnp.array([1.0, 1.5, 3.0, 9.0]), (200_000, 4))
    draws = np.asarray(sampling.standard_gamma(jax.random.key(5), shape))
    for column, k in enumerate([1.0, 1.5, 3.0, 9.0]):
        assert stats.kstest(draws[:, column], stats.gamma(k).cdf).pvalue > 1e-3


def test_gathering_settles_what_does_not_fit_at_once():
    """All rows open, so that a gathering of one in four must be repeated."""
    key, rows = jax.random.key(0), 2**14 + 1000
    shape = jnp.full((rows, 8), 2.0)
    draw, _ = sampling._redraw(
        key, shape, jnp.full((rows, 8), -1.0), jnp.zeros((rows, 8), bool), jnp.uint32(1)
    )
    assert bool(jnp.all(draw > 0))
    assert stats.kstest(np.asarray(draw).ravel(), stats.gamma(2.0).cdf).pvalue > 1e-3


def test_equal_keys_give_equal_draws_alone_and_under_vmap():
    shape = jnp.linspace(0.5, 3.0, 37)
    keys = jax.random.split(jax.random.key(1), 5)
    batched = jax.vmap(lambda key: sampling.standard_gamma(key, shape))(keys)
    alone = jnp.stack([sampling.standard_gamma(key, shape) for key in keys])
    np.testing.assert_allclose(batched, alone, rtol=1e-6)
    assert len(np.unique(np.asarray(alone))) == alone.size


def test_draws_work_inside_scan_and_with_other_key_kinds():
    def draw(carry, key):
        return carry, sampling.standard_gamma(key, jnp.array([0.5, 2.0]))

    keys = jax.random.split(jax.random.key(0), 4)
    _, draws = jax.lax.scan(draw, 0, keys)
    np.testing.assert_allclose(
        draws[2], sampling.standard_gamma(keys[2], jnp.array([0.5, 2.0])), rtol=1e-6
    )
    other = jax.random.key(0, impl="rbg")
    assert sampling.normal(other, (3,)).shape == (3,)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9])
def test_any_number_of_draws(count):
    assert sampling.standard_gamma(jax.random.key(0), jnp.ones(count)).shape == (count,)


def test_shapes_that_make_no_sense_give_nan_and_spoil_no_others():
    shapes = jnp.array([-5.0, 2.0, -0.3, 0.0, 0.5, jnp.nan, jnp.inf, 30.0])
    draws = np.asarray(sampling.standard_gamma(jax.random.key(0), shapes))
    np.testing.assert_array_equal(
        np.isnan(draws), [True, False, True, True, False, True, True, False]
    )
    sound = jnp.where(jnp.isnan(draws), 1.0, shapes)
    again = np.asarray(sampling.standard_gamma(jax.random.key(0), sound))
    np.testing.assert_array_equal(draws[~np.isnan(draws)], again[~np.isnan(draws)])


def test_shapes_that_make_no_sense_give_nan_where_rejects_are_gathered():
    wrong = np.arange(2**18) % 7 == 0
    draws = sampling.standard_gamma(jax.random.key(0), jnp.where(wrong, -1.0, 2.0))
    np.testing.assert_array_equal(np.isnan(draws), wrong)
