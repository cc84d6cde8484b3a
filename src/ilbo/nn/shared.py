"""Networks that share what they know between like components."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ilbo.nn.components import Seen
from ilbo.nn.mlp import MLP
from ilbo.nn.parameters import fixed


class SharedNetwork(eqx.Module):
    """One small network for each component alike, and, if wanted, one of the whole state, summed.

    Before it decides, each component tells its neighbours some numbers of its own making: what it
    is about to do, say. The whole state is the first number seen of each component.
    """

    tell: MLP | None
    each: MLP
    whole: MLP | None

    def __call__(self, seen: Seen) -> Float[Array, "*b n"]:
        x = seen.each
        if self.tell is not None:
            told = self.tell(x)
            heard = [jnp.einsum("ij,...jk->...ik", near, told) for near in seen.near]
            x = jnp.concatenate([x, *heard], axis=-1)
        out = self.each(x)[..., 0]
        return out if self.whole is None else out + self.whole(seen.each[..., 0])

    def fixed(self) -> SharedNetwork:
        return jax.tree.map(fixed, self, is_leaf=lambda part: isinstance(part, MLP))


@dataclass(frozen=True)
class SharedLayers:
    """Makes a `SharedNetwork` with these hidden layers."""

    sizes: tuple[int, ...]
    whole: tuple[int, ...] | None = None
    """Hidden layers of the network of the whole state; None: there is none."""
    messages: int = 0
    """Numbers that each component tells its neighbours."""

    def __call__(self, key: Key[Array, ""], inputs: int, outputs: int) -> SharedNetwork:
        key, key_whole, key_tell = jax.random.split(key, 3)
        tell = whole = None
        if self.messages:
            tell = MLP.init(key_tell, inputs, self.sizes, self.messages, gain=1.0)
        if self.whole is not None:
            whole = MLP.init(key_whole, outputs, self.whole, outputs, gain=0.1)
        each = MLP.init(key, inputs + 2 * self.messages, self.sizes, 1, gain=0.1)
        return SharedNetwork(tell, each, whole)
