import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_runs

import ilbo
from ilbo.nn.parameters import pack
from ilbo.planning.estimators import Pathwise


def leaves(policy):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(policy.network)]


def same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(leaves(first), leaves(second), strict=True))


def test_a_seed_gives_the_same_bits_alone_and_among_others():
    problem = tiny_runs.problem()
    together = ilbo.plan(problem, tiny_runs.CONFIG, seeds=3, episodes=4)
    alone = ilbo.plan(problem, tiny_runs.CONFIG, seed=1, episodes=4)
    assert same(together.policies[1], alone.policy)
    assert not same(together.policies[0], alone.policy)


def test_one_vectorised_program_trains_as_the_single_ones_do():
    problem = tiny_runs.problem()
    planner = tiny_runs.planner(problem, seeds=(0, 1), episodes=4, vectorise=True)
    seeds = planner.start()
    for segment in planner.segments_after(0):
        seeds, _, current, best = planner.advance(seeds, segment)
    assert current.shape == best.shape == (2,)
    single = ilbo.plan(problem, tiny_runs.CONFIG, seed=1, episodes=4)
    together = list(planner.split(seeds))[1].held
    for found, wanted in zip(together, pack(single.policy.network), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_progress_and_history_tell_the_same():
    told = []
    plan = ilbo.plan(tiny_runs.problem(), tiny_runs.CONFIG, episodes=5, progress=told.append)
    assert told == plan.history[0]
    assert [record.episode for record in told] == [2, 4, 5]
    best = [record.best for record in told]
    assert best == sorted(best)
    assert all(record.best >= record.current for record in told)


@pytest.mark.parametrize(
    ("parallel", "updates"), [(2, 8), pytest.param(1, 16, marks=pytest.mark.slow)]
)
def test_every_sample_is_counted(parallel, updates):
    config = dataclasses.replace(tiny_runs.CONFIG, parallel=parallel, critic_share=0.5)
    plan = ilbo.plan(tiny_runs.problem(), config, episodes=4)
    # 4 episodes of 4 steps; each update of the policy sees 2 windows of 2 steps, and every fourth
    # tries out 2 actions both ways; at each of 2 tests 2 policies go along 2 episodes.
    assert plan.samples.transitions == 16
    assert plan.samples.gradient_steps == 2 * updates
    assert plan.samples.model_evaluations == (
        updates * 2 * 2 + updates // 4 * 2 * 2 * 2 + 256 + 2 * 2 * 2 * 4
    )
    assert plan.samples.random_draws == 16 + 256
    assert plan.samples.test_transitions == 2 * 4 * 4


def test_transitions_that_are_not_finite_are_left_out_and_training_goes_on():
    problem = tiny_runs.problem(tiny_runs.Drift(broken_above=jnp.array(1.6)))
    config = dataclasses.replace(tiny_runs.CONFIG, exploration=1.0)
    plan = ilbo.plan(problem, config, episodes=200)
    assert plan.faults == [None]
    assert plan.history[0][-1].episode == 200
    assert np.isfinite([record.critic_loss for record in plan.history[0]]).all()
    assert all(np.isfinite(leaf).all() for leaf in leaves(plan.policy))


def test_the_score_needs_a_density_and_says_why_there_is_none():
    class Deterministic(tiny_runs.Drift):
        def transition(self, state, action, noise):
            return state + action

    problem = tiny_runs.problem(Deterministic())
    config = ilbo.ILBO(**(tiny_runs.CONFIG.to_dict() | {"estimator": "score", "draws": 2}))
    with pytest.raises(ilbo.DensityError, match="'s1' is deterministic"):
        ilbo.plan(problem, config, episodes=2)


@pytest.mark.parametrize(
    "changes",
    [
        {
            "estimator": "score",
            "draws": 2,
            "critic": "discounted",
            "optimizer": "rmsprop",
            "parallel": 2,
            "updates": 2,
        },
        *(
            pytest.param(changes, marks=pytest.mark.slow)
            for changes in (
                {"estimator": Pathwise(draws=2, depth=2, window=2)},
                {"estimator": "score", "baseline": "value", "next_states": "stored"},
                {"estimator": "critic"},
                {"critic_share": 0.5, "prioritised": True},
                {"next_states": "fresh", "draws": 2},
                {"guard": 0, "target_every": 1},
            )
        ),
    ],
)
def test_every_setting_trains(changes):
    config = ilbo.ILBO(**(tiny_runs.CONFIG.to_dict() | changes))
    plan = ilbo.plan(tiny_runs.problem(), config, episodes=4)
    assert plan.faults == [None]
    assert np.isfinite([record.current for record in plan.history[0]]).all()
    assert jnp.all(jnp.abs(plan.policy(jnp.ones(1))) <= 1)


def test_bad_numbers_of_episodes_and_seeds():
    with pytest.raises(ilbo.UserError, match="episodes"):
        ilbo.plan(tiny_runs.problem(), tiny_runs.CONFIG, episodes=0)
    with pytest.raises(ilbo.UserError, match="Seeds"):
        ilbo.plan(tiny_runs.problem(), tiny_runs.CONFIG, seeds=[1, 1])


@pytest.mark.parametrize(
    ("problem", "config", "given", "said"),
    [
        (
            3,
            None,
            {},
            "takes an `ilbo.Problem`, not 3",
        ),
        (None, "fast", {}, "Settings are an `ilbo.ILBO`, or a dict of them, not 'fast'"),
        (None, {"lr": 0.1}, {}, "no setting 'lr'; did you mean 'policy_rate'"),
        (None, None, {"episodes": "10"}, "episodes must be a whole number; it is '10'"),
        (None, None, {"seconds": "10"}, "seconds must be a positive number; it is '10'"),
        (None, None, {"seed": "a"}, "A seed must be a whole number; it is 'a'"),
        (None, None, {"seed": -1}, "from 0 to 2³² − 1, got -1"),
        (None, None, {"seeds": "ab"}, "number of seeds must be a whole number; it is 'ab'"),
        (None, None, {"seeds": [0, 1.5]}, "A seed must be a whole number; it is 1.5"),
    ],
)
def test_arguments_that_make_no_sense_are_told(problem, config, given, said):
    with pytest.raises(ilbo.UserError, match=said):
        ilbo.plan(problem or tiny_runs.problem(), config, **given)


@pytest.mark.slow
def test_a_dict_of_settings_and_numbers_of_numpy_are_taken():
    settings = {"layers": np.array([4]), "depth": np.int64(1), "window": 1, "guard": 0}
    plan = ilbo.plan(tiny_runs.problem(), settings, episodes=np.int64(2), seeds=np.array([3, 5]))
    assert (plan.seeds, plan.episode, plan.config.layers) == ((3, 5), 2, (4,))


def test_a_problem_without_gradient_is_told_before_it_is_trained():
    class Rounded(tiny_runs.Drift):
        def reward(self, state, action, next_state):
            return jnp.sum(jnp.round(next_state))

    problem = tiny_runs.problem(Rounded())
    # The warning, an error in these tests, ends the call: it comes before anything is compiled.
    with pytest.raises(ilbo.PlanningWarning, match="has no gradient in the action"):
        ilbo.plan(problem, tiny_runs.CONFIG, episodes=1)


@pytest.mark.parametrize("guard", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_a_rate_beyond_all_measure_stops_the_run_and_keeps_a_finite_policy(guard):
    config = dataclasses.replace(tiny_runs.CONFIG, policy_rate=1e300, guard=guard)
    with pytest.warns(ilbo.PlanningWarning, match="is not finite"):
        plan = ilbo.plan(tiny_runs.problem(), config, episodes=8)
    assert plan.ending == "fault"
    assert all(np.isfinite(leaf).all() for leaf in leaves(plan.policy))
    assert all(np.isfinite(leaf).all() for leaf in leaves(plan.best_policy))
    assert np.isfinite(ilbo.evaluate(tiny_runs.problem(), plan.policy, 1, episodes=4).mean)
