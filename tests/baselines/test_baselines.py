"""Planning through time, straight-line plans and the hindsight limit."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import ilbo
from ilbo.baselines import ThroughTime, ThroughTimeTrainer, hindsight, plan_through_time
from ilbo.baselines import straight_line as make_straight_line
from ilbo.baselines.limit import fractions
from ilbo.baselines.open_loop import clip, evaluation_noise, follow
from ilbo.baselines.through_time import total_rewards
from ilbo.mdp.bounds import within
from ilbo.mdp.simple import Midpoint
from ilbo.mdp.simulate import draw_noise, roll
from ilbo.nn.policy import Layers, Policy
from ilbo.planning.planner import TEST_SEED, Planner
from ilbo.planning.records import Samples

TINY = ThroughTime(layers=(8,), epochs=6, batch=4, evaluate_every=2, test_episodes=8, rate=1e-2)


class Walk(ilbo.Model):
    """s' = s + a + σ ξ, r = −s'²: cancel what is known, bear the rest."""

    law = ilbo.Gaussian(2)
    sigma: float = 0.5
    reach: float = 1.0

    def transition(self, state, action, noise):
        return state + action + self.sigma * noise

    def reward(self, state, action, next_state):
        return -jnp.sum(next_state**2)

    def bounds(self, state):
        return jnp.full(2, -self.reach), jnp.full(2, self.reach)

    def terminal(self, state):
        return jnp.sum(jnp.abs(state)) > 8.0


def walk(horizon=4, start=(1.5, -0.5), **options):
    return ilbo.Problem(
        Walk(**options), name="walk", initial_state=start, horizon=horizon, region=(-6.0, 6.0)
    )


@pytest.fixture(scope="module")
def tiny_plan():
    return plan_through_time(walk(), TINY, seeds=2)


def test_return_through_time_is_that_of_the_rollout():
    for problem in (walk(start=(5.0, -2.5), sigma=3.0, horizon=12), ilbo.make("reservoir-10")):
        policy = Policy.init(jax.random.key(0), problem, Layers((16,)))
        noise = draw_noise(problem.model, jax.random.key(1), (problem.horizon, 5))
        starts = jnp.broadcast_to(problem.initial_state, (5, problem.state_size))
        expected = roll(problem.model, policy, noise, jax.random.key(2), starts)
        returns = total_rewards(problem, policy, noise)
        np.testing.assert_allclose(returns, expected.rewards.sum(axis=1), rtol=1e-5)
        if problem.name == "walk":
            assert not expected.alive.all(), "some episode should end early"


def test_gradient_through_time_is_that_of_a_plain_loop():
    problem = walk(horizon=3)
    config = ThroughTime(layers=(4,), batch=2)
    trainer = ThroughTimeTrainer.of(problem, config)
    network = Policy.init(jax.random.key(0), problem, Layers((4,))).network
    noise = draw_noise(problem.model, jax.random.key(1), (3, 2))

    def loss(network):
        total = 0.0
        for xis in jnp.swapaxes(noise, 0, 1):
            state = problem.initial_state
            for xi in xis:
                state = state + trainer.policy(network)(state) + problem.model.sigma * xi
                total += jnp.sum(state**2)
        return total / 2

    gradient = jax.jit(jax.grad(lambda n: trainer.loss(n, noise)[0]))(network)
    expected = jax.jit(jax.grad(loss))(network)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
                 gradient, expected)  # fmt: skip


def test_squared_loss_is_the_mean_of_squared_returns():
    problem = walk()
    noise = draw_noise(problem.model, jax.random.key(1), (problem.horizon, 6))
    network = Policy.init(jax.random.key(0), problem, Layers((4,))).network
    trainers = [
        ThroughTimeTrainer.of(problem, ThroughTime(layers=(4,), loss=loss))
        for loss in ("linear", "squared")
    ]
    policy = trainers[0].policy(network)
    totals = total_rewards(problem, policy, noise)
    assert float(trainers[0].loss(network, noise)[0]) == pytest.approx(-float(totals.mean()))
    assert float(trainers[1].loss(network, noise)[0]) == pytest.approx(float((totals**2).mean()))


def test_planning_through_time_learns():
    problem = walk()
    config = ThroughTime(layers=(16,), epochs=150, batch=16, rate=1e-2, evaluate_every=50)
    first, *_, last = plan_through_time(problem, config).history[0]
    untrained = -6.5  # two steps beyond reach, then drift
    noise_alone = -problem.horizon * 2 * problem.model.sigma**2
    assert last.current > untrained
    assert last.current > noise_alone - 1.5
    assert last.best >= first.best


def test_history_best_and_samples(tiny_plan):
    problem, config = walk(), TINY
    for history, policy, seed in zip(
        tiny_plan.history, tiny_plan.best_policies, (0, 1), strict=True
    ):
        assert [record.episode for record in history] == [8, 16, 24]
        assert {record.seed for record in history} == {seed}
        best = np.maximum.accumulate([record.current for record in history])
        np.testing.assert_allclose([record.best for record in history], best)
        key = jax.random.key(TEST_SEED)
        noise = draw_noise(problem.exact, key, (problem.horizon, config.test_episodes))
        starts = jnp.broadcast_to(problem.initial_state, (config.test_episodes, 2))
        tested = roll(problem.exact, policy, noise, key, starts)
        assert float(tested.rewards.sum(axis=1).mean()) == pytest.approx(best[-1], rel=1e-5)
    assert tiny_plan.samples == Samples(
        episodes=24,
        transitions=96,
        model_evaluations=0,
        random_draws=96,
        gradient_steps=6,
        test_transitions=3 * 8 * 4,
    )


def test_a_seed_gives_the_same_alone_and_among_others(tiny_plan):
    alone = plan_through_time(walk(), TINY, seed=1)
    assert [r.current for r in alone.history[0]] == [r.current for r in tiny_plan.history[1]]


@pytest.mark.slow
def test_vectorised_seeds_agree_with_single_ones(tiny_plan):
    planner = Planner(ThroughTimeTrainer.of(walk(), TINY), (0, 1), TINY.episodes, vectorise=True)
    seeds = planner.start()
    for segment in planner.segments_after(0):
        seeds, _, current, best = planner.advance(seeds, segment)
    np.testing.assert_allclose(current, [h[-1].current for h in tiny_plan.history], rtol=1e-4)
    np.testing.assert_allclose(best, [h[-1].best for h in tiny_plan.history], rtol=1e-4)
    assert [int(seed.state.epoch) for seed in planner.split(seeds)] == [6, 6]


def test_a_longer_run_passes_through_the_shorter_one(tiny_plan):
    """So that one run serves all epochs of the grid."""
    longer = plan_through_time(walk(), ThroughTime(**{**TINY.to_dict(), "epochs": 10}))
    shorter = tiny_plan.history[0]
    assert [r.current for r in longer.history[0]][: len(shorter)] == [r.current for r in shorter]


def test_not_finite_reward_keeps_the_last_good_policy():
    class Broken(Walk):
        def reward(self, state, action, next_state):
            return jnp.where(next_state[0] > 1.7, jnp.nan, -jnp.sum(next_state**2))

    problem = ilbo.Problem(
        Broken(), name="broken", initial_state=(1.5, 0.0), horizon=4, region=(-2.0, 2.0)
    )
    with pytest.warns(ilbo.PlanningWarning, match="not finite at epoch 0"):
        plan = plan_through_time(problem, TINY)
    assert "not finite at epoch 0 of broken" in plan.faults[0]
    assert len(plan.history[0]) == 1
    assert np.isfinite(plan.policy(problem.initial_state)).all()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"layers": ()}, "layers must be a list of positive sizes"),
        ({"batch": 0}, "batch must be a whole number of at least 1"),
        ({"loss": "cubic"}, "loss must be linear or squared"),
        ({"optimizer": "sgd"}, "optimizer must be adam or rmsprop"),
        ({"rate": 0.0}, "rate must be a positive number"),
        ({"final_rate": 2.0}, "final_rate must be in"),
    ],
)
def test_bad_settings_are_refused(changes, sentence):
    with pytest.raises(ilbo.UserError, match=sentence):
        ThroughTime(**changes)


def test_repeated_seeds_are_refused():
    with pytest.raises(ilbo.UserError, match="different whole numbers"):
        plan_through_time(walk(), TINY, seeds=[1, 1])


def test_settings_can_be_read_without_jax():
    code = "import sys; from ilbo.baselines import ThroughTime; print('jax' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_fractions_undo_within():
    inf = np.inf
    low = jnp.array([-1.0, 0.0, -inf, -inf, 2.0])
    high = jnp.array([3.0, inf, 5.0, inf, 2.0])
    fraction = jnp.array([0.7, 1.2, 0.4, -3.0, 0.5])
    np.testing.assert_allclose(
        fractions(within(low, high, fraction), low, high), fraction, rtol=1e-5
    )


def test_hindsight_finds_the_optimum_that_a_solver_finds():
    problem = walk(horizon=4, sigma=1.0)
    noise = np.asarray(evaluation_noise(problem, jax.random.key(3), 6), float)
    limit = hindsight(problem, 3, episodes=6)

    def cost(actions, xis):
        path = np.array([1.5, -0.5]) + np.cumsum(actions.reshape(4, 2) + xis, axis=0)
        return (path**2).sum()

    solved = [
        -minimize(cost, np.zeros(8), args=(xis,), bounds=[(-1, 1)] * 8, tol=1e-12).fun
        for xis in noise
    ]
    np.testing.assert_allclose(limit.returns, solved, atol=5e-3)
    assert limit.mean == pytest.approx(np.mean(limit.returns))
    assert limit.standard_error == pytest.approx(np.std(limit.returns, ddof=1) / 6**0.5)
    assert limit.actions.shape == (6, 4, 2)
    earned = [-cost(actions, xis) for actions, xis in zip(limit.actions, noise, strict=True)]
    np.testing.assert_allclose(earned, limit.returns, rtol=1e-4)


@pytest.mark.slow
def test_no_policy_passes_the_limit_on_the_same_noise():
    problem = ilbo.make("navigation-3")
    limit = hindsight(problem, 5, episodes=8, steps=200, rounds=1)
    for policy in (problem.model.heuristic, Midpoint(problem.model)):
        assert (ilbo.evaluate(problem, policy, 5, episodes=8).returns <= limit.returns).all()
    assert np.abs(limit.actions).max() <= 1.0


class Steps(Walk):
    """Falls by 10 outside [0, 1] in each component, which no gradient shows."""

    def terminal(self, state):
        return jnp.array(False)

    def reward(self, state, action, next_state):
        return -jnp.sum(next_state**2) / 100 - 10.0 * jnp.sum(jnp.abs(next_state - 0.5) > 0.5)


def test_limit_sees_steps_of_the_reward():
    problem = ilbo.Problem(
        Steps(sigma=1.0), name="steps", initial_state=(1.5, -0.5), horizon=4, region=(-2.0, 2.0)
    )
    plain = hindsight(problem, 3, episodes=16, rounds=0)
    limit = hindsight(problem, 3, episodes=16)
    assert limit.mean > plain.mean + 1.0
    assert limit.last_gain < 0.01
    noise = evaluation_noise(problem, jax.random.key(3), 16)

    def best(start, xis):  # each component alone, on a grid: the steps count most, so near enough
        values, points = np.zeros(4001), np.linspace(-20, 20, 4001)
        for xi in xis[::-1]:
            moved = points[:, None] + np.linspace(-1, 1, 101) + xi
            after = np.interp(moved, points, values)
            reward = -(moved**2) / 100 - 10.0 * (np.abs(moved - 0.5) > 0.5)
            values = np.max(reward + after, axis=1)
        return np.interp(start, points, values)

    known = [best(1.5, xis[:, 0]) + best(-0.5, xis[:, 1]) for xis in np.asarray(noise)]
    np.testing.assert_allclose(limit.returns, known, atol=0.1)


def test_no_policy_that_it_starts_from_passes_the_limit():
    """Even where the ascent hardly moves, and for a policy that random plans do not find."""
    problem = walk(horizon=6)

    def policy(state):
        return jnp.clip(-state, -1.0, 1.0)

    earned = ilbo.evaluate(problem, policy, 5, episodes=8).returns
    limit = hindsight(problem, 5, episodes=8, steps=1, rounds=0, policies=[policy])
    assert (limit.returns >= earned - 1e-5).all()
    weak = hindsight(problem, 5, episodes=8, steps=1, rounds=0)
    assert not (weak.returns >= earned).all()


@pytest.mark.slow
def test_limit_depends_on_the_start():
    near = hindsight(walk(), 0, episodes=4, start=[0.0, 0.0], steps=100)
    far = hindsight(walk(), 0, episodes=4, start=[2.0, 2.0], steps=100)
    assert near.mean > far.mean


def test_bad_arguments_of_baselines_are_refused():
    with pytest.raises(ilbo.UserError, match="number of episodes must be at least 1"):
        hindsight(walk(), 0, episodes=0)
    with pytest.raises(ilbo.UserError, match="ascent steps must be at least 1"):
        hindsight(walk(), 0, steps=0)
    with pytest.raises(ilbo.UserError, match="rounds must be at least 0"):
        hindsight(walk(), 0, rounds=-1)
    with pytest.raises(ilbo.UserError, match="has shape"):
        hindsight(walk(), 0, start=[1.0])


def test_straight_line_is_the_best_open_loop_plan():
    """Open loop: cancel the start as far as reach goes; noise adds up as t σ²."""
    problem = walk(horizon=3, sigma=0.5)
    plan = make_straight_line(problem, 0, episodes=2048)
    taken = np.clip(plan.actions, -1.0, 1.0)  # as whoever follows the plan does
    np.testing.assert_allclose(taken, [[-1.0, 0.5], [-0.5, 0.0], [0.0, 0.0]], atol=0.08)
    best = -0.25 - 2 * 0.25 * (1 + 2 + 3)
    assert plan.evaluation.mean == pytest.approx(best, abs=0.2)


def test_plans_follow_what_the_rollout_does():
    """The noise of `evaluate`, terminal states and clipping are the same."""
    problem = walk(start=(5.0, -2.0), sigma=2.0, horizon=8)
    constant = jnp.array([3.0, -0.25])
    expected = ilbo.simulate(problem, lambda state: constant, 7, episodes=16)
    noise = evaluation_noise(problem, jax.random.key(7), 16)
    followed = jax.vmap(
        lambda xi: follow(
            problem.exact, clip, jnp.broadcast_to(constant, (8, 2)), xi, problem.initial_state
        )
    )(noise)
    assert not expected.alive.all()
    for name in ("states", "actions", "rewards", "alive"):
        np.testing.assert_allclose(
            getattr(followed, name), getattr(expected, name), rtol=1e-5, atol=1e-6
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "known", "error"),
    [("navigation-3", -72.4, 0.9), ("hvac-6", -482_486.0, 1.0), ("reservoir-20", -1_892.0, 48.0)],
)
def test_limits_of_the_paper_problems(name, known, error):
    """Against figures of another implementation, on other noise, by a weaker ascent."""
    limit = hindsight(ilbo.make(name), 11, episodes=64)
    both = (error**2 + limit.standard_error**2) ** 0.5
    assert known - 3 * both < limit.mean < known + 4 * both
