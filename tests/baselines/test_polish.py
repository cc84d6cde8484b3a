"""Ascent along kinks: BFGS alone, and in the limit and the bound of a linear program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

import ilbo
from ilbo.baselines import bound, hindsight
from ilbo.baselines.open_loop import evaluation_noise
from ilbo.baselines.polish import climb

PRICES = np.array([21, 20, 24, 31, 38, 35, 30, 27, 26, 29, 33, 36], np.float32) / 100
LINE, OVER, SHORT, KEPT, POWER = 8.0, 0.4, 1.5, 0.9, 5.0
NEEDED, LEAVES = np.array([20.0, 30.0], np.float32), np.array([7, 12])


def test_climb_finds_maxima_at_kinks():
    """Each its own: numbers that differ from the next lose a hundred times what all lose that are
    away from the aim."""
    aims, n = jnp.array([0.3, -1.2, 2.0]), 8

    def total(x):
        apart = jnp.sum(jnp.abs(x[:, 1:] - x[:, :-1]), axis=1)
        values = -10 * apart - 0.1 * jnp.sum(jnp.abs(x - aims[:, None]), axis=1)
        return jnp.sum(values), values

    def values(x):
        (_, each), gradient = jax.value_and_grad(total, has_aux=True)(x)
        return each, gradient

    found = climb(values, jnp.zeros((3, n)), jax.random.key(0), 0.1, 600)
    np.testing.assert_allclose(found, jnp.broadcast_to(aims[:, None], (3, n)), atol=0.01)


class Cars(ilbo.Model):
    """The energy in two cars, and the hour. What both draw beyond the line's power costs more, as
    does what a car lacks when it leaves."""

    law = ilbo.Gaussian(0)

    def transition(self, state, action, noise):
        return jnp.append(state[:2] + KEPT * action, state[2] + 1)

    def reward(self, state, action, next_state):
        hour = jnp.clip(state[2], 0, len(PRICES) - 1).astype(int)
        lacks = jnp.where(next_state[2] == LEAVES, jnp.maximum(NEEDED - next_state[:2], 0), 0)
        over = jnp.maximum(jnp.sum(action) - LINE, 0)
        return -jnp.asarray(PRICES)[hour] * jnp.sum(action) - OVER * over - SHORT * jnp.sum(lacks)

    def bounds(self, state):
        return jnp.zeros(2), jnp.where(state[2] < LEAVES, POWER, 0.0)


def cars() -> tuple[ilbo.Problem, float]:
    """The problem and its optimum."""
    hours = len(PRICES)
    drawn = np.arange(hours)[:, None] < LEAVES
    cost = np.concatenate([np.repeat(PRICES, 2), np.full(hours, OVER), np.full(2, SHORT)])
    over = np.hstack([np.repeat(np.eye(hours), 2, axis=1), -np.eye(hours), np.zeros((hours, 2))])
    lacks = np.hstack([-KEPT * np.tile(np.eye(2), hours), np.zeros((2, hours)), -np.eye(2)])
    most = np.concatenate([np.where(drawn, POWER, 0).ravel(), np.full(hours + 2, np.inf)])
    found = linprog(
        cost,
        np.vstack([over, lacks]),
        np.concatenate([np.full(hours, LINE), -NEEDED]),
        bounds=np.stack([np.zeros_like(most), most], axis=1),
    )
    problem = ilbo.Problem(
        Cars(), name="cars", initial_state=np.zeros(3), horizon=hours,
        region=(np.zeros(3), np.array([40.0, 40.0, hours - 1])),
    )  # fmt: skip
    return problem, -found.fun


def test_limit_of_a_linear_program_is_its_optimum():
    problem, optimum = cars()
    limit = hindsight(problem, 0, 8, steps=100, rounds=1)
    assert optimum - limit.lacking < limit.mean < optimum + 1e-5 * abs(optimum)
    assert limit.lacking < 1e-4 * abs(optimum)
    assert limit.standard_error == 0.0  # there is no noise: what is best once is so always


@pytest.mark.slow
def test_bound_of_a_linear_program_is_its_optimum():
    problem, optimum = cars()
    found = bound(problem, lambda state: jnp.full(2, 3.0), 0, 8)
    assert found.policy_mean < 1.05 * optimum
    assert abs(found.mean - optimum) < found.standard_error < 1e-4 * abs(optimum)


class Guess(ilbo.Model):
    """What is nearest to twice the noise earns most."""

    law = ilbo.Empirical([[0.0], [1.0]])

    def transition(self, state, action, noise):
        return state + action - 2 * noise

    def reward(self, state, action, next_state):
        return -jnp.sum(jnp.abs(next_state) ** 1.5)

    def bounds(self, state):
        return jnp.full(1, -1.0), jnp.full(1, 1.0)


def test_equal_noise_shares_the_best_plan():
    problem = ilbo.Problem(
        Guess(), name="guess", initial_state=[0.2], horizon=2, region=(-2.0, 2.0)
    )
    noise = np.asarray(evaluation_noise(problem, jax.random.key(0), 16)).reshape(16, 2)
    limit = hindsight(problem, 0, 16, steps=20, rounds=0)
    for row in noise:
        same = (noise == row).all(axis=1)
        assert len(set(limit.returns[same])) == 1
    assert len(set(limit.returns)) == len(np.unique(noise, axis=0)) > 1
