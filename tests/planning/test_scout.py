import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_runs

import ilbo
from ilbo.baselines import ThroughTime, ThroughTimeTrainer
from ilbo.planning.loop import train
from ilbo.planning.open_plan import Open, OpenLoop
from ilbo.planning.planner import Planner
from ilbo.planning.rounds import SHAKE, Ascent, Evolution, search
from ilbo.planning.scout import KNOTS, Scout, _hats
from ilbo.planning.scouting import Scouting


class Plateau(ilbo.Model):
    """A point that earns nothing but within a goal it must be pushed to: no gradient anywhere."""

    law = ilbo.Gaussian(0)

    def transition(self, state, action, noise):
        return state + 0.1 * action

    def reward(self, state, action, next_state):
        return jnp.where(jnp.abs(next_state[0] - 1) < 0.15, 1.0, 0.0)

    def bounds(self, state):
        return -jnp.ones(1), jnp.ones(1)


def plateau():
    return ilbo.Problem(
        Plateau(), name="plateau", initial_state=[0.0], horizon=20, region=(-1.0, 1.0)
    )


def test_hats_interpolate_between_knots_and_end_with_them():
    hats = _hats(9, 0.0, 8.0, 5)
    np.testing.assert_allclose(hats.sum(axis=1), 1.0)
    np.testing.assert_allclose(hats @ np.arange(5), np.arange(9) / 2, atol=1e-6)
    window = _hats(9, 2.0, 6.0, 5)
    np.testing.assert_allclose(window[:2], 0.0)
    np.testing.assert_allclose(window[2:7], np.eye(5))


def test_the_search_finds_a_goal_behind_a_plateau():
    problem = plateau()
    scout = Scout(problem, seed=0)
    for _ in range(20):  # the first one compiles
        scout.search(0.2)
        if scout.earned == 12:
            break
    # Within reach at step 8 at the earliest (0.1 a step, goal from 0.85 on), then 12 steps of 20.
    assert scout.earned == 12.0
    earned = ilbo.evaluate(problem, OpenLoop(scout.plan, problem), 1, episodes=2).mean
    assert earned == scout.earned
    assert scout.transitions > 0


class Boundless(ilbo.Model):
    """Two actions that lack bounds; the first is best at 80, the second at −300."""

    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return action

    def reward(self, state, action, next_state):
        return -jnp.sum(((action - jnp.array([80.0, -300.0])) / 100) ** 2)

    def bounds(self, state):
        return jnp.array([0.0, -jnp.inf]), jnp.full(2, jnp.inf)


def boundless():
    return ilbo.Problem(
        Boundless(), name="boundless", initial_state=[0.0, 0.0], horizon=4, region=(-1.0, 1.0)
    )


def test_actions_are_stretched_away_from_bounds_only():
    sides = Open.of(boundless())
    plan = jnp.array([[-3.0, -3.0], [0.01, 0.01], [3.0, 3.0]])
    far = np.sinh(3.0)
    np.testing.assert_allclose(
        sides.stretch(plan), [[-3.0, -far], [0.01, 0.01], [far, far]], rtol=1e-4
    )
    assert Scout(plateau(), seed=0).constant is None


@pytest.mark.slow
def test_training_begins_at_the_size_that_the_search_finds():
    problem = boundless()
    scout = Scout(problem, seed=0)
    for _ in range(20):
        scout.search(0.2)
        if scout._begun:
            break
    np.testing.assert_allclose(scout.constant, [80.0, -300.0], rtol=0.05)
    config = dataclasses.replace(tiny_runs.CONFIG, seconds=60.0)
    planner = tiny_runs.planner(problem=problem, config=config)
    begun = planner.begin_at(planner.start(), [scout.constant])
    policy = planner.trainer.policy(begun[0].state.policy)
    np.testing.assert_allclose(policy(problem.initial_state, 0), [80.0, -300.0], rtol=0.05)
    assert planner.advance(begun, 1)  # its arrays are used up: none may be there twice


class Edge(Plateau):
    """Earns more the nearer it stays to an edge, and nothing beyond it."""

    def transition(self, state, action, noise):
        return action

    def reward(self, state, action, next_state):
        return jnp.where(action[0] < 0.5, 1.0 + action[0], 0.0)


def test_the_best_plan_keeps_off_an_edge_that_rounding_could_push_it_over():
    problem = dataclasses.replace(plateau(), model=Edge(), exact=None)
    scout, times = Scout(problem, seed=0), jnp.arange(20)
    for _ in range(40):
        scout._evolve(50)
        actions = jax.vmap(OpenLoop(scout.plan, problem), in_axes=(None, 0))(jnp.zeros(1), times)
        if jnp.min(actions) > 0.4:
            break
    assert jnp.min(actions) > 0.4
    assert jnp.max(actions) < 0.5
    assert jnp.mean(actions) < 0.5 - SHAKE / 2


class Zigzag(Plateau):
    """Wants another action at each step: the state counts them, ups and downs in turn."""

    def transition(self, state, action, noise):
        return state + 1

    def reward(self, state, action, next_state):
        return -((action[0] - 0.5 * jnp.cos(jnp.pi * state[0])) ** 2)


def zigzag():
    horizon = 2 * KNOTS
    model = Zigzag()
    return dataclasses.replace(plateau(), model=model, exact=None, name="zigzag", horizon=horizon)


def test_ascent_moves_each_action_on_its_own_which_knots_cannot():
    scout = Scout(zigzag(), seed=0)
    constant = -0.25 * 2 * KNOTS  # of the best plan that is the same at all steps
    evolved, _ = search(scout._judge, scout._evolution, jnp.array(200))
    assert evolved.found.earned < 0.9 * constant
    ascent = Ascent.begin(evolved.found, scout._key, evolved.found.best)
    climbed, taken = search(scout._judge, ascent, jnp.array(300))
    assert climbed.found.earned > 0.01 * constant
    assert taken > 10


def test_a_plan_climbs_by_the_slope_of_what_it_earns():
    problem = dataclasses.replace(tiny_runs.problem(), horizon=5)
    scout = Scout(problem, seed=0)
    judge, shake = scout._judge, jnp.zeros((5, 1))
    plan = jnp.linspace(-1.0, 1.0, 5)[:, None]
    slope = judge.slope(plan, shake, judge.noise, jnp.array(1.0))
    earn = eqx.filter_jit(judge.earn)
    for t in range(5):
        step = 1e-2 * jnp.zeros((5, 1)).at[t].set(1.0)
        ends = [earn(plan + sign * step, shake) for sign in (1, -1)]
        np.testing.assert_allclose(slope[t, 0], (ends[0] - ends[1]) / 2e-2, rtol=2e-2, atol=2e-3)


class Far(Plateau):
    """A goal whose relaxation can be felt from afar where it is wide."""

    width: jax.Array = dataclasses.field(default_factory=lambda: jnp.array(0.0))

    def reward(self, state, action, next_state):
        inside = 0.15 - jnp.abs(next_state[0] - 1)
        felt = jax.nn.sigmoid(inside / jnp.where(self.width > 0, self.width, 1.0))
        return jnp.where(self.width > 0, felt, jnp.where(inside > 0, 1.0, 0.0))

    def relaxed(self, factor):
        return dataclasses.replace(self, width=self.width * factor)


@pytest.mark.parametrize(("factor", "earned"), [(1.0, 0.0), (100.0, 12.0)])
def test_wide_relaxations_lead_to_what_narrow_ones_do_not_see(factor, earned):
    narrow, exact = Far(jnp.array(1e-3)), Far(jnp.array(0.0))
    problem = dataclasses.replace(plateau(), model=narrow, exact=exact, name="far")
    scout = Scout(problem, seed=0)
    start = jnp.zeros((20, 1))
    ascent = Ascent.begin(scout.found, scout._key, start, factor)
    climbed, _ = search(scout._judge, ascent, jnp.array(300))
    assert float(climbed.found.earned) == earned


def test_ascents_begin_at_the_best_plan_and_anew_in_turn():
    scout = Scout(plateau(), seed=0)
    factors, begun = [], []
    for turn in range(8):
        scout.found = eqx.tree_at(
            lambda f: (f.best, f.earned),
            scout.found,
            (jnp.full((20, 1), float(turn)), jnp.array(float(turn))),
        )
        ascent = scout._next_ascent()
        factors.append(float(ascent.factor))
        begun.append(np.asarray(ascent.climbing[0]))
    # The first one was begun with the search itself, from nothing.
    assert factors == [1, 10, 10, 100, 100, 1, 1, 10]
    np.testing.assert_allclose(begun[0], 0.0)
    np.testing.assert_allclose(begun[1], 1.0)
    np.testing.assert_allclose(begun[3], 3.0)
    assert np.std(begun[6]) > 0.1
    scout._ascents = 2
    np.testing.assert_allclose(scout._next_ascent().climbing[0], 0.0)  # none better since


def test_rounds_hand_the_best_plan_on_and_what_they_do_is_counted():
    scout = Scout(zigzag(), seed=0)
    scout.prepare()
    assert scout.transitions == 0
    scout._evolve(20)
    evolved = scout.earned
    scout._climb(20)
    assert scout.earned > evolved
    scout._evolve(20)
    assert scout.earned == float(scout._evolution.found.earned) > evolved
    assert isinstance(scout._evolution, Evolution)
    a_generation = (scout._evolution.plans + 8) * 40 + (scout._ascent.plans + 8) * 20
    assert scout.transitions == a_generation * scout.problem.horizon


def test_a_run_by_the_clock_hands_out_what_the_search_found():
    config = dataclasses.replace(tiny_runs.CONFIG, layers=(4,))
    plan = ilbo.plan(plateau(), config, seconds=4.0)
    assert plan.policy.timed
    assert plan.ending == "finished"
    assert ilbo.evaluate(plan.problem, plan.policy, 1, episodes=2).mean >= 11
    assert plan.samples.model_evaluations > 10_000


def test_a_plan_is_held_only_while_it_is_better():
    config = dataclasses.replace(tiny_runs.CONFIG, seconds=60.0)
    planner = tiny_runs.planner(config=config)
    seeds = planner.start()
    good = jnp.full((4, 1), -1.1)  # about −0.5 a step: from 1 towards 0
    (held,) = planner.policies(planner.offer(seeds, [good]))[0]
    np.testing.assert_allclose(held.network.plan, good)
    again = planner.offer(planner.offer(seeds, [good]), [jnp.full((4, 1), 5.0)])
    (held,) = planner.policies(again)[0]
    np.testing.assert_allclose(held.network.plan, good)
    assert Scouting(planner, 60.0)._leads(again)
    assert not Scouting(planner, 60.0)._leads(seeds)


def test_runs_by_episodes_search_for_no_plans():
    planner = tiny_runs.planner()
    assert Scouting.of(planner, None) is None
    assert not train(planner).policy.timed


def test_other_trainers_run_by_the_clock_too():
    config = ThroughTime(layers=(4,), batch=2, epochs=1_000, evaluate_every=1, test_episodes=2)
    trainer = ThroughTimeTrainer.of(tiny_runs.problem(), config)
    planner = Planner(trainer, (0,), config.episodes)
    assert train(planner, seconds=0.1).ending == "finished"
    assert planner.scouted == 0
