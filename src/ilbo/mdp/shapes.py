"""The arrays of one step, by their shapes: n state components, m actions, k noises."""

from __future__ import annotations

from jaxtyping import Array, Float

State = Float[Array, " n"]
Action = Float[Array, " m"]
Noise = Float[Array, " k"]
