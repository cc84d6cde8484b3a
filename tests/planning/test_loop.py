"""The training loop and its hooks; what a user can put into its seams."""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_runs

import ilbo
from ilbo.planning.estimators import Pathwise, Score
from ilbo.planning.loop import (
    UNKNOWN_LENGTH,
    Clock,
    Hook,
    Moment,
    Start,
    StopWhen,
    Tell,
    _expected_episodes,
    _is_over,
    train,
)


class Listen(Hook):
    def __init__(self):
        self.heard = []

    def after(self, moment):
        self.heard.append((moment.episode, moment.ending, len(moment.records)))


def test_hooks_hear_of_every_segment_and_of_the_end():
    hook, told = Listen(), []
    plan = train(tiny_runs.planner(seeds=(0, 1), episodes=5), [hook, Tell(told.append)])
    assert hook.heard == [(2, None, 2), (4, None, 2), (5, "finished", 2)]
    assert plan.ending == "finished"
    assert [(record.seed, record.episode) for record in told] == [
        (seed, episode) for episode in (2, 4, 5) for seed in (0, 1)
    ]


def test_a_hook_stops_training_and_gives_the_reason():
    asked = iter([False, False, True])
    hook = Listen()
    plan = train(tiny_runs.planner(), [StopWhen(lambda: next(asked), "time is up"), hook])
    assert (plan.ending, plan.episode) == ("time is up", 2)
    assert plan.samples.episodes == plan.episode


def test_a_hook_that_knows_an_earlier_state_makes_training_go_on_from_there():
    class From(Hook):
        def __init__(self, start):
            self.start = start

        def begin(self, planner):
            return self.start

    whole = train(tiny_runs.planner(episodes=6))
    planner = tiny_runs.planner(episodes=6)
    seeds, _, _, _ = planner.advance(planner.start(), 2)
    rest = train(planner, [From(Start(seeds, episode=2))])
    assert [record.episode for record in rest.history[0]] == [4, 6]
    jax.tree.map(np.testing.assert_array_equal, rest.policy.network, whole.policy.network)


def test_a_fault_ends_training_and_is_said():
    broken = tiny_runs.problem(tiny_runs.Drift(broken_above=jnp.array(-jnp.inf)))
    hook = Listen()
    with pytest.warns(ilbo.PlanningWarning, match="reward is not finite at training step"):
        plan = train(tiny_runs.planner(broken), [hook])
    assert (plan.ending, hook.heard) == ("fault", [(2, "fault", 1)])
    assert "reward is not finite" in plan.fault


def test_an_estimator_as_an_object_is_the_same_as_its_flat_settings():
    flat = ilbo.ILBO(estimator="score", draws=4, depth=2, baseline="value")
    score = Score(draws=4, depth=2, baseline="value")
    assert flat.gradient == score
    assert ilbo.ILBO(estimator=score) == flat
    assert ilbo.ILBO(estimator=Pathwise(depth=7)).depth == 7


@dataclasses.dataclass(frozen=True)
class Doubled(Pathwise):
    """Twice the gradient: a step of an optimiser that looks at directions only is the same."""

    name: ClassVar[str] = "doubled"

    def __call__(self, at, sample):
        estimate = super().__call__(at, sample)
        return estimate._replace(gradients=2 * estimate.gradients)


@pytest.mark.slow
def test_an_estimator_of_ones_own_is_used():
    config = dataclasses.replace(tiny_runs.CONFIG, guard=0)
    plain = ilbo.plan(tiny_runs.problem(), config, episodes=2)
    own = dataclasses.replace(config, estimator=Doubled(depth=2, window=1))
    doubled = ilbo.plan(tiny_runs.problem(), own, episodes=2)
    assert doubled.history[0][-1].policy_gradient == pytest.approx(
        2 * plain.history[0][-1].policy_gradient, rel=1e-4
    )
    assert doubled.samples == plain.samples


class Table(eqx.Module):
    """A network of one's own: a straight line, with plain Python values beside its arrays."""

    slope: jax.Array
    name: str = "line"
    activation: object = jnp.tanh

    def __call__(self, x):
        return self.activation(self.slope @ x)


def make_table(key, inputs, outputs):
    return Table(0.1 * jax.random.normal(key, (outputs, inputs)))


@pytest.mark.slow
def test_a_network_of_ones_own_is_the_policy():
    config = dataclasses.replace(
        tiny_runs.CONFIG, policy=make_table, policy_rate=0.05, target_rate=0.2, guard=32
    )
    plan = ilbo.plan(tiny_runs.problem(), config, episodes=40)
    assert plan.policy.network.module.slope.shape == (1, 1)
    assert plan.policy.network.module.name == "line"
    assert float(plan.policy.network.module.slope[0, 0]) < -0.1  # pulls the point back to 0
    assert plan.policy(jnp.ones((5, 3, 1))).shape == (5, 3, 1)


def test_a_network_of_the_wrong_shape_is_told_in_one_sentence():
    def wrong(key, inputs, outputs):
        return Table(jnp.zeros((outputs + 1, inputs)))

    def counting(key, inputs, outputs):
        return Table(jnp.zeros((outputs, inputs), int))

    for make, said in ((wrong, r"shape \(2,\).*must be \(1,\)"), (counting, "array of int32")):
        with pytest.raises(ilbo.UserError, match=said):
            ilbo.plan(tiny_runs.problem(), dataclasses.replace(tiny_runs.CONFIG, policy=make))


class Ticking(Clock):
    """A clock that says what it is told."""

    seconds, usual = 0.0, None

    def __init__(self, seconds, usual):
        self.seconds, self.usual = seconds, usual


def test_schedules_of_a_run_by_the_clock_follow_its_pace():
    planner = tiny_runs.planner()
    moment = Moment(planner, [], 10, [], [[]], Ticking(4.0, None))
    assert _expected_episodes(planner, moment, 20.0) == 10 + UNKNOWN_LENGTH * 2
    moment = dataclasses.replace(moment, clock=Ticking(4.0, (2, 0.5)))
    assert _expected_episodes(planner, moment, 20.0) == 10 + 32 * 2  # 16 s left, 2 episodes in 0.5
    assert not _is_over(Ticking(19.4, (2, 0.5)), 20.0)
    assert _is_over(Ticking(19.6, (2, 0.5)), 20.0)
    planner.expect(74)
    assert float(planner.trainer.total_steps) == 74  # of 4 steps, 4 episodes side by side


@pytest.mark.slow
def test_a_run_by_the_clock_finishes_whatever_the_episodes():
    plan = ilbo.plan(tiny_runs.problem(), tiny_runs.CONFIG, seconds=0.01)
    assert plan.ending == "finished"
    assert plan.episode % 2 == 0
    assert len(plan.history[0]) == plan.episode // 2
    longer = ilbo.plan(tiny_runs.problem(), tiny_runs.CONFIG, seconds=3.0)  # compiled by now
    assert longer.episode > plan.episode


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), float("inf")])
def test_a_time_budget_is_a_positive_number(seconds):
    with pytest.raises(ilbo.UserError, match="seconds must be a positive number"):
        ilbo.plan(tiny_runs.problem(), seconds=seconds)
    with pytest.raises(ilbo.UserError, match="not both"):
        ilbo.plan(tiny_runs.problem(), seconds=1.0, episodes=2)
