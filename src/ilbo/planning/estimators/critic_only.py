"""The critic's slope alone: the ablation that shows what the model's gradient is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ilbo.planning.estimators.estimator import Estimator

if TYPE_CHECKING:
    from ilbo.planning.estimators.point import ActionGradient, Point, Sample


@dataclass(frozen=True)
class CriticOnly(Estimator):
    """∇_a Q(s, a): no model in it. Not ILBO."""

    name: ClassVar[str] = "critic"

    @property
    def steps(self) -> int:
        return 0

    def __call__(self, at: Point, sample: Sample) -> ActionGradient:
        import jax

        from ilbo.planning.estimators.point import ActionGradient

        action = at.policy(sample.state, sample.steps_left)
        value, gradient = jax.value_and_grad(at.critic, argnums=1)(
            sample.state, action, sample.steps_left
        )
        return ActionGradient(sample.state[None], gradient[None], value, sample.steps_left[None])
