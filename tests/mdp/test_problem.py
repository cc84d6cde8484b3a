"""Models and problems of the user's own: what works without ceremony, and what is told."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ilbo


class Tank(ilbo.Model):
    """A tank that leaks: the shortest model that is complete."""

    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return 0.9 * state + action + 0.1 * noise

    def reward(self, state, action, next_state):
        return -jnp.sum((next_state - 1) ** 2)

    def bounds(self, state):
        return jnp.zeros(1), jnp.ones(1)


SETTINGS = {"name": "tank", "initial_state": [0.0], "horizon": 5, "region": (0.0, 2.0)}


def test_a_short_model_simulates_and_has_a_density():
    problem = ilbo.Problem(Tank(), **SETTINGS)
    assert (problem.state_size, problem.action_size) == (1, 1)
    assert (problem.state_names, problem.action_names) == (("s1",), ("a1",))
    assert np.isfinite(ilbo.evaluate(problem, lambda state: 1 - 0.9 * state, 0, 8).mean)
    value = problem.model.log_density(jnp.zeros(1), jnp.ones(1), jnp.ones(1))
    np.testing.assert_allclose(value, -np.log(0.1 * np.sqrt(2 * np.pi)), rtol=1e-5)


def test_starts_fill_the_region():
    problem = ilbo.make("reservoir-10")
    starts = problem.starts(jax.random.key(0), (500,))
    low, high = problem.region
    assert starts.shape == (500, 10)
    assert bool(jnp.all((starts >= low) & (starts <= high)))
    np.testing.assert_allclose(starts.mean(axis=0), (low + high) / 2, rtol=0.15)
    assert problem.starts(jax.random.key(0)).shape == (10,)


def test_a_model_with_its_own_noise_is_asked_for_it():
    class Constant(Tank):
        def noise(self, key):
            return jnp.full(1, 2.0)

    problem = ilbo.Problem(Constant(), **SETTINGS)
    states = ilbo.simulate(problem, lambda state: jnp.zeros(1), 0, 3).states
    np.testing.assert_allclose(states[:, 1], 0.2, rtol=1e-6)


def test_evaluation_runs_the_exact_model():
    class Doubled(Tank):
        def reward(self, state, action, next_state):
            return 2 * super().reward(state, action, next_state)

    plain = ilbo.Problem(Tank(), **SETTINGS)
    relaxed = ilbo.Problem(Tank(), **SETTINGS, exact=Doubled())
    means = [
        ilbo.evaluate(problem, lambda state: jnp.zeros(1), 0, 4).mean
        for problem in (plain, relaxed)
    ]
    np.testing.assert_allclose(means[1], 2 * means[0], rtol=1e-6)


class NoLaw(Tank):
    law = None


class WideTransition(Tank):
    def transition(self, state, action, noise):
        return jnp.zeros(3)


class VectorReward(Tank):
    def reward(self, state, action, next_state):
        return next_state


class ScalarBounds(Tank):
    def bounds(self, state):
        return 0.0, 1.0


class Broken(Tank):
    def transition(self, state, action, noise):
        return jnp.eye(7) @ state


@pytest.mark.parametrize(
    ("model", "changes", "words"),
    [
        (Tank, {"initial_state": 0.0}, "initial state must be a vector"),
        (Tank, {"horizon": 0}, "horizon must be at least 1, got 0"),
        (Tank, {"discount": 1.5}, r"discount must be in \(0, 1\], got 1.5"),
        (Tank, {"region": (2.0, 0.0)}, "region's low lies above its high"),
        (Tank, {"region": ([0.0, 1.0], 2.0)}, "region must be a pair"),
        (Tank, {"initial_state": [np.nan]}, "initial state has a number that is not finite"),
        (Tank, {"region": (0.0, np.inf)}, "region has a number that is not finite"),
        (Tank, {"domain": (np.nan, 1.0)}, "domain has a number that is not finite"),
        (Tank, {"state_names": ("a", "b")}, "state_names has 2 entries, not 1"),
        (Tank, {"action_units": ("m", "s")}, "action_units has 2 entries, not 1"),
        (NoLaw, {}, "`law` must be a law of noise"),
        (WideTransition, {}, r"transition returns shape \(3,\)"),
        (VectorReward, {}, "reward must be a scalar"),
        (ScalarBounds, {}, "bounds must return two vectors"),
        (Broken, {}, "the model fails on a state of size 1"),
    ],
)
def test_a_problem_that_cannot_be_is_told_in_one_sentence(model, changes, words):
    with pytest.raises(ilbo.UserError, match=words) as caught:
        ilbo.Problem(model(), **{**SETTINGS, **changes})
    assert "\n" not in str(caught.value)
    assert "'tank'" in str(caught.value)


def test_no_controller_is_told():
    problem = ilbo.Problem(Tank(), **SETTINGS)
    with pytest.raises(ilbo.UserError, match="Tank has no hand-written controller"):
        problem.model.heuristic(problem.initial_state)
