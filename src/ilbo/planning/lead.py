"""Which gradient leads, the model's or the critic's, judged by what climbing it has earned.

The model's derivatives do not see the steps of a reward. Where they lead away from what is behind
such a step, as a price does that pulls a room out of its comfort band, the policy soon acts where
neither trying actions nor the critic can tell what it misses (`ilbo.planning.blend`). But returns
tell: the newest policy earns far less than the one held, test after test. Then training goes back
to the policy held, and the critic leads from there, until it adds no more; from then on both count
alike, and then the critic again where that misleads.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ilbo.mdp.shapes import Number

PATIENCE = 3
"""Tests in a row after which the other gradient leads; each time twice as many, so that each gets
its time."""
SURE = 3.0
"""Standard errors by which the newest policy must earn less in each of them."""
SETTLED = 5
"""Tests in a row, without much of a gain, after which the critic gives the lead back."""
MUCH = 0.01
"""Share, of all that training has gained, that is much of a gain."""


class Lead(eqx.Module):
    """Who leads, and what speaks against it."""

    critic: Bool[Array, ""]
    """Whether the critic's slope stands in the place of the model's derivatives."""
    behind: Int[Array, ""]
    """Tests in a row that spoke against who leads."""
    patience: Int[Array, ""]
    """Tests in a row that it takes; more than at first once a gradient has misled."""
    settled: Int[Array, ""]
    """Tests in a row in which not much was gained."""
    mark: Float[Array, ""]
    """What the policy held earned when much was gained last."""
    first: Float[Array, ""]
    """What the untrained policy earned; NaN before the first test."""

    @classmethod
    def begin(cls) -> Lead:
        none, unknown = jnp.array(0, jnp.int32), jnp.array(jnp.nan, jnp.float32)
        return cls(jnp.array(False), none, none + PATIENCE, none, unknown, unknown)

    def share(self, shown: Float[Array, ""], most: Number) -> Float[Array, ""]:
        """Of the critic's slope, where the evidence speaks for a share and a setting allows one."""
        both = self.patience > PATIENCE  # the critic has led, and has given the lead back
        return jnp.where(self.critic, 1.0, jnp.where(both, most, shown))

    def judged(self, earned: Float[Array, "2 episodes"]) -> tuple[Lead, Bool[Array, ""]]:
        """After a test, and whether the lead changes hands.

        Args:
            earned: Returns of the policy held and of the newest, along the same noise.

        The newest is far behind if it has surely lost more than half of what training had gained.
        """
        held, newest = jnp.mean(earned, axis=1)
        first = jnp.where(jnp.isnan(self.first), held, self.first)
        lost = earned[0] - earned[1]
        sure = jnp.mean(lost) > SURE * jnp.std(lost) / len(lost) ** 0.5
        far = sure & (newest < (first + held) / 2)
        behind = jnp.where(far, self.behind + 1, 0)
        best = jnp.maximum(held, newest)
        # Before there is a mark, NaN, it counts as a gain.
        gained = ~(best - self.mark <= MUCH * (best - first))
        settled = jnp.where(gained, 0, self.settled + 1)
        misled = behind >= self.patience
        turns = misled | (self.critic & (settled >= SETTLED))
        new = Lead(
            critic=self.critic ^ turns,
            behind=jnp.where(turns, 0, behind),
            patience=jnp.where(misled, 2 * self.patience, self.patience),
            settled=jnp.where(turns, 0, settled),
            mark=jnp.where(gained | turns, best, self.mark).astype(jnp.float32),
            first=first.astype(jnp.float32),
        )
        return new, turns
