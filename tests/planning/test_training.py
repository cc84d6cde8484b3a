import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_runs

import ilbo
from ilbo.mdp.simulate import Trial
from ilbo.nn.parameters import pack
from ilbo.planning.ilbo import ILBOTrainer
from ilbo.planning.learning import choose
from ilbo.planning.planner import make_test
from ilbo.planning.preference import MEMORY, remember
from ilbo.planning.store import Transition


class Scalar(ilbo.Model):
    """s' = 0.8 s + a + 0.3 ξ, r = −s² − a²: linear and quadratic, with values in closed form."""

    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return 0.8 * state + action + 0.3 * noise

    def reward(self, state, action, next_state):
        return -jnp.sum(state**2 + action**2)

    def bounds(self, state):
        return -jnp.ones(1), jnp.ones(1)


def exact_q(state, action, steps_left):
    """Return of the action and then of a = 0."""
    moved, variance, total = 0.8 * state + action, 0.09, -(state**2) - action**2
    for _ in range(steps_left - 1):
        total = total - moved**2 - variance
        moved, variance = 0.8 * moved, 0.64 * variance + 0.09
    return total


@pytest.mark.slow
def test_the_critic_converges_to_the_exact_q_of_a_linear_quadratic_problem():
    problem = ilbo.Problem(
        Scalar(), name="scalar", initial_state=[0.5], horizon=4, region=(-1.5, 1.5)
    )
    config = ilbo.ILBO(
        layers=(64, 32), estimator="critic", policy_rate=1e-30, critic_rate=3e-3, final_rate=0.02,
        own_start=0.0, exploration=0.5, final_exploration=0.5, parallel=8, target_rate=0.02,
        critic_batch=64,
    )  # fmt: skip
    trainer = ILBOTrainer.of(problem, config, episodes=6_000)
    state, _ = trainer.init(jax.random.key(0))
    # A policy whose output layer is 0 takes the middle of its bounds, a = 0.
    network = trainer.policy(state.policy).network
    silence = jax.tree.map(jnp.zeros_like, network.output)
    silent = pack(eqx.tree_at(lambda n: n.output, network, silence))
    state = eqx.tree_at(lambda s: (s.policy, s.slow_policy), state, (silent, silent))
    segment = eqx.filter_jit(lambda t, s: t.segment(s, 6_000, jnp.array(6_000)))
    state, _ = segment(trainer, state)
    assert int(state.fault) == 0
    grid = [(s, a, k) for s in (-1.0, 0.0, 1.0) for a in (-0.5, 0.0, 0.5) for k in (1, 2, 3, 4)]
    critic = trainer.networks.critic(state.critic)
    found = [
        float(
            state.reward_scale
            * trainer.networks.value(critic, jnp.array([s]), jnp.array([a]), jnp.array(k))
        )
        for s, a, k in grid
    ]
    wanted = [exact_q(*point) for point in grid]
    errors = np.abs(np.subtract(found, wanted))
    assert np.mean(errors**2) / np.var(wanted) < 0.02
    assert np.max(errors) < 0.5  # values run from −0.0 to −5


@pytest.mark.slow
def test_preferred_states_are_weighted_so_that_means_stay_unbiased():
    problem = ilbo.make("navigation-3")
    trainer = ILBOTrainer.of(
        problem, ilbo.ILBO(layers=(8,), policy_batch=4, candidates=4), episodes=10
    )
    train = eqx.filter_jit(lambda t, k: t.segment(t.init(k)[0], 12, jnp.array(12))[0])
    state = train(trainer, jax.random.key(0))
    table = jax.random.uniform(jax.random.key(1), (problem.horizon + 1,)) ** 8
    state = eqx.tree_at(lambda s: s.strength, state, table)
    rows = jax.random.uniform(jax.random.key(2), (16,))
    candidates = state.store.take(state.store.recent(rows, 5_000))
    picks = (jnp.arange(4_096) + 0.5) / 4_096
    chosen, weights = jax.vmap(lambda pick: choose(trainer.config, state, rows, pick))(picks)
    assert float(jnp.max(weights) / jnp.min(weights)) > 3  # there is something to make up for
    means = jnp.mean(weights[..., None] * chosen.state, axis=(0, 1))
    np.testing.assert_allclose(means, jnp.mean(candidates.state, axis=0), rtol=2e-3)
    # Strong times left are chosen more often than they are found.
    assert jnp.mean(table[chosen.steps_left]) > 1.5 * jnp.mean(table[candidates.steps_left])


@pytest.mark.slow
@pytest.mark.parametrize("updates", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_slow_copies_follow_every_few_steps_for_all_of_them(updates):
    rate = 0.1
    config = dataclasses.replace(
        tiny_runs.CONFIG, parallel=1, updates=updates, target_rate=rate, target_every=4
    )
    trainer = ILBOTrainer.of(tiny_runs.problem(), config, episodes=4)
    start, _ = trainer.init(jax.random.key(0))
    draws = trainer.draw(jax.random.key(1), 6)
    after_3, after_4, after_6 = (
        trainer.train(start, jax.tree.map(lambda x, n=n: x[:n], draws), n)[0] for n in (3, 4, 6)
    )

    def followed(slow, fast, steps):
        share = 1 - (1 - rate) ** (steps * updates)
        return [s + share * (f - s) for s, f in zip(slow, fast, strict=True)]

    for kind in ("policy", "critic"):
        slow, fast = f"slow_{kind}", kind
        for before, after, steps in (
            (start, after_3, 3),
            (start, after_4, 4),
            (after_4, after_6, 2),
        ):
            wanted = followed(getattr(before, slow), getattr(after, fast), steps)
            for found, part in zip(getattr(after, slow), wanted, strict=True):
                np.testing.assert_allclose(found, part, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_fewer_episodes_than_a_program_is_made_for_are_just_these():
    trainer = ILBOTrainer.of(tiny_runs.problem(), tiny_runs.CONFIG, episodes=4)
    start, _ = trainer.init(jax.random.key(0))
    segment = eqx.filter_jit(lambda t, s, most, episodes: t.segment(s, most, episodes))
    few, wanted = segment(trainer, start, 5, jnp.array(5))
    found, metrics = segment(trainer, start, 12, jnp.array(5))
    assert found.step == 5  # of 4 episodes side by side, 4 steps each
    for a, b in zip((*found.policy, *metrics), (*few.policy, *wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


DRIFT = tiny_runs.problem()
"""A point on a line that the best policy pulls to 0."""
TEST = make_test(DRIFT, 8)


def always(trainer: ILBOTrainer, output: float):
    """Parameters of a policy whose network says the same everywhere."""
    _, parameters = trainer.init(jax.random.key(0))
    network = jax.tree.map(jnp.zeros_like, trainer.policy(parameters))
    return pack(eqx.tree_at(lambda p: p.network.output.bias, network, jnp.full(1, output)).network)


def select(trainer: ILBOTrainer, held, newest, test: Trial):
    """With noise 0 to replay: the parameters selected, and their test return."""
    state, _ = trainer.init(jax.random.key(0))
    zeros, column = jnp.zeros(4), jnp.zeros((4, 1))
    store = state.store.add(
        Transition(column, column, column, column, zeros, zeros.astype(int), zeros > 0)
    )
    state = eqx.tree_at(lambda s: (s.slow_policy, s.store), state, (newest, store))
    return trainer.select(state, held, test)[1:]


def mean_return(policy, test: Trial) -> float:
    """By a loop of its own: one step of one episode after another."""
    totals = []
    for state, noise in zip(test.starts, jnp.swapaxes(test.noise, 0, 1), strict=True):
        total = 0.0
        for xi in noise:
            action = policy(state)
            moved = DRIFT.model.transition(state, action, xi)
            total += float(DRIFT.model.reward(state, action, moved))
            state = moved
        totals.append(total)
    return float(np.mean(totals))


@pytest.mark.parametrize("newest_is_better", [True, False])
@pytest.mark.parametrize("start", [1.0, -9.0])
def test_the_policy_selected_earns_more_on_replayed_noise(newest_is_better, start):
    """Whatever the test says: from −9 the other one would be better."""
    trainer = ILBOTrainer.of(
        DRIFT, dataclasses.replace(tiny_runs.CONFIG, own_start=1.0), episodes=4
    )
    good, bad = always(trainer, -0.5), always(trainer, 3.0)
    test = Trial(TEST.noise, jnp.full_like(TEST.starts, start))
    earns = mean_return(trainer.policy(good), test)
    assert (earns > mean_return(trainer.policy(bad), test)) == (start > 0)
    pair = (bad, good) if newest_is_better else (good, bad)
    held, current = select(trainer, *pair, test)
    jax.tree.map(np.testing.assert_array_equal, held, good)
    np.testing.assert_allclose(current, earns, rtol=1e-5)


def test_without_a_guard_the_newest_policy_is_selected():
    trainer = ILBOTrainer.of(DRIFT, dataclasses.replace(tiny_runs.CONFIG, guard=0), episodes=4)
    bad = always(trainer, 3.0)
    held, current = select(trainer, always(trainer, -0.5), bad, TEST)
    jax.tree.map(np.testing.assert_array_equal, held, bad)
    np.testing.assert_allclose(current, mean_return(trainer.policy(bad), TEST), rtol=1e-5)


def test_running_means_by_place_stay_between_what_was_seen():
    table = jnp.array([4.0, 4.0, 4.0])
    found = remember(table, jnp.array([1] * 200 + [2]), jnp.array([0.0] * 200 + [1.0]))
    np.testing.assert_allclose(found, [4.0, 4.0 * (1 - MEMORY) ** 200, 4.0 - 3 * MEMORY], rtol=1e-4)


@pytest.mark.slow
def test_rewards_of_any_scale_train_alike():
    """The user never sets a reward scale: a thousandfold reward gives the same policy."""

    class Loud(Scalar):
        def reward(self, state, action, next_state):
            return 1024.0 * super().reward(state, action, next_state)

    def train(model):
        problem = ilbo.Problem(
            model, name="scalar", initial_state=[0.5], horizon=4, region=(-1.5, 1.5)
        )
        trainer = ILBOTrainer.of(problem, ilbo.ILBO(layers=(16,), depth=2, window=2), episodes=20)
        segment = eqx.filter_jit(lambda t, s: t.segment(s, 40, jnp.array(40))[0])
        return segment(trainer, trainer.init(jax.random.key(0))[0]).policy

    np.testing.assert_allclose(train(Scalar()), train(Loud()), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("guard", [0, 2])
def test_a_policy_that_is_not_finite_is_never_selected(guard):
    trainer = ILBOTrainer.of(DRIFT, dataclasses.replace(tiny_runs.CONFIG, guard=guard), episodes=4)
    good = always(trainer, -0.5)
    broken = jax.tree.map(lambda part: jnp.full_like(part, jnp.nan), good)
    held, current = select(trainer, good, broken, TEST)
    jax.tree.map(np.testing.assert_array_equal, held, good)
    assert np.isfinite(current)


class Still(Scalar):
    def transition(self, state, action, noise):
        return state


class Empty(Still):
    def bounds(self, state):
        return jnp.zeros(0), jnp.zeros(0)


@pytest.mark.parametrize(("states", "what"), [([0.0], "action"), ([], "state")])
def test_without_a_component_there_is_nothing_to_plan(states, what):
    model = Empty() if states else Still()
    problem = ilbo.Problem(model, name="e", initial_state=states, horizon=2, region=(-1.0, 1.0))
    with pytest.raises(ilbo.UserError, match=f"The {what} of e has no component"):
        ILBOTrainer.of(problem, tiny_runs.CONFIG, episodes=4)
