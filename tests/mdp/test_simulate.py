"""Rollouts keep the books right; statistics are what they say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from scipy import stats

import ilbo
from ilbo.mdp.bounds import within
from ilbo.mdp.evaluate import summarise
from ilbo.mdp.simple import POLICIES, Midpoint, Random
from ilbo.mdp.simulate import Trial, returns, roll, simulate


class Walk(ilbo.Model):
    """A walk on a line that ends beyond 3; each step is worth where it leads."""

    law = ilbo.Gaussian(1)
    noise_scale: Array

    def transition(self, state, action, noise):
        return state + action + self.noise_scale * noise

    def reward(self, state, action, next_state):
        return next_state[0]

    def bounds(self, state):
        return jnp.array([0.0]), jnp.array([1.0])

    def terminal(self, state):
        return state[0] > 3

    def violations(self, state, action):
        return (state[0] + action[0] > 2.5).astype(int)


def walk(noise=0.0, **changes):
    return walk_of(Walk(jnp.array(noise)), **changes)


def walk_of(model, **changes):
    settings = {
        "name": "walk",
        "initial_state": [0.0],
        "horizon": 6,
        "region": (0.0, 1.0),
        "discount": 0.5,
    }
    return ilbo.Problem(model, **{**settings, **changes})


def full_ahead(state):
    return jnp.ones(1)


@pytest.mark.parametrize("name", ["navigation-3", "reservoir-10"])
def test_recorded_steps_follow_the_model(name):
    """Each recorded action, next state and reward belongs together; the noise has its law."""
    problem = ilbo.make(name)
    model = problem.model
    episodes = 50
    found = simulate(problem, Random(model), 3, episodes)
    assert found.states.shape == (episodes, problem.horizon + 1, problem.state_size)
    assert found.actions.shape == (episodes, problem.horizon, problem.action_size)
    assert found.rewards.shape == found.alive.shape == (episodes, problem.horizon)
    np.testing.assert_array_equal(found.states[:, 0], np.tile(problem.initial_state, (episodes, 1)))
    states, moved = found.states[:, :-1], found.states[:, 1:]

    @jax.jit
    @jax.vmap
    @jax.vmap
    def again(state, action, next_state):
        zero = model.law.reference
        jacobian = jnp.diagonal(jax.jacfwd(lambda xi: model.transition(state, action, xi))(zero))
        noise = zero + (next_state - model.transition(state, action, zero)) / jacobian
        return noise, model.reward(state, action, next_state), *model.bounds(state)

    noise, rewards, low, high = again(states, found.actions, moved)
    np.testing.assert_allclose(found.rewards, rewards, rtol=1e-5, atol=1e-5)
    assert bool(jnp.all((low <= found.actions) & (found.actions <= high)))
    wet = np.asarray(jnp.all(moved > 0, axis=(0, 1))) if name[0] == "r" else slice(None)
    shapes = model.law.shape[wet] if name[0] == "r" else [None] * problem.state_size
    for column, shape in zip(
        np.asarray(noise)[..., wet].reshape(-1, len(shapes)).T, shapes, strict=True
    ):
        law = stats.norm if shape is None else stats.gamma(float(shape))
        assert stats.kstest(column, law.cdf).pvalue > 1e-3


def test_returns_of_a_known_walk():
    """Full ahead without noise: rewards 1, 2, 3, 4, then the walk has ended."""
    result = ilbo.evaluate(walk(), full_ahead, 0, episodes=3)
    np.testing.assert_allclose(result.returns, 10)
    np.testing.assert_allclose(result.discounted_returns, 1 + 2 / 2 + 3 / 4 + 4 / 8)
    assert (result.mean, result.std, result.ci95) == (10, 0, (10, 10))
    assert result.violations == 2  # at 2 and at 3


def test_after_the_end_nothing_moves_and_nothing_counts():
    found = simulate(walk(), full_ahead, 0, episodes=1)
    np.testing.assert_array_equal(found.states[0, :, 0], [0, 1, 2, 3, 4, 4, 4])
    np.testing.assert_array_equal(found.rewards[0], [1, 2, 3, 4, 0, 0])
    np.testing.assert_array_equal(found.alive[0], [True] * 4 + [False] * 2)


def test_an_episode_that_starts_at_its_end_is_worth_nothing():
    assert ilbo.evaluate(walk(), full_ahead, 0, 2, start=[3.5]).mean == 0


def test_actions_are_clipped_into_the_bounds():
    found = simulate(walk(), lambda state: jnp.full(1, 50.0), 0, episodes=2)
    assert float(found.actions.max()) == 1.0


def test_one_start_for_each_episode():
    found = simulate(walk(), full_ahead, 0, episodes=2, start=[[0.0], [0.5]])
    np.testing.assert_array_equal(found.states[:, 0, 0], [0.0, 0.5])


def test_equal_keys_give_equal_noise_whatever_the_policy():
    problem = walk(noise=1.0, discount=1.0)
    still, moving = (
        simulate(problem, lambda state, a=a: jnp.full(1, a), 7, episodes=20).states
        for a in (0.0, 0.25)
    )
    np.testing.assert_allclose(moving[:, 1] - still[:, 1], 0.25, rtol=1e-5)
    again = simulate(problem, lambda state: jnp.zeros(1), jax.random.key(7), episodes=20).states
    np.testing.assert_array_equal(still, again)
    other = simulate(problem, lambda state: jnp.zeros(1), 8, episodes=20).states
    assert bool(jnp.any(other != still))


def test_comparison_on_equal_noise_is_far_sharper_than_apart():
    problem = ilbo.make("navigation-3")

    def careful(state):
        return 0.95 * problem.model.heuristic(state)

    result = ilbo.compare(problem, problem.model.heuristic, careful, 0, episodes=200)
    np.testing.assert_allclose(result.difference, result.first.mean - result.second.mean)
    low, high = result.ci95
    assert low < result.difference < high
    apart = result.first.ci95[1] - result.first.ci95[0]
    assert high - low < 0.5 * apart


@pytest.mark.parametrize("name", POLICIES)
def test_simple_policies_stay_inside_bounds_that_move(name):
    problem = ilbo.make("reservoir-10")
    found = simulate(problem, POLICIES[name](problem.model), 1, episodes=4)
    assert bool(jnp.all((found.actions >= 0) & (found.actions <= found.states[:, :-1])))


def test_random_policy_uses_the_whole_range_and_differs_between_episodes():
    problem = ilbo.make("hvac-3")
    actions = np.asarray(simulate(problem, Random(problem.model), 0, 100).actions).ravel()
    assert stats.kstest(actions / 10, "uniform").pvalue > 1e-3
    assert len(np.unique(actions)) > 0.99 * len(actions)


@pytest.mark.parametrize(
    ("low", "high", "middle"),
    [(0, 4, 2), (-np.inf, np.inf, 0), (3, np.inf, 3.5), (-np.inf, 3, 2.5)],
)
def test_middle_of_bounds_that_may_be_missing(low, high, middle):
    assert float(within(jnp.array(float(low)), jnp.array(float(high)), 0.5)) == middle


def test_quantiles():
    result = ilbo.evaluate(walk(noise=1.0), full_ahead, 0, 200)
    quantiles = result.quantiles()
    assert list(quantiles.values()) == sorted(quantiles.values())
    assert quantiles[0.5] == np.median(result.returns)


class Pit(Walk):
    """A walk whose rewards hide what goes wrong: each step is worth 1, whatever happens."""

    faulty: str = "nothing"

    def transition(self, state, action, noise):
        lost = (state > 1.5) & (self.faulty == "state")
        return jnp.where(lost, jnp.inf, state + jnp.nan_to_num(action))

    def reward(self, state, action, next_state):
        return jnp.where((state[0] > 1.5) & (self.faulty == "reward"), jnp.nan, 1.0)

    def bounds(self, state):
        high = jnp.where((state > 1.5) & (self.faulty == "bounds"), jnp.nan, 1.0)
        return jnp.zeros(1), high

    def terminal(self, state):
        return state[0] > 4


def pit(faulty="nothing"):
    return walk_of(Pit(jnp.array(0.0), faulty))


@pytest.mark.parametrize(
    ("faulty", "whose"),
    [
        ("state", "model's next state 's1' is inf at step 1 of episode 1 of walk"),
        ("reward", "model's reward is nan at step 1 of episode 1 of walk"),
        ("bounds", "model's bound of the action 'a1' is nan at step 1 of episode 1 of walk"),
    ],
)
def test_what_the_model_gets_wrong_is_named_with_episode_and_step(faulty, whose):
    with pytest.raises(ilbo.UserError, match=whose) as caught:
        ilbo.evaluate(pit(faulty), full_ahead, 0, 2, start=[[-9.0], [1.0]])
    assert "where the state is [2]" in str(caught.value)
    assert "\n" not in str(caught.value)


def lost_above_1(state):
    return jnp.where(state > 1.5, jnp.nan, 1.0)


def test_policy_that_answers_nan_is_told_though_its_rewards_are_fine():
    with pytest.raises(
        ilbo.UserError, match="policy's action 'a1' is nan at step 2 of episode 0 of walk"
    ):
        ilbo.evaluate(pit(), lost_above_1, 0, 2)
    navigation = ilbo.make("navigation-3")
    with pytest.raises(ilbo.UserError, match="policy's action 'move x' is nan at step 0"):
        ilbo.compare(navigation, navigation.model.heuristic, lambda s: jnp.full(2, jnp.nan), 0, 4)


def test_what_happens_after_the_end_is_nobodys_fault():
    """The walk ends beyond 4; the policy answers NaN there."""
    result = ilbo.evaluate(pit(), lambda s: jnp.where(s > 4, jnp.nan, 1.0), 0, 2, start=[3.5])
    assert result.mean == 1


def trial(problem, *starts):
    noise = jnp.zeros((problem.horizon, len(starts), 1))
    return Trial(noise, jnp.array(starts)[:, None])


@pytest.mark.parametrize("faulty", ["state", "reward", "bounds"])
def test_returns_of_episodes_that_are_not_finite_are_minus_infinity(faulty):
    problem = pit(faulty)
    earned = returns(problem, full_ahead, trial(problem, -9.0, 1.0, 5.0))
    # A reward of 1 in each of 6 steps, with a discount of one half.
    np.testing.assert_array_equal(earned, [2 - 0.5**5, -np.inf, 0])


def test_returns_of_a_policy_that_answers_nan_are_minus_infinity():
    problem = pit()
    earned = returns(problem, lost_above_1, trial(problem, -9.0, 1.0, 5.0))
    # A reward of 1 in each of 6 steps, with a discount of one half.
    np.testing.assert_array_equal(earned, [2 - 0.5**5, -np.inf, 0])
    assert not bool(jnp.mean(earned) > -jnp.inf)  # so that no other policy loses against it


def test_finite_returns_are_the_sums_of_rewards_to_the_bit():
    problem = ilbo.make("navigation-3")
    noise = problem.model.law.sample(jax.random.key(0), (problem.horizon, 8))
    starts = problem.starts(jax.random.key(1), (8,))
    policy = problem.model.heuristic
    path = roll(problem.exact, policy, noise, jax.random.key(0), starts)
    earned = jax.jit(lambda: returns(problem, policy, Trial(noise, starts)))()
    np.testing.assert_array_equal(earned, jnp.sum(path.rewards, axis=1))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"episodes": 0}, "at least 1, got 0"),
        ({"episodes": -3}, "at least 1, got -3"),
        ({"start": [1.0, 2.0]}, "1 state components: s1"),
        ({"start": "east"}, "not a list of numbers"),
        ({"start": [np.inf]}, "s1 = inf, which is not a finite number"),
        ({"start": [[0.0]] * 3, "episodes": 2}, "3 start states for 2 episodes"),
        ({"key": -1}, "seed is a whole number"),
    ],
)
def test_bad_arguments_are_told_in_one_sentence(arguments, words):
    with pytest.raises(ilbo.UserError, match=words) as caught:
        simulate(walk(), full_ahead, **{"key": 0, **arguments})
    assert "\n" not in str(caught.value)


def test_a_start_outside_the_domain_names_the_component():
    problem = ilbo.make("reservoir-10")
    with pytest.raises(ilbo.UserError, match=r"level 4 = -1, outside the domain \[0, inf\]"):
        simulate(problem, Midpoint(problem.model), 0, start=[50.0] * 3 + [-1.0] + [50.0] * 6)


def test_a_policy_with_the_wrong_number_of_actions_is_told():
    with pytest.raises(ilbo.UserError, match=r"action of shape \(2,\).*takes one of shape \(1,\)"):
        simulate(walk(), lambda state: jnp.ones(2), 0)


def test_summary_of_trajectories_equals_evaluation():
    problem = walk(noise=0.3)
    result = ilbo.evaluate(problem, full_ahead, 5, 10)
    again = summarise(problem, simulate(problem, full_ahead, 5, 10))
    np.testing.assert_array_equal(result.returns, again.returns)
