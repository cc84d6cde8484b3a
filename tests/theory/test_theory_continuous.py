"""The Riemann sum of a continuous problem approaches its closed-form solution."""

import jax.numpy as jnp
import numpy as np
import pytest
from linear_quadratic import START, LinearQuadratic, closed_form, linear_quadratic

import ilbo
from ilbo import theory
from ilbo.theory.mdp import model_under

INTERVAL = (-3.0, 3.0)


@pytest.fixture(scope="module")
def grids():
    return {n: theory.discretise(linear_quadratic(), n, INTERVAL) for n in (8, 16, 32)}


def optimal_table(grid):
    K, _ = closed_form()
    return grid.table(lambda state: -K * state)


def test_optimum_of_the_grid_converges_to_the_continuous_one_at_second_order(grids):
    _, J = closed_form()
    errors = [abs(theory.value_iteration(grid.mdp, 201)[1] - J) for grid in grids.values()]
    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    assert errors[-1] < 0.003 * abs(J)
    np.testing.assert_allclose(ratios, 4.0, rtol=0.02)


def test_minorise_maximise_finds_the_closed_form_policy(grids):
    K, J = closed_form()
    grid = grids[16]
    shift = -theory.lowest_reward(grid.mdp)
    start = -0.7 * grid.x[:, None]
    history = theory.iterate(grid.mdp, start, shift=shift, tolerance=3e-5)
    assert history.converged
    assert (np.diff(history.J) >= -1e-12).all()
    inner = np.abs(grid.x) < 1.5
    np.testing.assert_allclose(history.mu[-1, inner, 0], -K * grid.x[inner], atol=2e-3)
    assert history.J[-1] == pytest.approx(J, rel=0.02)
    mu_grid, J_grid = theory.value_iteration(grid.mdp, 201)
    assert history.J[-1] == pytest.approx(J_grid, abs=1e-3)
    np.testing.assert_allclose(history.mu[-1, inner], mu_grid[inner], atol=0.03)


def test_row_mass_says_whether_the_grid_is_fit(grids):
    grid = grids[32]
    mass = grid.mass(optimal_table(grid))
    inner = np.abs(grid.x) < 1.5
    np.testing.assert_allclose(mass[inner], 1.0, atol=1e-3)
    pushed_out = grid.mass(grid.mdp.high)
    assert pushed_out[-1] < 0.5


def test_start_between_midpoints_keeps_its_mean(grids):
    for grid in grids.values():
        assert grid.mdp.b0.sum() == pytest.approx(1.0)
        assert grid.mdp.b0 @ grid.x == pytest.approx(START)


class RewardedArrival(LinearQuadratic):
    log_density = ilbo.Model.log_density

    def reward(self, state, action, next_state):
        return jnp.sum(next_state**2)


def test_reward_that_looks_at_the_next_state_becomes_its_mean():
    """With the density that is derived from the transition."""
    problem = ilbo.Problem(
        RewardedArrival(), name="arrival", initial_state=[0.0], horizon=6, region=(-2.0, 2.0)
    )
    grid = theory.discretise(problem, 32, INTERVAL)
    assert grid.mdp.horizon == 6
    _, r = model_under(grid.mdp, np.zeros((32, 1)))
    middle = r[15:17]
    np.testing.assert_allclose(middle, (0.95 * grid.x[15:17]) ** 2 + 0.25, atol=1e-5)


def test_discretise_refuses_what_it_cannot_do():
    with pytest.raises(ilbo.UserError, match="navigation-3 has 2 state components"):
        theory.discretise(ilbo.make("navigation-3"), 16)
    with pytest.raises(ilbo.UserError, match=r"start state 1\.5 lies outside"):
        theory.discretise(linear_quadratic(), 16, (-1.0, 1.0))
    with pytest.raises(ilbo.UserError, match="interval"):
        theory.discretise(linear_quadratic(), 16, (1.0, -1.0))
    with pytest.raises(ilbo.UserError, match="points"):
        theory.discretise(linear_quadratic(), 1)


class Ending(LinearQuadratic):
    def terminal(self, state):
        return state[0] > 2


def test_discretise_refuses_terminal_states():
    problem = ilbo.Problem(
        Ending(), name="ending", initial_state=[0.0], horizon=6, region=(-2.0, 2.0)
    )
    with pytest.raises(ilbo.UserError, match="ending ends in the state 2"):
        theory.discretise(problem, 16, INTERVAL)


@pytest.mark.slow
def test_planner_comes_close_to_the_exact_optimum():
    """`ilbo.plan` on the continuous problem, its policy judged exactly on a fine grid."""
    problem = linear_quadratic()
    config = ilbo.ILBO(layers=(32, 32), critic="discounted", discount=problem.discount, depth=1)
    plan = ilbo.plan(problem, config, episodes=200)
    grid = theory.discretise(problem, 48, INTERVAL)
    best, idle, planned = (
        float(theory.analyse(grid.mdp, mu).J)
        for mu in (optimal_table(grid), np.zeros((48, 1)), grid.table(plan.policy))
    )
    assert best >= planned >= best - 0.01 * (best - idle)
