"""The arrays of one step, by their shapes: n state components, m actions, k noises."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, SupportsIndex

from jaxtyping import Array, Float, Key

State = Float[Array, " n"]
Action = Float[Array, " m"]
Noise = Float[Array, " k"]

Number = float | Float[Array, "*trials"]
"""A number that compiled programs work with: Python's where it is a part of them."""

PolicyFunction = Callable[..., Array]
"""state [n] → action [m]. Called with the number of steps taken so far as well where it has a true
`timed`, and with a key as the last argument where it has a true `stochastic`."""

if TYPE_CHECKING:
    Whole = SupportsIndex
    KeyOrSeed = Key[Array, ""] | SupportsIndex
else:  # what users give is checked where it is taken, in a sentence
    Whole = KeyOrSeed = Any
AnyPolicy = Any
"""A policy as users give it: a `PolicyFunction`; a function of NumPy arrays; what has a `predict`;
or "heuristic", "midpoint", "hold" or "random"."""
