"""Uncertain parameters: drawn once an episode, unseen unless the policy asks to see them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ilbo
from ilbo.mdp.objective import CVaR
from ilbo.mdp.simulate import roll
from ilbo.mdp.widened import valued, widened


class Cart(ilbo.Model):
    """A cart that is pushed towards 2, by a push of uncertain strength."""

    strength: float = 0.9
    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return state + self.strength * action + 0.3 * noise

    def reward(self, state, action, next_state):
        return -jnp.sum((next_state - 2) ** 2)

    def bounds(self, state):
        return -jnp.ones(1), jnp.ones(1) * self.strength


def cart(**more) -> ilbo.Problem:
    return ilbo.Problem(
        Cart(), name="cart", initial_state=[0.0], horizon=5, region=(-3.0, 3.0), **more
    )


def push(state):
    return jnp.clip(2 - state, -1, 1)


def test_each_episode_draws_its_parameters_once():
    wide = cart(uncertain={"strength": ilbo.Uniform(0.5, 1.5)})
    found = ilbo.simulate(wide, push, 0, episodes=200)
    assert found.states.shape == (200, 6, 1)
    drawn = np.asarray(found.drawn)[:, 0]
    assert 0.5 <= drawn.min() < 0.55
    assert 1.45 < drawn.max() <= 1.5
    for i in (0, 7):  # the same episode of the model with this very strength
        alone = cart().with_parameters({"strength": float(drawn[i])})
        other = ilbo.simulate(alone, push, 0, episodes=200)
        np.testing.assert_allclose(found.states[i], other.states[i], atol=1e-5)
        np.testing.assert_allclose(found.rewards[i], other.rewards[i], atol=1e-4)
    outside = ilbo.simulate(wide, lambda s: np.clip(2 - np.asarray(s), -1, 1), 0, episodes=200)
    np.testing.assert_allclose(outside.states, found.states, atol=1e-5)


def test_a_parameter_can_be_set_where_it_was_uncertain():
    wide = cart(uncertain={"strength": ilbo.Uniform(0.5, 1.5)})
    sure, alone = (p.with_parameters({"strength": 1.2}) for p in (wide, cart()))
    first, second = (ilbo.evaluate(p, push, 3, episodes=16) for p in (sure, alone))
    np.testing.assert_allclose(first.returns, second.returns, rtol=1e-5)
    assert ilbo.evaluate(cart(), push, 3, episodes=16).mean != first.mean


def test_a_policy_that_asks_sees_what_was_drawn_and_earned():
    wide = cart(uncertain={"strength": ilbo.Uniform(0.5, 1.5)})

    class Seeing:
        sees_return = sees_drawn = True

        def __call__(self, state):
            where, strength, earned = state
            return ((2 - where) / strength + 0.0 * earned)[None]

    seeing = ilbo.evaluate(wide, Seeing(), 0, episodes=256)
    blind = ilbo.evaluate(wide, lambda s: 2 - s, 0, episodes=256)
    assert seeing.mean > blind.mean


def test_an_episode_is_worth_the_utility_of_its_return():
    problem = cart(discount=0.9)
    objective, numbers = CVaR(0.2), jnp.array([-6.0])
    spread = jnp.stack([jnp.zeros(6), jnp.linspace(3.0, 0.0, 6)])
    wide = valued(widened(problem, None, True), objective, numbers, spread).model
    noise = jax.random.normal(jax.random.key(0), (5, 32, 1))
    starts = wide.begin(jnp.zeros((32, 1)), jnp.zeros((32, 0)))

    def policy(state):
        return push(state[:1])

    path = roll(wide, policy, noise, jax.random.key(0), starts)
    returns = path.rewards @ 0.9 ** jnp.arange(5)
    np.testing.assert_allclose(path.states[:, -1, 1], returns, rtol=1e-5)
    rest = path.rewards[:, 2:] @ 0.9 ** jnp.arange(3)  # gained from step 2 on, as seen there
    for state, gained, total in zip(path.states[:4, 2], rest, returns, strict=False):
        sure = wide.worth(state, gained, jnp.array(2), jnp.array(5))
        assert float(sure) * 0.9**2 == pytest.approx(_mean_utility(total, 0.0), rel=1e-4)
        usual = wide.worth(state, gained, jnp.array(2), jnp.array(3))
        wanted = _mean_utility(total, 1.2)
        assert float(usual) * 0.9**2 == pytest.approx(wanted, abs=0.6)  # a kink, and few nodes


def _mean_utility(total, spread):
    draws = float(total) + spread * np.random.default_rng(0).normal(size=100_000)
    return float(np.mean(CVaR(0.2).utility(draws, np.array([-6.0]))))


def test_stored_transitions_are_as_true_after_any_return():
    wide = widened(cart(), None, True)
    usual = jnp.stack([jnp.linspace(0.0, -10.0, 6), jnp.ones(6)])
    model = valued(wide, CVaR(0.2), jnp.array([-6.0]), usual, usual).model
    states = jnp.array([[0.3, -500.0], [1.0, -700.0]])
    moved = jax.vmap(model.transition)(states, jnp.ones((2, 1)), jnp.ones((2, 1)))
    times = jnp.array([1, 3])
    fresh, following = model.relabelled(states, moved, times, jax.random.key(0))
    assert jnp.all(jnp.abs(fresh[:, 1] - usual[0, times]) < 6)
    again = jax.vmap(model.transition)(fresh, jnp.ones((2, 1)), jnp.ones((2, 1)))
    np.testing.assert_allclose(again, following, atol=1e-3)


@pytest.mark.parametrize(
    "given",
    [{"strenght": ilbo.Uniform(0, 1)}, {"strength": 3}, {"strength": ilbo.Gaussian(2)}, 3, {}],
)
def test_what_cannot_be_uncertain_is_said_so(given):
    with pytest.raises(ilbo.UserError, match="cart"):
        cart(uncertain=given)


def test_what_needs_a_sure_model_says_so():
    wide = cart(uncertain={"strength": ilbo.Uniform(0.5, 1.5)})
    with pytest.raises(ilbo.UserError, match="--set strength"):
        ilbo.bound(wide, push)
    with pytest.raises(ilbo.UserError, match="no parameter 'weight'"):
        wide.with_parameters({"weight": 1.0})
    with pytest.raises(ilbo.UserError, match="must be a number"):
        wide.with_parameters({"strength": "much"})
