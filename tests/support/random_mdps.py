"""Random finite MDPs for the tests: smooth, positive, neither convex nor concave in the action."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from ilbo.theory import FiniteMDP

LOW, HIGH = -1.5, 2.0
MOST = 12


class Softmax(eqx.Module):
    """T(s, a, ·) = softmax(bias + slope · a + wave sin(2 a₁))."""

    bias: np.ndarray
    slope: np.ndarray
    wave: np.ndarray

    def __call__(self, s, a):
        bias, slope, wave = (jnp.asarray(x)[s] for x in (self.bias, self.slope, self.wave))
        return jax.nn.softmax(bias + slope @ a + wave * jnp.sin(2 * a[0]))


class Bumps(eqx.Module):
    """r(s, a) = floor + height exp(−|a − centre|²)."""

    floor: np.ndarray
    height: np.ndarray
    centre: np.ndarray

    def __call__(self, s, a):
        floor, height, centre = (jnp.asarray(x)[s] for x in (self.floor, self.height, self.centre))
        return floor + height * jnp.exp(-jnp.sum((a - centre) ** 2))


def random_mdp(seed, states, action_size=1, horizon=None, floor=(0.1, 1.0), gamma=(0.3, 0.97)):
    """A random MDP; `floor` is the range of rewards far from their bump, `gamma` of discounts.

    It has MOST states, so that all sizes share a compilation, but only the first `states` can be
    reached: the others are neither started in nor entered.
    """
    draw = np.random.default_rng(seed)
    reached = np.arange(MOST) < states
    return FiniteMDP(
        T=Softmax(
            bias=np.where(reached, draw.normal(size=(MOST, MOST)), -np.inf),
            slope=draw.normal(size=(MOST, MOST, action_size)),
            wave=0.5 * draw.normal(size=(MOST, MOST)),
        ),
        r=Bumps(
            floor=draw.uniform(*floor, size=MOST),
            height=draw.uniform(0.0, 3.0, size=MOST),
            centre=draw.uniform(LOW, HIGH, size=(MOST, action_size)),
        ),
        b0=np.concatenate([draw.dirichlet(np.ones(states)), np.zeros(MOST - states)]),
        bounds=(np.full(action_size, LOW), np.full(action_size, HIGH)),
        gamma=1.0 if horizon else draw.uniform(*gamma),
        horizon=horizon,
    )


def random_policy(mdp, seed):
    return np.random.default_rng(seed).uniform(mdp.low, mdp.high)


SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.integers(2, MOST)
DISCOUNTED, FINITE = (1, None), (2, 7)
"""Action size and horizon."""


@st.composite
def mdps(draw, kinds=(DISCOUNTED, FINITE), **kwargs):
    return random_mdp(draw(SEEDS), draw(SIZES), *draw(st.sampled_from(kinds)), **kwargs)
