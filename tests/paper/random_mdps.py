"""Random finite MDPs for the tests: smooth, positive, neither convex nor concave in the action."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from ilbo.mm import FiniteMDP

LOW, HIGH = -1.5, 2.0


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


def random_mdp(seed, states, action_size=1, horizon=None, floor=(0.1, 1.0), steep=1.0):
    """A random MDP; `floor` is the range of the rewards far from their bump."""
    draw = np.random.default_rng(seed)
    return FiniteMDP(
        T=Softmax(
            bias=draw.normal(size=(states, states)),
            slope=steep * draw.normal(size=(states, states, action_size)),
            wave=0.5 * steep * draw.normal(size=(states, states)),
        ),
        r=Bumps(
            floor=draw.uniform(*floor, size=states),
            height=draw.uniform(0.0, 3.0, size=states),
            centre=draw.uniform(LOW, HIGH, size=(states, action_size)),
        ),
        b0=draw.dirichlet(np.ones(states)),
        bounds=(np.full(action_size, LOW), np.full(action_size, HIGH)),
        gamma=1.0 if horizon else draw.uniform(0.3, 0.97),
        horizon=horizon,
    )


def random_policy(mdp, seed):
    draw = np.random.default_rng(seed)
    return draw.uniform(mdp.low, mdp.high)


SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.sampled_from([2, 3, 5, 8, 12])
SHAPES = st.sampled_from([(1, None), (2, None), (1, 7), (2, 7)])
"""Action size and horizon. Few shapes: each is compiled once for each number of states."""


@st.composite
def mdps(draw, **kwargs):
    action_size, horizon = draw(SHAPES)
    return random_mdp(draw(SEEDS), draw(SIZES), action_size, horizon, **kwargs)
