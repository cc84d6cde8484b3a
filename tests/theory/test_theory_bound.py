"""The bound lies below the objective, touches it, and has its gradient there."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_mdps import SEEDS, mdps, random_mdp, random_policy

from ilbo import theory


@given(mdps(), SEEDS, SEEDS)
def test_bound_lies_below_objective(mdp, seed, seed_m):
    mu, mu_m = random_policy(mdp, seed), random_policy(mdp, seed_m)
    assert theory.bound(mdp, mu_m)(mu) <= theory.analyse(mdp, mu).J + 1e-9


@given(mdps(), SEEDS)
def test_bound_touches_objective_at_current_policy(mdp, seed):
    mu_m = random_policy(mdp, seed)
    exact = float(theory.analyse(mdp, mu_m).J)
    assert theory.bound(mdp, mu_m)(mu_m) == pytest.approx(exact, abs=1e-10)


@given(mdps(floor=(-2.0, 0.0)), SEEDS, SEEDS, st.floats(0.0, 5.0))
def test_bound_of_shifted_rewards_minorises_in_the_rewards_own_units(mdp, seed, seed_m, extra):
    mu, mu_m = random_policy(mdp, seed), random_policy(mdp, seed_m)
    j_hat = theory.bound(mdp, mu_m, shift=2.0 + extra)
    assert j_hat(mu) <= theory.analyse(mdp, mu).J + 1e-9
    assert j_hat(mu_m) == pytest.approx(float(theory.analyse(mdp, mu_m).J), abs=1e-10)


@given(mdps(), SEEDS)
def test_constant_is_what_the_papers_expression_leaves_out(mdp, seed):
    """Ĵ minus Eq. (22) is the same for every μ."""
    mu_m = random_policy(mdp, seed)
    j_hat, at_m = theory.bound(mdp, mu_m), theory.analyse(mdp, mu_m)

    def eq22(mu):
        at = theory.analyse(mdp, mu)
        log_T = np.log(np.where(at.T > 0, at.T, 1.0))
        return np.sum(at_m.dJ_domega * np.log(at.r)) + np.sum(at_m.dJ_dphi * log_T)

    policies = [random_policy(mdp, seed + i) for i in range(4)]
    constants = [j_hat(mu) - eq22(mu) for mu in policies]
    np.testing.assert_allclose(constants, constants[0], atol=1e-9)


def squashed(theta, s):
    """A small parametric policy that is not linear in its parameters: θ [p, k]."""
    features = jnp.stack([jnp.ones(()), jnp.sin(s + 1.0), jnp.cos(2.0 * s)])
    return jnp.tanh(features @ theta)


@eqx.filter_jit
def parameter_gradients(mdp, j_hat, eq24, theta):
    """∇_θ of J, of Ĵ, and of what Eq. (24) gives before its chain rule."""
    mu, pull_back = jax.vjp(lambda th: theory.table(squashed, th, mdp.states), jnp.asarray(theta))
    of_objective = jax.grad(lambda mu: theory.objective(mdp, mu))(mu)
    of_bound = jax.grad(lambda mu: theory.evaluate_bound(j_hat, mu))(mu)
    return [pull_back(jnp.asarray(g))[0] for g in (of_objective, of_bound, eq24)]


@given(mdps(), SEEDS)
def test_gradient_of_bound_is_gradient_of_objective_at_current_parameters(mdp, seed):
    theta_m = np.random.default_rng(seed).normal(size=(3, mdp.action_size))
    mu_m = theory.table(squashed, theta_m, mdp.states)
    with jax.enable_x64(True):
        of_objective, of_bound, eq24 = parameter_gradients(
            mdp, theory.bound(mdp, mu_m), theory.bound_gradient(mdp, mu_m), theta_m
        )
    np.testing.assert_allclose(of_bound, of_objective, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(eq24, of_objective, rtol=1e-8, atol=1e-10)


@given(mdps(), SEEDS)
def test_baseline_adds_nothing_to_the_gradient(mdp, seed):
    mu_m = random_policy(mdp, seed)
    plain = theory.bound_gradient(mdp, mu_m)
    V = theory.analyse(mdp, mu_m).V
    anything = np.random.default_rng(seed).normal(size=mdp.states)
    for baseline in (V, anything):
        np.testing.assert_allclose(
            theory.bound_gradient(mdp, mu_m, baseline), plain, rtol=1e-10, atol=1e-11
        )


@eqx.filter_jit
def scores(mdp, mu):
    """∇_a ln T(s, a, s') at a = μ(s), [n, n, k]."""
    log_T = jax.jacfwd(lambda s, a: jnp.log(mdp.T(s, a)), argnums=1)
    return jax.vmap(log_T)(jnp.arange(mdp.states), mu)


def test_baseline_takes_variance_from_the_sampled_gradient():
    """Its use: V(s') ∇ ln T over samples of s' scatters less around V(s)."""
    mdp = random_mdp(1, 12)
    at = theory.analyse(mdp, random_policy(mdp, 1))
    with jax.enable_x64(True):
        score = np.asarray(scores(mdp, at.mu))[..., 0]

    def variance(b):
        term = score * (at.V[None, :] - b[:, None])
        return np.sum(at.T * term**2, axis=1) - np.sum(at.T * term, axis=1) ** 2

    assert variance(at.V).sum() < 0.5 * variance(np.zeros(12)).sum()


def to_room_1(s, a):
    return jnp.stack([1 - a[0], a[0]])


def number_of_room(s, a):
    return 1.0 * s


def two_rooms(r=number_of_room):
    """Two states; the action in [0, 1] is the probability of state 1 next."""
    return theory.FiniteMDP(to_room_1, r, b0=[1.0, 0.0], bounds=(0.0, 1.0), gamma=0.5)


def test_bound_is_minus_infinity_where_a_rewarded_transition_becomes_impossible():
    mdp = two_rooms()
    j_hat = theory.bound(mdp, [[0.5], [0.5]])
    assert j_hat([[0.0], [0.5]]) == -np.inf
    assert np.isfinite(j_hat([[0.9], [0.5]]))


def test_bound_in_closed_form():
    """From state 0 under a = ½: V = [½, 3/2] … by hand, with γ = ½ and r = s."""
    mdp = two_rooms()
    at = theory.analyse(mdp, [[0.5], [0.5]])
    np.testing.assert_allclose(at.V, [0.5, 1.5], rtol=1e-12)
    np.testing.assert_allclose(at.d, [1.5, 0.5], rtol=1e-12)
    # Σ ∂J/∂φ(0, ·) ln(T / T^m) with ∂J/∂φ(0, ·) = ½ · 3/2 · ½ · V
    gain = 0.375 * (0.5 * np.log(0.2 / 0.5) + 1.5 * np.log(0.8 / 0.5))
    assert theory.bound(mdp, [[0.5], [0.5]])([[0.8], [0.5]]) == pytest.approx(0.5 + gain, rel=1e-12)


def test_unreached_reward_is_invisible_until_it_is_shifted():
    """Where r(s, μ^m(s)) = 0 the bound does not see the reward; a shift brings its slope back."""
    mdp = two_rooms(r=lambda s, a: a[0])
    nothing, something = [[0.0], [0.0]], [[0.01], [0.01]]
    assert theory.bound(mdp, nothing)(something) == 0
    assert theory.bound(mdp, nothing, shift=0.5)(something) > 0.009
