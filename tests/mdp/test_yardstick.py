"""What policies are measured by, and the tail of their returns."""

import jax.numpy as jnp
import numpy as np
import pytest

import ilbo
from ilbo.mdp.simple import Hold
from ilbo.mdp.yardstick import against, yardsticks


class Price(ilbo.Model):
    """Each unit of action costs one: to do nothing is best, and nothing else matters."""

    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return state + noise

    def reward(self, state, action, next_state):
        return -jnp.sum(action) + next_state[0]

    def bounds(self, state):
        return jnp.zeros(2), jnp.array([1.0, 3.0])


class Ruled(Price):
    def heuristic(self, state):
        return jnp.array([0.5, 0.0])


def price(model: ilbo.Model) -> ilbo.Problem:
    return ilbo.Problem(model, name="price", initial_state=[0.0], horizon=4, region=(-1.0, 1.0))


def test_the_best_of_the_simple_policies_and_the_controller_are_found():
    others = yardsticks(price(Ruled()), 0, 32)
    assert list(others) == ["heuristic", "hold"]
    assert list(yardsticks(price(Price()), 0, 32)) == ["hold"]


@pytest.mark.parametrize(("cost", "word"), [(0.25, "better"), (0.75, "worse")])
def test_a_paired_difference_has_no_spread_where_noise_is_shared(cost, word):
    problem = price(Ruled())
    others = yardsticks(problem, 0, 32)
    found = ilbo.evaluate(problem, lambda state: jnp.array([cost, 0.0]), 0, 32)
    controller, hold = against([found.discounted_returns], others)
    np.testing.assert_allclose(controller.difference, 4 * (0.5 - cost), rtol=1e-5)
    np.testing.assert_allclose(controller.ci95, controller.difference, rtol=1e-5)
    assert controller.sentence.startswith(f"{word} than the problem's own controller")
    assert hold.sentence.startswith("worse than the action nearest to 0")


def test_equal_policies_have_no_clear_difference():
    problem = price(Ruled())
    others = yardsticks(problem, 0, 32)
    same = against([others["heuristic"]], others)[0]
    assert same.sentence.startswith("no clear difference")


def test_holding_is_as_near_to_nothing_as_the_bounds_allow():
    class Above(Price):
        def bounds(self, state):
            return jnp.array([2.0, -jnp.inf]), jnp.array([3.0, -1.0])

    np.testing.assert_array_equal(Hold(Above())(jnp.zeros(1)), [2.0, -1.0])


def test_the_mean_of_the_worst_episodes():
    problem = price(Price())
    found = ilbo.evaluate(problem, "hold", 0, 20)
    worst = np.sort(found.returns)
    np.testing.assert_allclose(found.cvar(0.1), worst[:2].mean())
    np.testing.assert_allclose(found.cvar(0.125), (worst[:2].sum() + worst[2] / 2) / 2.5)
    np.testing.assert_allclose(found.cvar(1.0), found.mean)
    with pytest.raises(ilbo.UserError, match="share"):
        found.cvar(0.0)
