"""Hindsight with a penalty, on a problem whose optimum and optimal value function are known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linear_quadratic import DISCOUNT, DRIFT, PRICE, PUSH, SPREAD, START, LinearQuadratic

import ilbo
from ilbo.baselines import fit_value, hindsight, penalised_hindsight
from ilbo.baselines.open_loop import evaluation_noise
from ilbo.baselines.penalty import QuadraticValue, Redrawn, features
from ilbo.mdp.simulate import as_key, draw_noise

HORIZON, EPISODES, FEW = 8, 16, {"steps": 400, "rounds": 0}


class WithoutRule(ilbo.Gaussian):
    """A law for which the expectation is over draws."""

    def rules(self, points):
        raise ilbo.UserError("There is no quadrature.")


class Drawn(LinearQuadratic):
    law = WithoutRule(1)


def problem_of(model):
    return ilbo.Problem(
        model, name="lq", initial_state=[START], horizon=HORIZON, discount=DISCOUNT,
        region=(-2.0, 2.0),
    )  # fmt: skip


class Best(eqx.Module):
    """The optimal value function by Riccati, and the optimal first gain."""

    P: jnp.ndarray
    constant: jnp.ndarray
    gain: float

    def __call__(self, state, left):
        return -self.P[left] * jnp.sum(state**2) - self.constant[left]


@pytest.fixture(scope="module")
def best():
    P, constant, K = [0.0], [0.0], 0.0
    for _ in range(HORIZON):
        K = DISCOUNT * PUSH * P[-1] * DRIFT / (PRICE + DISCOUNT * PUSH**2 * P[-1])
        constant.append(DISCOUNT * (constant[-1] + P[-1] * SPREAD**2))
        P.append(1 + PRICE * K**2 + DISCOUNT * P[-1] * (DRIFT - PUSH * K) ** 2)
    return Best(jnp.array(P), jnp.array(constant), K)


def test_penalty_of_the_optimal_value_function_gives_the_optimum(best):
    problem = problem_of(LinearQuadratic(limit=10.0))
    value = float(best(problem.initial_state, HORIZON))
    tight = penalised_hindsight(problem, best, 3, EPISODES, **FEW)
    assert tight.standard_error < 0.01 * abs(value)  # that of the draws in the charges
    assert abs(tight.mean - value) < 3 * tight.standard_error
    assert hindsight(problem, 3, EPISODES, **FEW).mean > value + 0.3


@pytest.mark.parametrize("model", [LinearQuadratic, Drawn])
def test_penalty_of_a_fitted_value_function_is_within_one_per_cent(best, model):
    problem = problem_of(model(limit=10.0))
    value = float(best(problem.initial_state, HORIZON))

    def policy(state):
        return -best.gain * state

    fitted = fit_value(problem, policy, 0)
    tight = penalised_hindsight(problem, fitted, 3, EPISODES, policies=[policy], **FEW)
    assert tight.mean > value - 3 * tight.standard_error - 1e-3
    assert tight.mean < value + 0.01 * abs(value) + 3 * tight.standard_error


def test_noise_of_the_plain_problem_comes_first():
    problem = problem_of(LinearQuadratic())
    plain = evaluation_noise(problem, as_key(3), 5)
    again = draw_noise(problem.exact, as_key(3), (2, 5))
    more = Redrawn(problem.exact.law, 4).sample(as_key(3), (2, 5))
    assert plain.shape == (5, HORIZON, 1)
    assert more.shape == (2, 5, 5)
    np.testing.assert_array_equal(more[..., :1], again)


def test_value_is_the_polynomial_of_its_weights():
    draw = np.random.default_rng(0)
    z = draw.normal(size=(5, 3))
    weights = draw.normal(size=features(z).shape[1])
    nothing = [jnp.zeros((4, *shape)) for shape in ((), (3,), (3, 3))]
    value = QuadraticValue(jnp.ones(3), 2 * jnp.ones(3), *nothing).with_weights(2, weights)
    there = jax.vmap(value, in_axes=(0, None))(jnp.asarray(1 + 2 * z), jnp.asarray(2))
    np.testing.assert_allclose(there, features(z) @ weights, rtol=1e-5, atol=1e-5)


class Clock(ilbo.Model):
    """What is earned depends on the time."""

    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return state + action + 0.1 * noise

    def reward(self, state, action, next_state, time):
        return -jnp.sum((next_state - time) ** 2)

    def bounds(self, state):
        return jnp.full(1, -1.0), jnp.full(1, 1.0)


def test_value_of_a_model_that_sees_the_time():
    problem = ilbo.Problem(
        Clock(), name="clock", initial_state=[0.5], horizon=3, region=(-2.0, 2.0)
    )
    fitted = fit_value(problem, lambda state: jnp.zeros(1), 0, episodes=512)
    state = jnp.array([0.6])
    known = -sum((0.6 - step) ** 2 + 0.01 * (step + 1) for step in range(3))
    assert float(fitted(state, jnp.asarray(3))) == pytest.approx(known, abs=1e-3)
