"""What stands behind the fence is compared with the plain expression."""

import functools

import jax
import numpy as np
import pytest

from ilbo._cpu.products import across
from ilbo._cpu.sums import running_sum, sum_of_squares


@pytest.mark.parametrize("rows", [3, 40])
@pytest.mark.parametrize("batch", [(), (5,), (2, 5)])
def test_products_across_rows(batch, rows):
    """Of few and of many, which go different ways, and of those that only vmap makes many."""
    x = jax.random.normal(jax.random.key(0), (6, *batch, 7))
    matrix = jax.random.normal(jax.random.key(1), (6, rows, 7))
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)
    close(across(x, matrix[0]), np.einsum("...n,mn->...m", x, matrix[0]))
    shared = jax.vmap(across, (0, None))(x, matrix[0])
    close(shared, np.einsum("...n,mn->...m", x, matrix[0]))
    close(jax.vmap(across)(x, matrix), np.einsum("k...n,kmn->k...m", x, matrix))
    close(jax.vmap(across, (None, 0))(x[0], matrix), np.einsum("...n,kmn->k...m", x[0], matrix))


@pytest.mark.parametrize("shape", [(), (5,), (33,), (64, 96)])
def test_sum_of_squares(shape):
    x = jax.random.normal(jax.random.key(0), shape)
    np.testing.assert_allclose(sum_of_squares(x), np.sum(np.float64(x) ** 2), rtol=1e-5)


@pytest.mark.parametrize("length", [1, 512, 513])
def test_running_sum(length):
    x = jax.random.normal(jax.random.key(0), (length,))
    np.testing.assert_allclose(running_sum(x), np.cumsum(np.float64(x)), rtol=1e-4, atol=1e-4)
