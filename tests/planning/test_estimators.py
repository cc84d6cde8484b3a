import equinox as eqx
import jax
import jax.numpy as jnp
import linear
import numpy as np
import pytest

import ilbo
from ilbo.nn.policy import Layers, Policy
from ilbo.planning.estimators import CriticOnly, Pathwise, Score
from ilbo.planning.estimators.point import ActionGradient, Point, Sample
from ilbo.planning.pull_back import pull_back
from ilbo.planning.store import Store, Transition

GAMMA = 0.95
P, OFFSET = linear.values(GAMMA, 400)
OFFSET += 40.0  # a constant in V changes no gradient, only the variance without a baseline
STATE = np.array([1.5, -0.7])
EXACT = linear.action_gradient(STATE, linear.K @ STATE, GAMMA, P)


def value(state, steps_left):
    return -state @ jnp.array(P) @ state - OFFSET


def act(state, steps_left):
    return linear.Gain()(state)


def critic(state, action, steps_left):
    """For the policy's own actions, which is all that these estimators show it."""
    return value(state, steps_left)


def estimators():
    at = Point(linear.Linear(), critic, act, GAMMA)
    yield "pathwise", at, Pathwise(depth=1, window=1)
    for baseline in ("none", "value", "leave-one-out"):
        yield f"score, {baseline}", at, Score(draws=4, baseline=baseline)
    yield "score, stored", at, Score(draws=1, next_states="stored", baseline="value")

    def q(state, action, steps_left):
        moved = jnp.array(linear.A) @ state + jnp.array(linear.B) @ action
        noise = jnp.trace(jnp.array(linear.L.T @ P @ linear.L))
        reward = linear.Linear().reward(state, action, moved)
        return reward + GAMMA * (value(moved, 0) - noise)

    yield "critic", Point(linear.Linear(), q, act, GAMMA), CriticOnly()


def estimates(at, estimator, draws, count=20_000, steps=1, state=STATE):
    """[count, 2] independent estimates of g at the state, on policy."""
    model, policy = linear.Linear(), linear.Gain()
    noise = jax.random.normal(jax.random.key(3), (count, draws, steps, 2))
    state = jnp.array(state)

    def one(xi):
        action = policy(state)
        moved = model.transition(state, action, xi[0, 0])
        sample = Sample(state, jnp.array(1000), xi, moved)
        return estimator(at, sample).gradients[0]

    return np.asarray(jax.jit(jax.vmap(one))(noise), np.float64)


@pytest.mark.parametrize(("name", "at", "estimator"), list(estimators()))
def test_mean_is_the_exact_gradient(name, at, estimator):
    found = estimates(at, estimator, estimator.draws)
    error = found.std(axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - EXACT) < 4.5 * error + 1e-4 * np.abs(EXACT))


def test_variances_are_ordered_as_theory_says():
    spread = {
        name: estimates(at, estimator, 4).var(axis=0).sum()
        for name, at, estimator in estimators()
        if estimator.draws == 4 or name == "pathwise"
    }
    assert spread["score, leave-one-out"] < 0.8 * spread["score, value"]
    assert spread["score, value"] < 0.8 * spread["score, none"]
    assert spread["pathwise"] < 0.8 * spread["score, leave-one-out"]


def test_baseline_alone_averages_to_zero():
    model, state = linear.Linear(), jnp.array(STATE)
    action = linear.Gain()(state)

    @jax.jit
    @jax.vmap
    def term(xi):
        moved = model.transition(state, action, xi)
        return value(state, 0) * jax.grad(model.log_density, argnums=1)(state, action, moved)

    found = np.asarray(term(jax.random.normal(jax.random.key(4), (20_000, 2))), np.float64)
    assert np.all(np.abs(found.mean(axis=0)) < 4.5 * found.std(axis=0) / np.sqrt(len(found)))


def antithetic(at, estimator, steps, state, steps_left):
    """Mean of g over ± noise: exact for quadratic values, whose gradient is linear in the noise."""
    noise = jax.random.normal(jax.random.key(5), (1, steps, 2))
    state = jnp.array(state)

    def along(xi):
        return estimator(at, Sample(state, jnp.array(steps_left), xi, state))

    first, second = along(noise), along(-noise)
    return (first.gradients + second.gradients) / 2


@pytest.mark.parametrize("depth", [1, 2, 5, 9])
def test_every_depth_gives_the_same_gradient_with_an_exact_critic(depth):
    at = Point(linear.Linear(), critic, act, GAMMA)
    gradients = antithetic(at, Pathwise(depth=depth, window=1), depth, STATE, 1000)
    np.testing.assert_allclose(gradients[0], EXACT, rtol=2e-4)


@pytest.mark.parametrize("window", [1, 3, 6])
@pytest.mark.parametrize("steps_left", [2, 4, 20])
def test_windows_stop_at_the_horizon(window, steps_left):
    def timed(state, action, left):
        table = [linear.values(1.0, k) for k in range(25)]
        at = jnp.array([entry[0] for entry in table])[left]
        return -state @ at @ state - jnp.array([entry[1] for entry in table])[left]

    at = Point(linear.Linear(), timed, act, 1.0)
    estimator = Pathwise(depth=4, window=window)
    gradients = antithetic(at, estimator, estimator.steps, STATE, steps_left)
    exact = linear.action_gradient(
        STATE, linear.K @ STATE, 1.0, linear.values(1.0, steps_left - 1)[0]
    )
    np.testing.assert_allclose(gradients[0], exact, rtol=2e-4)
    np.testing.assert_array_equal(np.any(gradients != 0, axis=1), np.arange(window) < steps_left)


def test_replayed_noise_gives_next_states_as_fresh_noise_does():
    stats = pytest.importorskip("scipy.stats")
    problem = ilbo.make("reservoir-10")
    model = problem.model
    state = 0.4 * model.capacity
    noise = model.law.sample(jax.random.key(6), (2_000,))
    action = jnp.zeros(10)
    store = Store.init((10, 10, 10), 2_000)
    rows = Transition(
        jnp.zeros((2_000, 10)), jnp.ones((2_000, 10)), noise, jnp.zeros((2_000, 10)),
        jnp.zeros(2_000), jnp.ones(2_000, int), jnp.zeros(2_000, bool),
    )  # fmt: skip
    store = store.add(rows)
    index = store.recent(jax.random.uniform(jax.random.key(7), (1_000,)))
    step = jax.vmap(lambda xi: model.transition(state, action, xi))
    replayed = step(store.noise(index))
    fresh = step(model.law.sample(jax.random.key(8), (1_000,)))
    for i in range(10):
        assert stats.ks_2samp(replayed[:, i], fresh[:, i]).pvalue > 1e-4


def test_pull_back_is_the_gradient_of_the_weighted_actions():
    problem = ilbo.make("reservoir-10")
    policy = Policy.init(jax.random.key(0), problem, Layers((16, 8)))
    states = problem.starts(jax.random.key(1), (5, 3))
    g = jax.random.normal(jax.random.key(2), (5, 3, 10))
    weights = jnp.array([1.0, 0.5, 0, 2, 1])

    def objective(network):
        actions = eqx.tree_at(lambda p: p.network, policy, network)(states)
        return jnp.sum(weights[:, None, None] * actions * g) / 15

    gradient = ActionGradient(states, g, jnp.zeros(5), jnp.ones((5, 3), int))
    pulled, _ = eqx.filter_jit(pull_back)(policy, gradient, weights)
    for found, exact in zip(
        jax.tree.leaves(pulled),
        jax.tree.leaves(jax.jit(jax.grad(objective))(policy.network)),
        strict=True,
    ):
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-5)


def test_inward_slope_frees_an_action_stuck_at_its_bound():
    problem = ilbo.make("navigation-3")
    policy = Policy.init(jax.random.key(0), problem, Layers((8,)))
    stuck = eqx.tree_at(lambda p: p.network.output.bias, policy, jnp.full(2, 12.0))
    states = problem.initial_state[None, None]

    def length(push, inward):
        g = ActionGradient(states, jnp.full((1, 1, 2), push), jnp.zeros(1), jnp.ones((1, 1), int))
        gradient, _ = pull_back(stuck, g, jnp.ones(1), inward)
        return float(jnp.linalg.norm(gradient.output.bias))

    assert length(-1.0, 0.2) > 1e3 * length(-1.0, 0.0)
    assert length(+1.0, 0.2) == length(+1.0, 0.0)


def test_an_estimator_says_what_it_takes():
    assert Pathwise(draws=2, depth=10, window=4).model_evaluations(32) == 32 * 2 * 13
    assert Score(draws=8, depth=2).model_evaluations(32) == 32 * 8 * 2
    stored = Score(draws=1, next_states="stored", baseline="value")
    assert (stored.steps, stored.model_evaluations(32)) == (1, 0)
    assert CriticOnly().model_evaluations(32) == 0
    assert (Pathwise.needs_density, Score.needs_density) == (False, True)
