"""A network that sees the time: a plan for each step, and a network of state and time around it."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ilbo.nn.mlp import MLP
from ilbo.nn.parameters import fixed

WAVES = (1.0, 2.0, 4.0)
"""Half turns, from the start to the end of an episode, of the sines and cosines of the time."""
FEATURES = 1 + 2 * len(WAVES)


class AroundPlan(eqx.Module):
    """plan[t] + network(s, t), for the step t of an episode.

    With a network whose last layer is 0 it is an open-loop plan; feedback is learnt from there. The
    last input is the share of the episode that is gone, in [0, 1].
    """

    plan: Float[Array, "horizon outputs"]
    network: MLP

    def __call__(self, x: Float[Array, "*b inputs"]) -> Float[Array, "*b outputs"]:
        state, gone = x[..., :-1], x[..., -1:]
        angles = gone * (np.pi * np.array(WAVES, np.float32))
        features = [state, 2 * gone - 1, jnp.sin(angles), jnp.cos(angles)]
        steps = np.arange(len(self.plan), dtype=np.float32)
        # A product with 0s and 1s: it exports everywhere, and its derivative scatters nothing.
        here = (jnp.round(gone * len(steps)) == steps).astype(x.dtype)
        return here @ self.plan + self.network(jnp.concatenate(features, axis=-1))

    def fixed(self) -> AroundPlan:
        return eqx.tree_at(lambda module: module.network, self, fixed(self.network))


@dataclass(frozen=True)
class TimedLayers:
    """Makes an `AroundPlan` for episodes of so many steps; the plan is 0 at first."""

    sizes: tuple[int, ...]
    horizon: int

    def __call__(self, key: Key[Array, ""], inputs: int, outputs: int) -> AroundPlan:
        plan = jnp.zeros((self.horizon, outputs), jnp.float32)
        return AroundPlan(plan, MLP.init(key, inputs - 1 + FEATURES, self.sizes, outputs, gain=0.1))
