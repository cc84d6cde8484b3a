"""The draws of a problem, each with its slice of the noise vector ξ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ilbo.mdp.shapes import Noise
from ilbo.rddl import draws, ranges, relaxing
from ilbo.rddl.operators import number
from ilbo.rddl.parsing import Unsupported
from ilbo.rddl.terms import Point, Spread


@dataclass
class Slot:
    """One draw of the problem and its slice of the noise vector."""

    distribution: str
    where: str
    """The CPF that draws."""
    draw: draws.Draw
    arguments: tuple[Spread, ...]
    moving: bool
    """Whether a parameter is not constant."""
    watched: bool
    """Whether it draws a whole number at every step, with parameters that may leave their range."""
    start: int = 0
    """Where its noise begins; set when all draws are known."""

    @classmethod
    def planned(
        cls,
        name: str,
        where: str,
        arguments: tuple[Spread, ...],
        constants: Sequence[np.ndarray | None],
        shape: tuple[int, ...],
        taken: str,
    ) -> Slot:
        """A draw of the distribution.

        Args:
            arguments: Its parameters.
            constants: Their values, None for those that are not constant.
            shape: One draw for each element.
            taken: Whether the branch that draws is taken always, sometimes or never.
        """
        if wrong := ranges.fault(name, constants):
            if taken != "never":
                raise Unsupported(f"<{where}> draws from {name}, of which {wrong}")
            constants = [None] * len(constants)
        draw = draws.draw_of(name, shape, constants)
        if draw is None:
            raise Unsupported(
                f"<{where}> draws from {name}, which no noise of a fixed law can be turned into"
            )
        moving = any(value is None for value in constants)
        watched = moving and name in draws.DISCRETE and taken == "always"
        return cls(name, where, draw, arguments, moving, watched)

    def noise(self, xi: Noise) -> Array:
        stop = self.start + self.draw.law.size
        return xi[self.start : stop].reshape(self.draw.noise_shape)

    def sampling(self, relaxation: str) -> Callable[[Point], Array]:
        """The draw at a point; there is nothing to relax where all parameters are constant."""
        way = relaxation if self.moving else "exact"
        soft = relaxing.relaxed_draw(way, self.distribution, self.draw.sample)

        def sample(at: Point) -> Array:
            assert at.noise is not None
            given = [number(jnp, jnp.asarray(value(at))) for value in self.arguments]
            if soft is None:
                return self.draw.sample(self.noise(at.noise), *given)
            return soft(at.temperature, self.noise(at.noise), *given)

        return sample
