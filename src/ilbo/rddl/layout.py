"""Fluents as one vector, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


@dataclass(frozen=True)
class Fluent:
    """A lifted fluent; a scalar one has no objects and an empty shape."""

    name: str
    range: str
    """real, int, bool, or the name of an enumerated type."""
    shape: tuple[int, ...]
    groundings: tuple[str, ...]
    """Its components as pyRDDLGym calls them, `level___r1__r2`."""

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def names(self) -> tuple[str, ...]:
        """Its components as RDDL writes them, `level(r1, r2)`."""
        return tuple(_written(grounding) for grounding in self.groundings)


@dataclass(frozen=True)
class Layout:
    """Fluents side by side in a vector [n]."""

    fluents: tuple[Fluent, ...]

    @property
    def size(self) -> int:
        return sum(fluent.size for fluent in self.fluents)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for fluent in self.fluents for name in fluent.names)

    def unpack(self, vector: Float[Array, " n"], exact: bool = True) -> dict[str, Array]:
        """The tensor of each fluent, in its own type or, if not exact, as real numbers."""
        tensors, start = {}, 0
        for fluent in self.fluents:
            tensor = vector[start : start + fluent.size].reshape(fluent.shape)
            start += fluent.size
            if exact and fluent.range == "bool":
                tensor = tensor > 0.5
            elif exact and fluent.range != "real":
                tensor = jnp.round(tensor).astype(jnp.int32)
            tensors[fluent.name] = tensor
        return tensors

    def pack(self, tensors: Mapping[str, Any]) -> Float[Array, " n"]:
        parts = [jnp.asarray(tensors[f.name], float).reshape(-1) for f in self.fluents]
        return jnp.concatenate(parts) if len(parts) > 1 else parts[0]

    def grounded(self, vector: Float[np.ndarray, " n"]) -> dict[str, Any]:
        """The value of each component, under pyRDDLGym's name and in the fluent's type."""
        kinds = [fluent.range for fluent in self.fluents for _ in fluent.groundings]
        names = [grounding for fluent in self.fluents for grounding in fluent.groundings]
        return {
            name: _typed(value, kind)
            for name, value, kind in zip(names, np.asarray(vector).tolist(), kinds, strict=True)
        }


def _typed(value: float, kind: str) -> Any:
    if kind == "real":
        return float(value)
    return bool(value > 0.5) if kind == "bool" else round(value)


def _written(grounding: str) -> str:
    name, _, objects = grounding.partition("___")
    return f"{name}({', '.join(objects.split('__'))})" if objects else name
