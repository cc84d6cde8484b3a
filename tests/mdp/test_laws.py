"""The laws of base noise: draws and densities against SciPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ilbo.mdp.laws.beta import Beta
from ilbo.mdp.laws.standard import Cauchy, Exponential, Gumbel, Laplace, Uniform
from ilbo.mdp.laws.student import Student
from ilbo.mdp.laws.weibull import Weibull

SHAPE = jnp.array([0.7, 1.0, 3.5])
LAWS = {
    "uniform": (Uniform(3), [stats.uniform()] * 3),
    "exponential": (Exponential(3), [stats.expon()] * 3),
    "laplace": (Laplace(3), [stats.laplace()] * 3),
    "gumbel": (Gumbel(3), [stats.gumbel_r()] * 3),
    "cauchy": (Cauchy(3), [stats.cauchy()] * 3),
    "weibull": (Weibull(SHAPE), [stats.weibull_min(k) for k in (0.7, 1.0, 3.5)]),
    "beta": (
        Beta(SHAPE, SHAPE[::-1]),
        [stats.beta(0.7, 3.5), stats.beta(1, 1), stats.beta(3.5, 0.7)],
    ),
    "student": (Student(SHAPE), [stats.t(k) for k in (0.7, 1.0, 3.5)]),
}


@pytest.mark.parametrize("name", LAWS)
def test_draws_follow_the_law(name):
    law, expected = LAWS[name]
    draws = np.asarray(law.sample(jax.random.key(1), (4000,)))
    assert draws.shape == (4000, law.size)
    for column, reference in zip(draws.T, expected, strict=True):
        assert stats.kstest(column, reference.cdf).pvalue > 1e-4


@pytest.mark.parametrize("name", LAWS)
def test_log_density_of_each_component(name):
    law, expected = LAWS[name]
    points = np.array([[-2.5, -0.1, 3.0], [0.2, 0.5, 0.9], [1.5, 4.0, 7.0]], np.float32)
    for point in points:
        wanted = [d.logpdf(x) for d, x in zip(expected, point, strict=True)]
        np.testing.assert_allclose(law.log_prob(jnp.asarray(point)), wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", LAWS)
def test_gradient_of_log_density_is_finite_outside_the_support(name):
    law, _ = LAWS[name]
    slope = jax.jacfwd(law.log_prob)(jnp.array([-1.0, 0.5, 2.0]))
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("name", LAWS)
def test_reference_lies_in_the_upper_tail(name):
    law, expected = LAWS[name]
    for value, reference in zip(law.reference, expected, strict=True):
        assert 0.95 < reference.cdf(float(value)) <= 1
