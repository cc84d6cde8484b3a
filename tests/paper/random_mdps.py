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


def random_mdp(seed, states, action_size=1, horizon=None, floor=(0.1, 1.0), gamma=(0.3, 0.97)):
    """A random MDP; `floor` is the range of rewards far from their bump, `gamma` of discounts."""
    draw = np.random.default_rng(seed)
    return FiniteMDP(
        T=Softmax(
            bias=draw.normal(size=(states, states)),
            slope=draw.normal(size=(states, states, action_size)),
            wave=0.5 * draw.normal(size=(states, states)),
        ),
        r=Bumps(
            floor=draw.uniform(*floor, size=states),
            height=draw.uniform(0.0, 3.0, size=states),
            centre=draw.uniform(LOW, HIGH, size=(states, action_size)),
        ),
        b0=draw.dirichlet(np.ones(states)),
        bounds=(np.full(action_size, LOW), np.full(action_size, HIGH)),
        gamma=1.0 if horizon else draw.uniform(*gamma),
        horizon=horizon,
    )


def random_policy(mdp, seed):
    draw = np.random.default_rng(seed)
    return draw.uniform(mdp.low, mdp.high)


SEEDS = st.integers(0, 2**32 - 1)
SHAPES = [(2, 1, None), (5, 2, 7), (12, 1, None)]
"""States, action size and horizon. Few, because each is compiled anew."""


@st.composite
def mdps(draw, shapes=SHAPES, **kwargs):
    return random_mdp(draw(SEEDS), *draw(st.sampled_from(shapes)), **kwargs)
