"""Models that see the time, against the same model with a clock in its state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import timed_models as problems

import ilbo
from ilbo.baselines.limit import hindsight
from ilbo.baselines.open_loop import straight_line
from ilbo.mdp import probe
from ilbo.planning import loop
from ilbo.planning.ilbo import ILBOTrainer

SMALL = dict(layers=(16,), guard=16, test_episodes=16, evaluate_every=20)


class Alternating(ilbo.Model):
    """A tiny model that indexes an array by the time."""

    table: jax.Array
    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return state + action + noise

    def reward(self, state, action, next_state, time):
        return -jnp.sum((next_state - self.table[time]) ** 2)

    def bounds(self, state):
        return -jnp.ones(1), jnp.ones(1)


def tiny(table, **changes):
    settings = dict(name="tiny", initial_state=[0.0], horizon=3, region=(-1.0, 1.0))
    return ilbo.Problem(Alternating(table), **settings | changes)


@pytest.mark.parametrize("policy", ["heuristic", "midpoint", "hold"])
def test_equal_actions_earn_as_with_a_clock_in_the_state(policy):
    timed, clocked = problems.timed(), problems.clocked()
    first = ilbo.simulate(timed, policy, 3, episodes=8)
    second = ilbo.simulate(clocked, policy, 3, episodes=8)
    np.testing.assert_allclose(first.rewards, second.rewards, rtol=1e-5)
    np.testing.assert_allclose(first.states, second.states[..., :1], rtol=1e-5)


def test_policies_may_declare_the_time():
    problem = problems.timed()
    wanted = ilbo.evaluate(problem, "heuristic", 0, episodes=8).mean

    def traced(state, time):
        return problem.model.heuristic(state, time)

    def in_numpy(state, time):
        return np.where(np.asarray(problems.PRICES)[int(time)] < 35.0, [1.0], [-1.0])

    for policy in (traced, in_numpy, problem.model.heuristic):
        assert ilbo.evaluate(problem, policy, 0, episodes=8).mean == pytest.approx(wanted)


@pytest.mark.slow
def test_a_policy_learns_the_hours():
    problem = problems.timed()
    policy = loop.plan(problem, ilbo.ILBO(**SMALL), episodes=400).policy
    assert policy.timed
    actions = ilbo.simulate(problem, policy, 1).actions[..., 0].mean(axis=0)
    assert actions[2] > 0.3  # energy is bought where it is cheapest,
    assert actions[4] < -0.3  # and sold where it is dearest
    earned = ilbo.evaluate(problem, policy, 1, episodes=64).mean
    assert earned > ilbo.evaluate(problem, "heuristic", 1, episodes=64).mean
    with pytest.raises(ilbo.UserError, match=r"policy\(state, time\)"):
        policy([2.0])


@pytest.mark.slow
def test_a_policy_earns_what_one_earns_with_a_clock_in_the_state():
    config = ilbo.ILBO(layers=(32,))
    timed, clocked = (
        ilbo.evaluate(problem, loop.plan(problem, config, episodes=1000).policy, 1, 256).mean
        for problem in (problems.timed(), problems.clocked())
    )
    assert timed > clocked - 1.0
    limit = hindsight(problems.timed(), 1, episodes=64, steps=200)
    assert timed < limit.mean + 3 * limit.standard_error


@pytest.mark.slow
def test_open_loop_plans_know_the_time():
    problem = problems.timed()
    found = straight_line(problem, 0)
    assert ilbo.evaluate(problem, "heuristic", 0).mean < found.evaluation.mean


def test_what_must_see_the_time_says_so():
    problem = problems.timed()
    with pytest.raises(ilbo.UserError, match="critic=time-left"):
        ILBOTrainer.of(problem, ilbo.ILBO.paper(), 10)
    with pytest.raises(ilbo.UserError, match="policy=time-left"):
        ILBOTrainer.of(problem, ilbo.ILBO(policy="state"), 10)
    assert ILBOTrainer.of(tiny(jnp.arange(3.0)), ilbo.ILBO(policy="state"), 10)


def test_an_index_beyond_the_data_is_told():
    assert tiny(jnp.arange(3.0)).sees_time
    with pytest.raises(ilbo.UserError, match="index 2 of an array, but there are 2 entries"):
        tiny(jnp.arange(2.0))


def test_a_list_indexed_by_the_time_is_told():
    with pytest.raises(ilbo.UserError, match=r"ilbo\.series"):
        tiny([1.0, 2.0, 3.0])


def test_series_stay_at_the_last_value_or_begin_anew():
    values = [1.0, 2.0, 4.0]
    times = jnp.arange(7)
    last, round_ = ilbo.series(values), ilbo.series(values, cyclic=True)
    assert jax.vmap(lambda t: last[t])(times).tolist() == [1, 2, 4, 4, 4, 4, 4]
    assert jax.vmap(lambda t: round_[t])(times).tolist() == [1, 2, 4, 1, 2, 4, 1]
    assert ilbo.series([[1.0, 2.0], [3.0, 4.0]])[1].tolist() == [3, 4]
    assert len(last) == 3


@pytest.mark.parametrize("values", [[], 3.0, ["a"], [1.0, float("nan")]])
def test_a_series_that_is_none_is_told(values):
    with pytest.raises(ilbo.UserError):
        ilbo.series(values)


def test_the_probe_sees_the_time():
    assert probe.remarks(problems.timed()) == []


def test_dynamic_programming_refuses_the_time():
    from ilbo.baselines.dynamic import solve

    with pytest.raises(ilbo.UserError, match="without the time"):
        solve(problems.timed(), 5)


def test_exported_policies_keep_bounds_by_the_time(tmp_path):
    import onnxruntime

    from ilbo.nn.policy import Policy
    from ilbo.nn.timed import TimedLayers

    problem = problems.timed(cyclic=True)
    policy = Policy.init(jax.random.key(0), problem, TimedLayers((8,), problem.horizon))
    written = ilbo.export.export_policy(policy, problem, tmp_path, onnx=True)
    session = onnxruntime.InferenceSession(str(written.files["onnx"]))
    for time in range(problem.horizon):
        given = {"state": np.array([[3.0]], np.float32), "time": np.array([time], np.float32)}
        np.testing.assert_allclose(session.run(None, given)[0][0], policy([3.0], time), rtol=1e-4)


class PricedBounds(problems.Storage):
    """Bounds that look the series up."""

    def bounds(self, state, time):
        return -jnp.ones(1), self.price[time][None] / 60


def test_onnx_can_look_up_a_series(tmp_path):
    from ilbo.nn.policy import Policy
    from ilbo.nn.timed import TimedLayers

    for cyclic in (False, True):
        model = PricedBounds(ilbo.series(problems.PRICES, cyclic=cyclic))
        problem = ilbo.Problem(model, name="p", initial_state=[2.0], horizon=8, region=(0.0, 4.0))
        policy = Policy.init(jax.random.key(0), problem, TimedLayers((8,), problem.horizon))
        written = ilbo.export.export_policy(policy, problem, tmp_path / str(cyclic), onnx=True)
        assert written.differences["onnx"] < 1e-4


def test_gymnasium_shows_the_time():
    gym = pytest.importorskip("gymnasium")
    from ilbo.adapters.gym import Environment, VectorEnvironment

    problem = problems.timed()
    one, many = Environment(problem, scaled=False), VectorEnvironment(problem, 2, scaled=False)
    assert one.observation_space.shape == (2,)
    state, _ = one.reset(seed=0)
    states, _ = many.reset(seed=0)
    assert state[1] == states[0, 1] == 0
    for time, price in enumerate(problems.PRICES[:3]):
        state, reward, *_ = one.step([0.5])
        states, rewards, *_ = many.step(np.full((2, 1), 0.5))
        assert state[1] == states[1, 1] == time + 1
        assert reward == pytest.approx(-price * 0.5 - 0.25)
        assert rewards[0] == pytest.approx(reward)
    assert isinstance(one, gym.Env)
