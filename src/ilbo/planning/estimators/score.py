"""The score estimator, the paper's: the bound's gradient through that of the density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from ilbo.errors import check_setting
from ilbo.planning.estimators.estimator import Estimator, NextStates

if TYPE_CHECKING:
    from jaxtyping import Array

    from ilbo.planning.estimators.point import ActionGradient, Point, Sample

Baseline = Literal["none", "value", "leave-one-out"]


@dataclass(frozen=True)
class Score(Estimator):
    """∇_a r + γ (V^m(s') − b) ∇_a ln T(s, a, s'), the paper's, with its baselines.

    Where the reward depends on the next state, what s' adds to it, r(s, a, s') − r(s, a, s), is
    weighed with the score beside γ V^m(s'); otherwise that is 0 and the paper's equation remains.
    """

    name: ClassVar[str] = "score"
    needs_density: ClassVar[bool] = True
    uses_stored: ClassVar[bool] = True

    draws: int = 8
    next_states: NextStates = "replay"
    depth: int = 1
    """Steps of the model, from the state on, before the critic's value is used."""
    baseline: Baseline = "leave-one-out"
    """b: nothing, the value of the state, or the mean over the other draws."""

    def __post_init__(self) -> None:
        super().__post_init__()
        whole = isinstance(self.depth, int) and self.depth >= 1
        check_setting(whole, "depth", "a whole number of at least 1", self.depth)
        check_setting(
            self.baseline in ("none", "value", "leave-one-out"),
            "baseline",
            "one of none, value, leave-one-out",
            self.baseline,
        )
        check_setting(
            self.next_states != "stored" or self.draws == 1,
            "draws",
            "1 where next_states is stored: there is one of them",
            self.draws,
        )
        check_setting(
            self.baseline != "leave-one-out" or self.draws >= 2,
            "draws",
            "at least 2 for the leave-one-out baseline",
            self.draws,
        )

    @property
    def steps(self) -> int:
        return self.depth

    def model_evaluations(self, states: int) -> int:
        stored = self.next_states == "stored"  # then the first step is the stored one
        return states * self.draws * (self.steps - stored)

    def __call__(self, at: Point, sample: Sample) -> ActionGradient:
        import jax
        import jax.numpy as jnp

        from ilbo.planning.estimators.point import ActionGradient

        state, left, model = sample.state, sample.steps_left, at.at(sample.steps_left)
        action = at.policy(state, left)
        if self.next_states == "stored":
            next_states = sample.next_state[None]
        else:
            next_states = jax.vmap(lambda xi: model.transition(state, action, xi))(
                sample.noise[:, 0]
            )
        nudges = jnp.zeros((self.steps - 1, action.shape[0]))
        staying = model.reward(state, action, state)

        def worth(moved: Array, noise: Array) -> Array:
            """What s' adds to the reward, + γ V^m(s')."""
            added = model.reward(state, action, moved) - staying
            next_left = jnp.where(model.terminal(moved), 0, left - 1)
            future, _ = at.follow(moved, next_left, noise[1:], nudges)
            return added + jnp.where(next_left > 0, at.discount * future, 0.0)

        worths = jax.vmap(worth)(next_states, sample.noise)
        if self.baseline == "leave-one-out":
            baseline = (jnp.sum(worths) - worths) / (len(worths) - 1)
        elif self.baseline == "value":
            baseline = at.discount * at.value(state, left)
        else:
            baseline = jnp.zeros(())
        advantages = worths - baseline

        def surrogate(a: Array) -> Array:
            reward = jax.vmap(lambda s2: model.reward(state, a, s2))(next_states)
            log_density = jax.vmap(lambda s2: model.log_density(state, a, s2))(next_states)
            # A next state of density 0 under a has no score; it was clipped on the way.
            log_density = jnp.where(jnp.isfinite(log_density), log_density, 0.0)
            return jnp.mean(reward + advantages * log_density)

        gradient = jax.grad(surrogate)(action)
        value = staying + jnp.mean(worths)
        return ActionGradient(state[None], gradient[None], value, left[None])
