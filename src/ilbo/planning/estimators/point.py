"""Where the bound touches the objective: the model and what is held constant at θ^m."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ilbo.mdp.device import on_accelerator
from ilbo.mdp.model import Model
from ilbo.mdp.shapes import Number
from ilbo.mdp.simulate import step
from ilbo.nn.parameters import recompute

ActionValue = Callable[[Array, Array, Array], Array]
"""Q^m: state [n], action [m], steps left [] → value []; 0 where no step is left."""


class Sample(NamedTuple):
    """A state to estimate the gradient at, and what the estimate may use."""

    state: Float[Array, " n"]
    steps_left: Int[Array, ""]
    noise: Float[Array, "draws steps k"]
    """Noise of the steps to take: `draws` times `steps` of the estimator."""
    next_state: Float[Array, " n"]
    """The state that followed it."""


class ActionGradient(NamedTuple):
    """g at the states it was estimated for, with a leading axis over these."""

    states: Float[Array, "k n"]
    gradients: Float[Array, "k m"]
    """0 beyond the horizon."""
    value: Float[Array, ""]
    """The estimate of the objective from the first state: the bound at θ^m, which touches it."""
    steps_left: Int[Array, " k"]
    """At each of the states."""


class Point(eqx.Module):
    """The model, Q^m, the policy μ^m and γ, in the reward's own units."""

    model: Model
    critic: ActionValue
    policy: Callable[[Array, Array], Array]
    """μ^m: state [n], steps left [] → action [m]."""
    discount: Number
    horizon: int = eqx.field(static=True, default=1)
    """Steps of an episode, for a model that sees the time."""
    worth: Callable[[Array, Array, Array, Array], Array] | None = None
    """What is made of a return: state, return from there on, steps left there and where the critic
    takes over → value []. None where it is the return itself."""

    def at(self, steps_left: Int[Array, ""]) -> Model:
        """The model with so many steps left."""
        return self.model.at(jnp.minimum(self.horizon - steps_left, self.horizon - 1))

    def value(self, state: Float[Array, " n"], steps_left: Int[Array, ""]) -> Float[Array, ""]:
        """V^m."""
        return self.critic(state, self.policy(state, steps_left), steps_left)

    def follow(
        self,
        state: Float[Array, " n"],
        steps_left: Int[Array, ""],
        noise: Float[Array, "steps k"],
        nudges: Float[Array, "steps m"],
    ) -> tuple[Float[Array, ""], tuple[Float[Array, "steps n"], Int[Array, " steps"]]]:
        """Rolls μ^m from the state along the noise, its actions nudged.

        Returns the return with the critic's tail, or what that is worth, and (states, steps left)
        before each step.
        """

        def one(
            carry: tuple[Array, Array, Array], inputs: tuple[Array, Array]
        ) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, Array]]:
            state, action, left = carry
            xi, nudge = inputs
            following, earned, goes_on = step(self.at(left), state, action + nudge, xi, left > 0)
            next_left = jnp.where(goes_on, left - 1, 0)
            acting = self.policy(following, next_left)
            return (following, acting, next_left), (earned, state, left)

        # The action is part of the carry, so that the policy is evaluated once for each state, and
        # is not differentiated at the first, which nothing moves.
        carry = (state, self.policy(state, steps_left), steps_left)
        (last, action, left), (earned, states, lefts) = jax.lax.scan(
            recompute(one), carry, (noise, nudges), unroll=on_accelerator()
        )
        tail = jnp.where(left > 0, self.critic(last, action, left), 0.0)
        factors = self.discount ** jnp.arange(len(noise) + 1)
        gained = jnp.sum(factors * jnp.append(earned, tail))
        if self.worth is not None:
            gained = self.worth(state, gained, steps_left, left)
        return gained, (states, lefts)
