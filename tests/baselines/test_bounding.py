"""What is said about the distance to the best possible, on a problem whose optimum is known."""

import equinox as eqx
import jax.numpy as jnp
import pytest
from linear_quadratic import LinearQuadratic, closed_form, linear_quadratic

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
    plain = earned(linear_quadratic(), Feedback(0.3), 2, 2048)
    error = plain.std(ddof=1) / 2048**0.5
    assert found.standard_error < error / 3  # the charges take the noise out
    assert abs(found.policy_mean - plain.mean()) < 4 * error


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
