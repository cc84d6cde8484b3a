"""What an estimator of the bound's gradient is. Free of JAX, as all settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from ilbo.errors import check_setting

if TYPE_CHECKING:
    from ilbo.planning.estimators.point import ActionGradient, Point, Sample

NextStates = Literal["replay", "stored", "fresh"]


@dataclass(frozen=True)
class Estimator(ABC):
    """Estimates g(s), the gradient of the bound in the action. Its fields are its settings.

    To write one: a frozen dataclass that sets `steps`, the steps of noise that one draw needs, and
    `__call__`, which is traced by JAX for one state and mapped over a batch of them. Pass it as
    `ILBO(estimator=Mine())`.
    """

    name: ClassVar[str] = "own"
    needs_density: ClassVar[bool] = False
    """Whether it calls `model.log_density`, so that the problem must have one."""
    blends: ClassVar[bool] = False
    """Whether the critic's slope may count beside it (`planning.blend`)."""

    draws: int = 1
    """Draws of noise for each sampled state."""
    next_states: NextStates = "replay"
    """Noise of the policy's steps: replayed from the store, or drawn afresh. `stored` next states
    are for estimators that say so."""

    def __post_init__(self) -> None:
        whole = isinstance(self.draws, int) and self.draws >= 1
        check_setting(whole, "draws", "a whole number of at least 1", self.draws)
        check_setting(
            self.next_states in ("replay", "stored", "fresh"),
            "next_states",
            "one of replay, stored, fresh",
            self.next_states,
        )
        check_setting(
            self.next_states != "stored" or self.uses_stored,
            "next_states",
            "replay or fresh unless the estimator is score, which alone can use a next state as it "
            "was stored",
            self.next_states,
        )

    uses_stored: ClassVar[bool] = False
    """Whether it can take the next state as it was stored."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """Steps of noise in one draw."""

    def model_evaluations(self, states: int) -> int:
        """Evaluations of the model for so many sampled states."""
        return states * self.draws * self.steps

    @abstractmethod
    def __call__(self, at: Point, sample: Sample) -> ActionGradient:
        """g at the sampled state, or at states reached from it under μ^m."""
