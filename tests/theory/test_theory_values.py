"""Occupancy, value, objective, and the gradients of Eqs. (18) and (19)."""

import itertools

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from random_mdps import DISCOUNTED, FINITE, HIGH, LOW, SEEDS, mdps, random_mdp, random_policy

from ilbo import theory


def sum_over_trajectories(mdp, mu):
    """J by Eq. (6), word for word: every trajectory of every length."""
    at = theory.analyse(mdp, mu)
    reached = np.flatnonzero(mdp.b0)
    total = 0.0
    for T in range(mdp.horizon):
        for path in itertools.product(reached, repeat=T + 1):
            p = mdp.b0[path[0]]
            for s, following in itertools.pairwise(path):
                p *= at.T[s, following]
            total += float(mdp.gamma) ** T * at.r[path[-1]] * p
    return total


@settings(max_examples=10)
@given(SEEDS)
def test_objective_is_the_sum_over_all_trajectories(seed):
    mdp = random_mdp(seed, 3, *FINITE)
    mu = random_policy(mdp, seed)
    assert sum_over_trajectories(mdp, mu) == pytest.approx(
        float(theory.analyse(mdp, mu).J), rel=1e-12
    )


def test_discounted_objective_is_that_of_a_long_horizon():
    endless = random_mdp(3, 2, gamma=(0.8, 0.9))
    mu = random_policy(endless, 0)
    long = theory.FiniteMDP(
        endless.T, endless.r, endless.b0, (LOW, HIGH), float(endless.gamma), horizon=400
    )
    J = float(theory.analyse(long, mu).J)
    assert pytest.approx(float(theory.analyse(endless, mu).J), rel=1e-12) == J


@given(mdps(), SEEDS)
def test_occupancy_and_value_agree_on_the_objective(mdp, seed):
    at = theory.analyse(mdp, random_policy(mdp, seed))
    assert at.d.sum() == pytest.approx(mdp.total_weight, rel=1e-12)
    assert at.d @ at.r == pytest.approx(float(at.J), rel=1e-12)
    assert mdp.b0 @ at.V == pytest.approx(float(at.J), rel=1e-12)


def log(x):
    with np.errstate(divide="ignore"):
        return np.log(x)


@eqx.filter_jit
def gradients_in_logs(mdp, omega, phi):
    return jax.grad(lambda logs: theory.objective_of_logs(mdp, *logs))((omega, phi))


@given(mdps(), SEEDS)
def test_gradients_in_omega_and_phi_are_those_of_automatic_differentiation(mdp, seed):
    at = theory.analyse(mdp, random_policy(mdp, seed))
    with jax.enable_x64(True):
        domega, dphi = gradients_in_logs(mdp, log(at.r), log(at.T))
    np.testing.assert_allclose(at.dJ_domega, domega, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(at.dJ_dphi, dphi, rtol=1e-9, atol=1e-12)


@given(mdps([DISCOUNTED]), SEEDS)
def test_gradients_without_horizon_have_the_papers_form(mdp, seed):
    at = theory.analyse(mdp, random_policy(mdp, seed))
    np.testing.assert_allclose(at.dJ_domega, at.d * at.r, rtol=1e-12)
    papers = mdp.gamma * at.d[:, None] * at.T * at.V[None, :]
    np.testing.assert_allclose(at.dJ_dphi, papers, rtol=1e-12)


@given(mdps(), SEEDS)
def test_objective_is_convex_in_omega_and_phi(mdp, seed):
    """On free (ω, φ), which no policy need produce: the property that the bound rests on."""
    draw = np.random.default_rng(seed)
    n = mdp.states

    def point():
        phi = draw.normal(size=(n, n))
        return draw.normal(size=n), phi - np.log(np.exp(phi).sum(axis=1, keepdims=True))

    (omega_a, phi_a), (omega_b, phi_b) = point(), point()
    middle = theory.objective_of_logs(mdp, (omega_a + omega_b) / 2, (phi_a + phi_b) / 2)
    ends = [theory.objective_of_logs(mdp, *x) for x in ((omega_a, phi_a), (omega_b, phi_b))]
    assert middle <= sum(ends) / 2 + 1e-9


def test_results_are_float64_and_the_global_precision_is_untouched():
    mdp = random_mdp(0, 2)
    at = theory.analyse(mdp, random_policy(mdp, 0))
    assert all(isinstance(x, np.ndarray) and x.dtype == np.float64 for x in jax.tree.leaves(at))
    assert jax.numpy.zeros(1).dtype == np.float32
