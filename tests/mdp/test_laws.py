"""The laws of base noise: draws and densities against SciPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ilbo
from ilbo.mdp.laws.beta import Beta
from ilbo.mdp.laws.gamma import Gamma
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


SHAPED = {
    "shape of Gamma": Gamma,
    "shape of Weibull": Weibull,
    "degrees of freedom of Student": Student,
    "a of Beta": lambda a: Beta(a, [1.0] * np.size(a)),
    "b of Beta": lambda b: Beta([1.0] * np.size(b), b),
}


@pytest.mark.parametrize("what", SHAPED)
@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([2.0, -1.0], "must be positive and finite, got -1"),
        (np.array([0.0]), "must be positive and finite, got 0"),
        ((np.nan,), "must be positive and finite, got nan"),
        (jnp.array([jnp.inf]), "must be positive and finite, got inf"),
        (["two"], "must be a list of numbers, got"),
        ([[2.0]], r"must be a list of numbers, one for each component, got shape \(1, 1\)"),
        (2.0, r"must be a list of numbers, one for each component, got shape \(\)"),
    ],
)
def test_parameter_that_makes_no_sense_is_told_in_one_sentence(what, values, words):
    with pytest.raises(ilbo.UserError, match=f"^The {what} {words}") as caught:
        SHAPED[what](values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("values", [[2.0, 3.0], (2, 3), np.array([2, 3]), jnp.array([2.0, 3.0])])
def test_parameters_may_be_any_list_of_numbers(values):
    law = Gamma(values)
    assert law.size == 2
    assert law.shape.dtype == jnp.zeros(1).dtype
    np.testing.assert_array_equal(law.shape, [2, 3])


def test_laws_are_made_and_rebuilt_under_tracing_without_a_check():
    points = jnp.array([[0.5], [2.0]])
    wanted = jnp.stack([Gamma([k]).log_prob(x) for k, x in zip((0.7, 2.0), points, strict=True)])
    made = jax.jit(jax.vmap(lambda k, x: Gamma(k).log_prob(x)))(jnp.array([[0.7], [2.0]]), points)
    listed = jax.vmap(lambda k, x: Gamma([k]).log_prob(x))(jnp.array([0.7, 2.0]), points)
    rebuilt = jax.vmap(lambda law, x: law.log_prob(x))(
        jax.tree.map(lambda *k: jnp.stack(k), Gamma([0.7]), Gamma([2.0])), points
    )
    for got in (made, listed, rebuilt):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    slope = jax.grad(lambda law: law.log_prob(points[0]).sum())(Gamma([2.0]))
    assert float(slope.shape[0]) < 0  # a law of derivatives, which need not be positive


def test_other_mistakes_in_laws_are_told_in_one_sentence():
    for make, words in [
        (lambda: Beta([1.0], [1.0, 2.0]), "a and b of Beta must be as many, got 1 and 2"),
        (lambda: ilbo.Gaussian(-1), "whole number from 0 on, got -1"),
        (lambda: Uniform(2.5), "whole number from 0 on, got 2.5"),
        (lambda: ilbo.Product([ilbo.Gaussian(1), 3]), "one or more laws"),
        (lambda: ilbo.Product([]), "one or more laws"),
    ]:
        with pytest.raises(ilbo.UserError, match=words):
            make()
