"""Maximising the bound never makes the policy worse and ends where the gradient vanishes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from random_mdps import FINITE, SEEDS, mdps, random_mdp, random_policy
from scipy.optimize import nnls

from ilbo import theory


def assert_monotone(history):
    slack = 1e-12 * (1 + np.abs(history.J).max())
    assert (np.diff(history.J) >= -slack).all()
    assert (history.gap >= -slack).all()
    assert (history.J_hat >= history.J[:-1] - slack).all()


@settings(max_examples=12)
@given(mdps(), SEEDS)
def test_objective_never_decreases_along_iterations(mdp, seed):
    history = theory.iterate(mdp, random_policy(mdp, seed), max_iterations=25)
    assert_monotone(history)
    assert history.J[-1] > history.J[0]
    assert history.J[-1] == pytest.approx(float(theory.analyse(mdp, history.mu[-1]).J), rel=1e-12)
    moved = np.abs(np.diff(history.mu, axis=0)).max(axis=(1, 2))
    np.testing.assert_array_equal(history.step, moved)


@settings(max_examples=5)
@given(mdps(floor=(0.1, 0.2)), SEEDS)
def test_limit_is_a_stationary_point(mdp, seed):
    history = theory.iterate(mdp, random_policy(mdp, seed), max_iterations=3000)
    assert history.converged
    mu = history.mu[-1]
    gradient = theory.bound_gradient(mdp, mu)
    # Bounds hold the action only where the objective rises beyond them.
    gradient = np.where((mu <= mdp.low) & (gradient < 0), 0, gradient)
    gradient = np.where((mu >= mdp.high) & (gradient > 0), 0, gradient)
    scale = np.abs(theory.bound_gradient(mdp, history.mu[0])).max()
    assert np.abs(gradient).max() <= 1e-5 * scale


@settings(max_examples=8)
@given(mdps(), SEEDS)
def test_table_step_is_a_maximum_of_the_bound(mdp, seed):
    mu_m = random_policy(mdp, seed)
    j_hat = theory.bound(mdp, mu_m)
    best = theory.maximise_table(j_hat)
    value = j_hat(best)
    for trial in range(20):
        assert j_hat(random_policy(mdp, seed + trial)) <= value + 1e-9


@settings(max_examples=4)
@given(SEEDS)
def test_best_of_many_starts_is_the_optimum_of_value_iteration(seed):
    mdp = random_mdp(seed, 4, gamma=(0.3, 0.8))
    history = theory.iterate_from_many(mdp, 32, tolerance=1e-6)
    mu_grid, J_grid = theory.value_iteration(mdp, 401)
    assert history.J[-1] >= J_grid - 1e-9
    assert history.J[-1] == pytest.approx(J_grid, rel=2e-4)
    # Freed from its grid, dynamic programming's policy climbs to the same value.
    polished = theory.iterate(mdp, mu_grid, tolerance=1e-6)
    assert history.J[-1] == pytest.approx(polished.J[-1], rel=1e-6)


def features_of(mdp):
    s = np.linspace(0, 1, mdp.states)
    return np.stack([np.ones(mdp.states), s], axis=1)


@settings(max_examples=2)
@given(mdps([FINITE]), SEEDS)
def test_linear_policy_climbs_to_a_point_where_only_the_bounds_hold_it(mdp, seed):
    policy = theory.Linear(features_of(mdp))
    theta = 0.3 * np.random.default_rng(seed).normal(size=(2, mdp.action_size))
    history = theory.iterate(mdp, theta, policy, tolerance=1e-5, max_iterations=400)
    assert_monotone(history)
    assert history.converged
    assert (history.mu >= mdp.low - 1e-9).all()
    assert (history.mu <= mdp.high + 1e-9).all()

    theta, mu = history.theta[-1], history.mu[-1]
    with jax.enable_x64(True):
        gradient = jax.grad(lambda th: theory.objective(mdp, theory.table(policy, th, mdp.states)))(
            theta
        )
        slope = jax.jacfwd(lambda th: theory.table(policy, th, mdp.states))(theta)
    slope = np.asarray(slope).reshape(mu.size, theta.size)
    at_low = (mu <= mdp.low + 1e-6).ravel()
    at_high = (mu >= mdp.high - 1e-6).ravel()
    # Karush-Kuhn-Tucker: the gradient is a non-negative combination of the active bounds' normals.
    normals = np.concatenate([-slope[at_low], slope[at_high]])
    flat = np.asarray(gradient).ravel()
    residual = nnls(normals.T, flat)[1] if len(normals) else np.linalg.norm(flat)
    assert residual <= 1e-4 * (1 + history.J[-1])


def test_parametric_policy_without_bounds_reaches_the_known_optimum():
    """One state, r = exp(−(a − 1.7)²), μ_θ = θ³: the best θ is the cube root of 1.7."""
    mdp = theory.FiniteMDP(
        T=lambda s, a: jnp.ones(1),
        r=lambda s, a: jnp.exp(-((a[0] - 1.7) ** 2)),
        b0=[1.0],
        bounds=(-np.inf, np.inf),
        gamma=0.5,
    )
    history = theory.iterate(mdp, [0.5], lambda theta, s: theta**3, restarts=2)
    assert history.converged
    assert history.theta[-1, 0] == pytest.approx(1.7 ** (1 / 3), abs=1e-5)
    assert history.J[-1] == pytest.approx(2.0, abs=1e-9)
    table = theory.iterate(mdp, [[-20.0]])
    assert table.mu[-1, 0, 0] == pytest.approx(1.7, abs=1e-6)


def test_restarts_escape_a_local_maximum_of_the_bound():
    """r has two humps in θ; from the lower one only other starting points find the higher."""
    mdp = theory.FiniteMDP(
        T=lambda s, a: jnp.ones(1),
        r=lambda s, a: 0.01 + jnp.exp(-20 * (a[0] + 1) ** 2) + 2 * jnp.exp(-20 * (a[0] - 1) ** 2),
        b0=[1.0],
        bounds=(-2.0, 2.0),
        gamma=0.5,
    )

    def policy(theta, s):
        return theta

    assert theory.iterate(mdp, [-1.05], policy).J[-1] == pytest.approx(2.02, abs=1e-6)
    assert theory.iterate(mdp, [-1.05], policy, restarts=8).J[-1] == pytest.approx(4.02, abs=1e-6)


def test_larger_shift_makes_smaller_steps():
    mdp = random_mdp(2, 12)
    start = np.zeros((12, 1))
    steps = [
        theory.iterate(mdp, start, shift=c, max_iterations=1).step[0] for c in (0.0, 10.0, 100.0)
    ]
    assert steps[0] > steps[1] > steps[2] > 0
