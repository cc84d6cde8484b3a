"""The pathwise estimator: the bound's gradient through the model's own derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ilbo.errors import check_setting
from ilbo.planning.estimators.estimator import Estimator

if TYPE_CHECKING:
    from jaxtyping import Array

    from ilbo.planning.estimators.point import ActionGradient, Point, Sample


@dataclass(frozen=True)
class Pathwise(Estimator):
    """∇_a [ r(s, a, f(s, a, ξ)) + γ V^m(f(s, a, ξ)) ]: needs no density.

    Every state of a rolled window is one that μ^m visits, so each gives its g, with the rest of the
    window as its expansion; one reverse pass computes them all. The first `window` states count:
    the later ones see too few steps of the model before the critic takes over.
    """

    name: ClassVar[str] = "pathwise"
    blends: ClassVar[bool] = True

    depth: int = 10
    """Steps that the model is rolled, or more, before the critic's value is used."""
    window: int = 4
    """Successive states, from the sampled one on, that g is estimated at."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("depth", "window"):
            value = getattr(self, name)
            whole = isinstance(value, int) and value >= 1
            check_setting(whole, name, "a whole number of at least 1", value)

    @property
    def steps(self) -> int:
        return self.depth + self.window - 1

    def __call__(self, at: Point, sample: Sample) -> ActionGradient:
        import jax
        import jax.numpy as jnp

        from ilbo.planning.estimators.point import ActionGradient

        actions = jax.eval_shape(at.policy, sample.state, sample.steps_left).shape[0]
        nudges = jnp.zeros((self.window, actions))
        rest = self.steps - self.window

        def roll(noise: Array) -> tuple[tuple[Array, tuple[Array, Array]], Array]:
            def objective(nudge: Array) -> tuple[Array, tuple[Array, Array]]:
                padded = jnp.concatenate([nudge, jnp.zeros((rest, actions))])
                return at.follow(sample.state, sample.steps_left, noise, padded)

            return jax.value_and_grad(objective, has_aux=True)(nudges)

        (value, (states, lefts)), gradients = jax.vmap(roll)(sample.noise)
        states, lefts = states[:, : self.window], lefts[:, : self.window]
        # d/da_k of the window's return carries γ^k; each state counts in full instead.
        gradients = gradients / at.discount ** jnp.arange(self.window)[:, None]
        gradients = jnp.where((lefts > 0)[..., None], gradients, 0.0)
        states, gradients = (x.reshape(-1, x.shape[-1]) for x in (states, gradients))
        return ActionGradient(states, gradients, jnp.mean(value), lefts.reshape(-1))
