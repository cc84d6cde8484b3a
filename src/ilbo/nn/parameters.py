"""What a network learns, as one opaque value that optimisers and averages work on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax

from ilbo._cpu import packing
from ilbo._cpu.frozen import KEPT

Parameters = packing.Packed
"""The float arrays of a network, as few arrays; `unpack` gives the network back."""

Network = TypeVar("Network")


def pack(network: Any) -> Parameters:
    """The parameters of a network, or of a gradient of the same structure."""
    return packing.pack(jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)))


def unpack(parameters: Parameters, shape: Network) -> Network:
    """The network of this shape (arrays, or `jax.ShapeDtypeStruct`) with these parameters."""
    learnt, rest = eqx.partition(shape, lambda leaf: hasattr(leaf, "shape"))
    leaves, structure = jax.tree.flatten(learnt)
    network = jax.tree.unflatten(structure, packing.unpack(parameters, leaves))
    return eqx.combine(network, rest)


def fixed(network: Any) -> Any:
    """The same function at fixed parameters, as fast as the network knows how."""
    return network.fixed() if hasattr(network, "fixed") else network


def recompute(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step of a scan whose reverse pass computes it again, but for what networks keep."""
    policy = jax.checkpoint_policies.save_only_these_names(KEPT)
    return jax.checkpoint(step, policy=policy)
