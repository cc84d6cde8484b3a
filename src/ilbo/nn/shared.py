"""Networks that share what they know between like components."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key

from ilbo.nn.mlp import MLP
from ilbo.nn.parameters import fixed


class SharedNetwork(eqx.Module):
    """One small network for each component alike, and, if wanted, one of the whole state, summed.

    The whole state is the first number seen of each component.
    """

    each: MLP
    whole: MLP | None

    def __call__(self, seen: Float[Array, "*b n inputs"]) -> Float[Array, "*b n"]:
        out = self.each(seen)[..., 0]
        return out if self.whole is None else out + self.whole(seen[..., 0])

    def fixed(self) -> SharedNetwork:
        return jax.tree.map(fixed, self, is_leaf=lambda part: isinstance(part, MLP))


@dataclass(frozen=True)
class SharedLayers:
    """Makes a `SharedNetwork` with these hidden layers."""

    sizes: tuple[int, ...]
    whole: tuple[int, ...] | None = None
    """Hidden layers of the network of the whole state; None: there is none."""

    def __call__(self, key: Key[Array, ""], inputs: int, outputs: int) -> SharedNetwork:
        key, key_whole = jax.random.split(key)
        whole = None
        if self.whole is not None:
            whole = MLP.init(key_whole, outputs, self.whole, outputs, gain=0.1)
        return SharedNetwork(MLP.init(key, inputs, self.sizes, 1, gain=0.1), whole)
