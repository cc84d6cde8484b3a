"""Dynamic programming on a grid, against closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linear_quadratic import (
    DISCOUNT,
    DRIFT,
    PRICE,
    PUSH,
    SPREAD,
    START,
    LinearQuadratic,
    linear_quadratic,
)

import ilbo
from ilbo.baselines import optimum
from ilbo.baselines.dynamic import Grid, earned
from ilbo.mdp.laws.gamma import Gamma

WIDE = (-6.0, 6.0)


def riccati(horizon):
    """Gain of the first action and value at START with so many steps left, actions unbounded."""
    P, constant, K = 0.0, 0.0, 0.0
    for _ in range(horizon):
        K = DISCOUNT * PUSH * P * DRIFT / (PRICE + DISCOUNT * PUSH**2 * P)
        constant = DISCOUNT * (constant + P * SPREAD**2)
        P = 1 + PRICE * K**2 + DISCOUNT * P * (DRIFT - PUSH * K) ** 2
    return K, -P * START**2 - constant


@pytest.fixture(scope="module")
def solved():
    problem = ilbo.Problem(
        LinearQuadratic(limit=10.0), name="lq", initial_state=[START], horizon=6,
        discount=DISCOUNT, region=(-2.0, 2.0),
    )  # fmt: skip
    return problem, optimum(problem, grids=(11, 21), box=WIDE)


def test_optimum_of_a_linear_quadratic_problem_is_that_of_riccati(solved):
    _, found = solved
    gain, value = riccati(6)
    assert found.value == pytest.approx(value, rel=1e-4)
    assert abs(found.value - value) < 10 * found.error + 1e-4 * abs(value)
    action = found.policy(jnp.array([START]), 0)
    np.testing.assert_allclose(action, [-gain * START], atol=0.02)
    last, _ = riccati(1)
    np.testing.assert_allclose(found.policy(jnp.array([START]), 5), [-last * START], atol=0.02)
    assert found.policy.timed
    assert not found.stationary.timed
    assert found.stationary_value < found.value


def test_policies_earn_what_the_grid_says(solved):
    problem, found = solved
    for policy, value in (
        (found.policy, found.value),
        (found.stationary, found.stationary_value),
    ):
        returns = earned(problem, policy, 0, episodes=4096)
        assert abs(returns.mean() - value) < 4 * returns.std() / 64


def test_what_policies_earn_is_what_evaluate_says():
    problem = ilbo.make("navigation-3")
    wanted = ilbo.evaluate(problem, problem.model.heuristic, 3, episodes=8).returns
    np.testing.assert_allclose(earned(problem, problem.model.heuristic, 3, 8), wanted, rtol=1e-5)


def test_interpolation_is_exact_for_quadratic_functions_up_to_the_edge():
    grid = Grid(jnp.array([-1.0, 0.0]), jnp.array([1.0, 3.0]), 6)

    def function(s):
        return 1 + s[0] - 2 * s[1] + s[0] * s[1] + 0.5 * s[1] ** 2 - s[0] ** 2

    table = grid.with_margin(jax.vmap(function)(grid.states))
    for state in ([-1.0, 0.0], [0.98, 2.95], [0.3, 0.1], [-0.77, 1.4]):
        state = jnp.array(state)
        assert float(grid.interpolate(table, state)) == pytest.approx(
            float(function(state)), abs=1e-4
        )
    outside = grid.interpolate(table, jnp.array([2.0, 1.0]))
    assert float(outside) == pytest.approx(float(function(jnp.array([1.0, 1.0]))), abs=1e-4)


def test_what_dynamic_programming_cannot_do_is_told():
    with pytest.raises(ilbo.UserError, match="up to 3 state components, but hvac-6 has 6"):
        optimum(ilbo.make("hvac-6"))
    with pytest.raises(ilbo.UserError, match="grids must be two or more"):
        optimum(linear_quadratic(), grids=(21,))
    with pytest.raises(ilbo.UserError, match="higher than low"):
        optimum(linear_quadratic(), box=(1.0, 1.0))
    unbounded = eqx.tree_at(
        lambda p: p.exact, linear_quadratic(), LinearQuadratic(limit=float("inf"))
    )
    with pytest.raises(ilbo.UserError, match="finite action bounds"):
        optimum(unbounded)


@pytest.mark.parametrize(
    "law", [ilbo.Gaussian(2), Gamma([0.7, 2.5]), ilbo.Product([ilbo.Gaussian(1), Gamma([3.0])])]
)
def test_quadrature_gives_the_moments(law):
    nodes, weights = law.quadrature(5)
    assert weights.sum() == pytest.approx(1)
    draws = np.asarray(law.sample(jax.random.key(0), (200_000,)), float)
    np.testing.assert_allclose(weights @ nodes, draws.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(weights @ nodes**2, (draws**2).mean(axis=0), rtol=0.02)


def test_a_quadrature_that_is_too_large_is_refused():
    with pytest.raises(ilbo.UserError, match="too many nodes"):
        ilbo.Gaussian(20).quadrature(5)
