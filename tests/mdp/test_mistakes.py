"""What users get wrong is told in one sentence, or taken where its meaning is plain."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ilbo
from ilbo.mdp import probe
from ilbo.mdp.device import check_device


class Pair(ilbo.Model):
    """Two components that drift; both actions count."""

    law = ilbo.Gaussian(2)

    def transition(self, state, action, noise):
        return state + action + noise

    def reward(self, state, action, next_state):
        return -jnp.sum(next_state**2)

    def bounds(self, state):
        return -jnp.ones(2), jnp.ones(2)


SETTINGS = {"name": "pair", "initial_state": [0.0, 0.0], "horizon": 5, "region": (-1.0, 1.0)}


def pair(model: ilbo.Model | None = None, **changes) -> ilbo.Problem:
    return ilbo.Problem(model or Pair(), **(SETTINGS | changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"region": 20.0}, r"region must be a pair \(low, high\)"),
        ({"region": (-np.inf, 1.0)}, "region has a number that is not finite"),
        ({"initial_state": [np.nan, 0.0]}, "initial state has a number that is not finite"),
        ({"initial_state": [5.0, 0.0]}, r"s1 = 5, outside the region \[-1, 1\]"),
        ({"domain": (1.0, 2.0)}, r"s1 = 0, outside the domain \[1, 2\]"),
        ({"initial_state": "ab"}, "'ab' is not a list of numbers"),
        ({"horizon": 5.5}, "horizon must be a whole number; it is 5.5"),
        ({"horizon": "5"}, "horizon must be a whole number; it is '5'"),
        ({"horizon": 10**30}, "horizon must be at most 2,147,483,647"),
        ({"initial_state": [1e300, 0.0]}, "initial state has a number that is not finite"),
        ({"discount": None}, "discount None is no number"),
        ({"state_names": "ab"}, "state_names is the text 'ab'; it must be a list of 2"),
        ({"action_units": "kW"}, "action_units is the text 'kW'"),
        ({"action_names": ("a", 2)}, "action_names holds 2, which is no text"),
    ],
)
def test_settings_of_a_problem_that_make_no_sense(changes, said):
    with pytest.raises(ilbo.UserError, match=said):
        pair(**changes)


def test_whole_numbers_and_lists_of_names_are_taken():
    problem = pair(horizon=np.int64(4), state_names=["x", "y"])
    assert (problem.horizon, problem.state_names) == (4, ("x", "y"))
    assert pair(horizon=4.0).horizon == 4
    hash(problem.state_names)  # a static field must have a hash


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Pair, r"is the class Pair itself: give an object, Pair\(\)"),
        ("navigation-3", "'navigation-3', which is no `ilbo.Model`"),
    ],
)
def test_what_is_no_model(model, said):
    with pytest.raises(ilbo.UserError, match=said):
        ilbo.Problem(model, **SETTINGS)


class Flipped(Pair):
    def bounds(self, state):
        return jnp.ones(2), -jnp.ones(2)


def test_bounds_the_wrong_way_round():
    with pytest.raises(ilbo.UserError, match="a1 a lowest value of 1 and a highest of -1"):
        pair(Flipped())


def returning(method, what):
    """A model one of whose methods returns something of its own."""
    return type("Odd", (Pair,), {method: lambda self, state, *rest: what(state)})()


@pytest.mark.parametrize(
    ("method", "what", "said"),
    [
        ("transition", jnp.int32, "transition returns the type int32"),
        ("transition", lambda state: state > 0, "transition returns the type bool"),
        ("transition", lambda state: state * 1j, "transition returns the type complex"),
        ("transition", lambda state: [state[0], 0.0], "transition gives a list where an array"),
        ("transition", np.asarray, "gives it to a function of NumPy's"),
        ("reward", lambda state: 1j, "reward returns a complex number"),
        ("bounds", lambda state: ([0.0, 0.0], [1.0, 1.0]), "bounds gives a list where an array"),
        ("bounds", lambda state: (np.full(2, np.inf),) * 2, "no number lies between"),
    ],
)
def test_what_a_model_returns_that_planning_cannot_use(method, what, said):
    with pytest.raises(ilbo.UserError, match=said):
        pair(returning(method, what))


class Beyond(Pair):
    def transition(self, state, action, noise):
        return state + action + noise[2]


class Before(Pair):
    def transition(self, state, action, noise):
        return state + action + noise[-3]


class Several(Pair):
    def transition(self, state, action, noise):
        return state + action + noise[jnp.array([0, 2])]


class Written(Pair):
    def transition(self, state, action, noise):
        return (state + action).at[2].add(noise[0])


class Inner(Pair):
    def reward(self, state, action, next_state):
        return jnp.where(state[0] > 0, state[4], 0.0)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Beyond(), r"transition reads noise\[2\], but there are 2 entries"),
        (Before(), r"transition reads noise\[-3\]"),
        (Several(), r"transition reads noise\[2\]"),
        (Written(), "transition writes index 2 of an array"),
        (Inner(), r"reward reads state\[4\]"),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, ilbo.Model) else "",
)
def test_indexes_beyond_an_array(model, said):
    with pytest.raises(ilbo.UserError, match=said):
        pair(model)


class Proper(Pair):
    """Indexes that are right, chosen by the state, or clipped on purpose."""

    table = np.array([1.0, 2.0, 3.0], np.float32)

    def transition(self, state, action, noise):
        chosen = jnp.asarray(self.table)[jnp.int32(state[0])]
        last = noise[-1] + jnp.take(noise, 7, mode="clip") + state[np.array([1, 0])]
        return jnp.stack([state[0], state[-2]]).at[-1].add(chosen) + action[:5] + last


def test_indexes_that_are_right_pass():
    pair(Proper())


class Rounded(Pair):
    def reward(self, state, action, next_state):
        return jnp.round(next_state[0] + action[0])


class Idle(Pair):
    """The second action moves a state that no reward ever sees."""

    def reward(self, state, action, next_state):
        return -(next_state[0] ** 2)


class Later(Pair):
    """The second action moves a state that moves the other one, which counts, a step later."""

    def transition(self, state, action, noise):
        return jnp.stack([state[0] + state[1], state[1] + action[1]]) + noise

    def reward(self, state, action, next_state):
        return action[0] - next_state[0] ** 2


def test_a_reward_without_gradient_is_told():
    (said,) = probe.remarks(pair(Rounded()))
    assert "has no gradient in the action" in said


def test_actions_without_influence_are_named():
    (said,) = probe.remarks(pair(Idle(), action_names=("push", "pull")))
    assert "'pull' had no influence" in said
    assert "push" not in said


@pytest.mark.parametrize("model", [Pair(), Later()])
def test_influence_now_or_later_is_enough(model):
    assert probe.remarks(pair(model)) == []


@pytest.mark.parametrize(
    ("policy", "key", "episodes", "said"),
    [
        ("midpont", 0, 4, "no policy of the name 'midpont'; did you mean 'midpoint'"),
        ("heuristic", 0, 4, "Pair has no hand-written controller"),
        (3, 0, 4, "A policy is a function of the state, or one of random, midpoint, hold"),
        ("midpoint", 0, "10", "number of episodes must be a whole number; it is '10'"),
        ("midpoint", "abc", 4, "must be a whole number; it is 'abc'"),
        ("midpoint", -1, 4, "from 0 to 2⁶³ − 1, got -1"),
        (lambda state: np.zeros(3) * np.sin(state[0]), 0, 4, r"action of shape \(3,\)"),
        (lambda state: "left", 0, 4, "something else than an action"),
    ],
)
def test_arguments_of_evaluate_that_make_no_sense(policy, key, episodes, said):
    with pytest.raises(ilbo.UserError, match=said):
        ilbo.evaluate(pair(), policy, key, episodes)


def test_policies_by_name_and_numbers_of_numpy():
    problem = pair()
    by_name = ilbo.evaluate(problem, "midpoint", np.int64(3), np.int32(8))
    np.testing.assert_array_equal(
        by_name.returns, ilbo.evaluate(problem, lambda state: jnp.zeros(2), 3, 8).returns
    )
    assert ilbo.compare(problem, "midpoint", "random", 0, 8).difference > 0


def clipped(state):
    """Of NumPy's functions, which JAX cannot trace."""
    return np.clip(-np.asarray(state), -1, 1)


class Predicting:
    """As models of Stable-Baselines3 are asked."""

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        assert deterministic
        assert observation.ndim == 2
        return clipped(observation), None


class Remembering:
    """A controller with a memory, which must be called for every step."""

    def __init__(self):
        self.calls = 0

    def __call__(self, states):
        self.calls += 1
        return clipped(states)


@pytest.mark.parametrize(
    "policy", [clipped, Predicting(), ilbo.NumpyPolicy(clipped), lambda s: clipped(s).tolist()]
)
def test_controllers_of_other_libraries_earn_the_same(policy):
    problem = pair()
    traced = ilbo.simulate(problem, lambda state: jnp.clip(-state, -1, 1), 0, 6)
    called = ilbo.simulate(problem, policy, 0, 6)
    jax.tree.map(lambda *two: np.testing.assert_allclose(*two, rtol=1e-6), traced, called)


def test_a_wrapped_controller_is_called_at_every_step():
    controller = Remembering()
    ilbo.simulate(pair(), ilbo.NumpyPolicy(controller, batch=True), 0, 6)
    assert controller.calls == SETTINGS["horizon"]


def test_an_error_of_a_controller_is_its_own():
    def broken(state):
        raise ZeroDivisionError("in the controller")

    with pytest.raises(ZeroDivisionError, match="in the controller"):
        ilbo.evaluate(pair(), broken, 0, 4)


def test_a_device_that_is_not_there(monkeypatch):
    def none():
        raise RuntimeError("no such backend")

    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    monkeypatch.setattr("jax.devices", none)
    check_device.cache_clear()
    with pytest.raises(ilbo.UserError, match="no device for JAX_PLATFORMS='cuda'"):
        ilbo.make("navigation-3")
    check_device.cache_clear()
