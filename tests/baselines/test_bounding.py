"""What is said about the distance to the best possible, on a problem whose optimum is known."""

import equinox as eqx
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
    closed_form,
    linear_quadratic,
)
from scipy.stats import lognorm, norm

import ilbo
from ilbo.baselines import bound, earned
from ilbo.mdp.simple import Random

FEW = {"steps": 200, "rounds": 0}


class Feedback(eqx.Module):
    gain: float

    def __call__(self, state):
        return -self.gain * state


@pytest.mark.slow
def test_bound_of_the_best_policy_is_the_optimum():
    gain, optimum = closed_form()
    problem = linear_quadratic()
    found = bound(problem, Feedback(gain), 1, 8, **FEW)
    assert found.charges == "fitted value"
    assert abs(found.gap) < 0.002 * abs(optimum)
    assert abs(found.mean - optimum) < 3 * found.standard_error + 0.002 * abs(optimum)
    assert found.share < 0.01
    assert "at most 0.01 % from the best possible (none passes -5.0" in found.sentence


def test_bound_of_a_poor_policy_lies_above_the_optimum():
    _, optimum = closed_form()
    found = bound(linear_quadratic(), Feedback(0.3), 1, 8, **FEW)
    assert found.policy_mean < optimum - 0.05 * abs(optimum)
    assert found.mean > optimum - 3 * found.standard_error
    cost = constant = 0.0
    for _ in range(40):
        constant = DISCOUNT * (constant + cost * SPREAD**2)
        cost = 1 + PRICE * 0.3**2 + DISCOUNT * (DRIFT - 0.3 * PUSH) ** 2 * cost
    plain = earned(linear_quadratic(), Feedback(0.3), 2, 2048)
    error = plain.std(ddof=1) / 2048**0.5
    known = -cost * START**2 - constant
    assert abs(found.policy_mean - known) < error  # charges take most of the noise out


class Coin(ilbo.Model):
    """A guess of a coin: the noise is all, and the best policy earns nothing."""

    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return noise

    def reward(self, state, action, next_state):
        return jnp.sum(action * next_state) - 0.01 * jnp.sum(action**2)

    def bounds(self, state):
        return jnp.full(1, -1.0), jnp.full(1, 1.0)


@pytest.mark.slow
def test_no_share_is_named_where_the_optimum_is_near_0():
    coin = ilbo.Problem(Coin(), name="coin", initial_state=[0.0], horizon=2, region=(-1.0, 1.0))
    found = bound(coin, Feedback(0.5), 0, 8, **FEW)
    assert found.share is None
    assert "no tight bound known" in found.sentence


def test_bound_needs_two_noise_sequences():
    with pytest.raises(ilbo.UserError, match="at least 2 noise sequences, got 1"):
        bound(linear_quadratic(), Feedback(0.5), 0, 1)


def test_bound_refuses_a_policy_that_draws():
    with pytest.raises(ilbo.UserError, match="draws nothing and that JAX can trace"):
        bound(linear_quadratic(), Random(LinearQuadratic()), 0, 8)


@pytest.mark.slow
def test_model_with_limits_is_bounded_too():
    """Where actions are limited the bound is still one."""
    problem = ilbo.Problem(
        LinearQuadratic(limit=0.2), name="weak", initial_state=[1.5], horizon=5, region=(-2.0, 2.0)
    )
    weak = bound(problem, Feedback(1.0), 0, 8, **FEW)
    assert weak.gap > -1e-4


class Runaway(ilbo.Model):
    """What is not pushed back grows by half at each step: plans that do not look lose it."""

    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return 1.5 * state + action + 0.1 * noise

    def reward(self, state, action, next_state):
        return -jnp.sum(next_state**2) - jnp.sum(action**2)

    def bounds(self, state):
        return jnp.full(1, -10.0), jnp.full(1, 10.0)


@pytest.mark.slow
def test_bound_where_the_system_runs_away():
    cost, constant, horizon = 0.0, 0.0, 40
    for _ in range(horizon):
        constant += 0.01 * (1 + cost)
        cost = 2.25 * (1 + cost) / (2 + cost)
    optimum = -cost - constant
    problem = ilbo.Problem(
        Runaway(), name="runaway", initial_state=[1.0], horizon=horizon, region=(-2.0, 2.0)
    )
    found = bound(problem, Feedback(1.2), 0, 8, steps=300, rounds=1)
    assert found.policy_mean < optimum - 0.01 * abs(optimum)
    assert abs(found.mean - optimum) < 3 * found.standard_error + 0.005 * abs(optimum)
    assert found.last_gain < 1e-3 * abs(optimum)


class Newsvendor(ilbo.Model):
    """What is ordered and not sold by the evening is lost; demand is lognormal."""

    law = ilbo.LogNormal([0.0], [0.5])

    def transition(self, state, action, noise):
        return noise

    def reward(self, state, action, next_state):
        return jnp.sum(5 * jnp.minimum(action, next_state) - 2 * action)

    def bounds(self, state):
        return jnp.zeros(1), jnp.full(1, 5.0)


class Always(eqx.Module):
    action: float

    def __call__(self, state):
        return jnp.full(1, self.action)


@pytest.mark.slow
def test_bound_where_rewards_have_a_kink():
    """An order of 1 would be the best by a quadrature, which has a node at the kink."""
    order = lognorm(0.5).ppf(0.6)
    sold = np.exp(0.125) * norm.cdf(np.log(order) / 0.5 - 0.5) + order * 0.4
    optimum = 4 * (5 * sold - 2 * order)
    problem = ilbo.Problem(
        Newsvendor(), name="newsvendor", initial_state=[1.0], horizon=4, region=(0.0, 5.0)
    )
    found = bound(problem, Always(1.0), 0, 16, steps=200, rounds=0)
    assert found.charges == "fitted value"
    assert optimum - 2 * found.standard_error < found.mean < 1.02 * optimum
