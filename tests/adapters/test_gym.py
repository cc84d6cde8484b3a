"""Problems as Gymnasium environments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import ilbo
from ilbo.adapters.gym import Environment, VectorEnvironment
from ilbo.errors import UserError
from ilbo.mdp.simulate import roll


class Walk(ilbo.Model):
    """A walk on a line that ends beyond 2; its action has no bounds."""

    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return state + action + 0.0 * noise

    def reward(self, state, action, next_state):
        return -jnp.sum(next_state**2)

    def bounds(self, state):
        return jnp.full(1, -jnp.inf), jnp.full(1, jnp.inf)

    def terminal(self, state):
        return state[0] > 2


def walk(horizon=5):
    return ilbo.Problem(
        Walk(), name="walk", initial_state=[0.0], horizon=horizon, region=([-1.0], [1.0])
    )


@pytest.mark.filterwarnings("ignore:.*Box observation space.*", "ignore:.*action space.*")
@pytest.mark.parametrize("name", ["navigation-3", "hvac-3", "reservoir-10"])
@pytest.mark.parametrize("scaled", [True, False])
def test_environment_passes_gymnasiums_own_check(name, scaled):
    check_env(Environment(ilbo.make(name), scaled), skip_render_check=True)


def test_episode_earns_what_the_rollout_earns_on_the_same_noise():
    problem = ilbo.make("reservoir-10")
    env = Environment(problem, scaled=False)
    state, _ = env.reset(seed=3)
    noise = env._noise.copy()
    total, truncated, steps = 0.0, False, 0
    while not truncated:
        state, reward, terminated, truncated, _ = env.step(
            problem.model.heuristic(jnp.asarray(state))
        )
        total, steps = total + reward, steps + 1
        assert not terminated
    rolled = roll(
        problem.exact,
        problem.model.heuristic,
        jnp.array(noise)[:, None],
        jax.random.key(0),
        problem.initial_state[None],
    )
    assert steps == problem.horizon
    np.testing.assert_allclose(total, float(jnp.sum(rolled.rewards)), rtol=1e-5)


def test_scaled_actions_are_stretched_onto_the_bounds_at_the_state():
    problem = ilbo.make("reservoir-10")
    scaled, plain = Environment(problem), Environment(problem, scaled=False)
    state, _ = scaled.reset(seed=0)
    plain.reset(seed=0)
    low, high = problem.model.bounds(jnp.asarray(state))
    for unit, action in ((-1.0, low), (1.0, high), (0.0, (low + high) / 2)):
        scaled.reset(seed=0)
        plain.reset(seed=0)
        a = scaled.step(np.full(problem.action_size, unit, np.float32))[0]
        b = plain.step(np.asarray(action))[0]
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_actions_without_bounds_are_taken_as_they_are_and_a_terminal_state_ends_the_episode():
    env = Environment(walk())
    env.reset(seed=0)
    assert not np.isfinite(env.action_space.high).any()
    state, _, terminated, truncated, _ = env.step(np.array([1.5], np.float32))
    assert (state[0], terminated, truncated) == (1.5, False, False)
    state, _, terminated, truncated, _ = env.step(np.array([1.5], np.float32))
    assert (state[0], terminated, truncated) == (3.0, True, False)
    with pytest.raises(UserError, match="call `reset`"):
        env.step(np.array([0.0], np.float32))


def test_starts_are_own_or_given_or_in_the_region():
    problem = ilbo.make("hvac-3")
    np.testing.assert_array_equal(Environment(problem).reset(seed=0)[0], problem.initial_state)
    given, _ = Environment(problem).reset(seed=0, options={"start": [1.0, 2.0, 3.0]})
    np.testing.assert_array_equal(given, [1, 2, 3])
    drawn, _ = Environment(problem, region_starts=True).reset(seed=0)
    low, high = problem.region
    assert np.all((low <= drawn) & (drawn <= high))
    assert not np.array_equal(drawn, problem.initial_state)


def test_vector_environment_restarts_each_episode_in_the_step_after_its_end():
    envs = VectorEnvironment(walk(horizon=3), num_envs=2)
    assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    states, _ = envs.reset(seed=0)
    assert envs.observation_space.contains(states)
    fast_and_slow = np.array([[3.0], [0.5]], np.float32)
    seen = [envs.step(fast_and_slow) for _ in range(4)]
    states, rewards, terminated, truncated = (
        np.stack(x) for x in list(zip(*seen, strict=True))[:4]
    )
    np.testing.assert_allclose(states[:, :, 0], [[3, 0.5], [0, 1], [3, 1.5], [0, 0]])
    np.testing.assert_allclose(rewards, [[-9, -0.25], [0, -1], [-9, -2.25], [0, 0]])
    np.testing.assert_array_equal(terminated[:, 0], [True, False, True, False])
    np.testing.assert_array_equal(truncated[:, 1], [False, False, True, False])


def test_vector_environment_is_repeatable_and_agrees_in_law_with_the_single_one():
    problem = ilbo.make("navigation-3")
    envs = VectorEnvironment(problem, num_envs=256, scaled=False)
    act = jax.jit(jax.vmap(problem.model.heuristic))

    def returns(seed):
        states, _ = envs.reset(seed=seed)
        total = np.zeros(envs.num_envs)
        for _ in range(problem.horizon):
            states, rewards, _, truncated, info = envs.step(act(states))
            assert rewards.shape == info["violations"].shape == (256,)
            total += rewards
        assert truncated.all()
        return total

    first = returns(1)
    np.testing.assert_array_equal(first, returns(1))
    assert not np.array_equal(first, returns(2))
    wanted = ilbo.evaluate(problem, problem.model.heuristic, 0, 512)
    error = np.hypot(first.std() / 16, wanted.std / 512**0.5)
    assert abs(first.mean() - wanted.mean) < 4 * error
