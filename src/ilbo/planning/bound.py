"""The bound's gradient in the action, and its estimators.

At θ^m the gradient of the lower bound Ĵ(θ; θ^m) is

    Σ_s d^m(s) ∇_θ μ_θ(s) · g(s),    g(s) = ∇_a E_{s' ~ T(s, a)} [ r(s, a, s') + γ V^m(s') ]

at a = μ^m(s). Each estimator here gives g at states that are distributed as d^m; `pull_back` turns
that into the gradient in θ. Nothing but the action is differentiated: V^m, the baseline and the
policy inside them are those of θ^m.

Value expansion of depth h: V^m(s') is replaced by the rewards of h − 1 further steps of the model
under μ^m and the critic's value of the state after them. h = 1 is the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ilbo.mdp.bounds import into_bounds
from ilbo.mdp.model import Model
from ilbo.nn.frozen import KEPT
from ilbo.nn.policy import Policy

Critic = Callable[[Array, Array, Array], Array]
"""Q^m: state [n], action [m], steps left [] → value []; 0 where no step is left."""


class Sample(NamedTuple):
    """A state to estimate the gradient at, and what the estimate may use."""

    state: Float[Array, " n"]
    steps_left: Int[Array, ""]
    noise: Float[Array, "draws steps k"]
    """Noise of the steps to take: window + depth − 1 of them."""
    next_state: Float[Array, " n"]
    """The state that followed it."""


class ActionGradient(NamedTuple):
    """g at the states it was estimated for, with a leading axis over these."""

    states: Float[Array, "k n"]
    gradients: Float[Array, "k m"]
    """0 beyond the horizon."""
    value: Float[Array, ""]
    """The estimate of the objective from the first state: the bound at θ^m, which touches it."""


class Estimator(eqx.Module):
    """What all estimators hold: the model, Q^m, the policy μ^m and γ."""

    model: Model
    critic: Critic
    policy: Callable[[Array], Array]
    discount: float = eqx.field(static=True)

    def __call__(self, sample: Sample) -> ActionGradient:
        raise NotImplementedError

    def value(self, state, steps_left):
        """V^m."""
        return self.critic(state, self.policy(state), steps_left)

    def step(self, state, action, noise, steps_left):
        """(s', r, steps left at s'), the last 0 where the episode has ended."""
        moved = self.model.transition(state, action, noise)
        reward = self.model.reward(state, action, moved)
        left = jnp.where(self.model.terminal(moved), 0, jnp.maximum(steps_left - 1, 0))
        return moved, reward, left

    def follow(self, state, steps_left, noise, nudges):
        """Rolls μ^m from the state along the noise [steps, k]; actions are nudged by [steps, m].

        Returns the return with the critic's tail, and (states, steps left) before each step.
        """

        def one(carry, inputs):
            state, action, left = carry
            xi, nudge = inputs
            alive = left > 0
            moved, reward, next_left = self.step(state, action + nudge, xi, left)
            following = jnp.where(alive, moved, state)
            earned = jnp.where(alive, reward, 0.0)
            return (following, self.policy(following), next_left), (earned, state, left)

        # The action is taken along, so that the policy is asked once for each state, and not
        # differentiated at the first, which nothing moves.
        step = jax.checkpoint(one, policy=jax.checkpoint_policies.save_only_these_names(KEPT))
        carry, inputs = (state, self.policy(state), steps_left), (noise, nudges)
        (last, action, left), (earned, states, lefts) = jax.lax.scan(step, carry, inputs)
        tail = jnp.where(left > 0, self.critic(last, action, left), 0.0)
        factors = self.discount ** jnp.arange(len(noise) + 1)
        return jnp.sum(factors * jnp.append(earned, tail)), (states, lefts)


class Pathwise(Estimator):
    """∇_a [ r(s, a, f(s, a, ξ)) + γ V^m(f(s, a, ξ)) ]: needs no density.

    Every state of a rolled window is one that μ^m visits, so each gives its g, with the rest of the
    window as its expansion; one reverse pass computes them all. The first `window` states count:
    the later ones see too few steps of the model before the critic takes over.
    """

    window: int = eqx.field(static=True)

    def __call__(self, sample: Sample) -> ActionGradient:
        nudges = jnp.zeros((self.window, jax.eval_shape(self.policy, sample.state).shape[0]))
        rest = sample.noise.shape[1] - self.window

        def roll(noise):
            def objective(nudge):
                padded = jnp.concatenate([nudge, jnp.zeros((rest, nudge.shape[1]))])
                return self.follow(sample.state, sample.steps_left, noise, padded)

            return jax.value_and_grad(objective, has_aux=True)(nudges)

        (value, (states, lefts)), gradients = jax.vmap(roll)(sample.noise)
        states, lefts = states[:, : self.window], lefts[:, : self.window]
        # d/da_k of the window's return carries γ^k; each state counts in full instead.
        gradients = gradients / self.discount ** jnp.arange(self.window)[:, None]
        gradients = jnp.where((lefts > 0)[..., None], gradients, 0.0)
        states, gradients = (x.reshape(-1, x.shape[-1]) for x in (states, gradients))
        return ActionGradient(states, gradients, jnp.mean(value))


class Score(Estimator):
    """∇_a r + γ (V^m(s') − b) ∇_a ln T(s, a, s'), the paper's, with its baselines.

    Where the reward depends on the next state, what s' adds to it, r(s, a, s') − r(s, a, s), is
    weighed with the score beside γ V^m(s'); otherwise that is 0 and the paper's equation remains.
    """

    baseline: str = eqx.field(static=True)
    stored: bool = eqx.field(static=True)

    def __call__(self, sample: Sample) -> ActionGradient:
        state, left = sample.state, sample.steps_left
        action = self.policy(state)
        if self.stored:
            next_states = sample.next_state[None]
        else:
            next_states = jax.vmap(lambda xi: self.model.transition(state, action, xi))(
                sample.noise[:, 0]
            )
        nudges = jnp.zeros((sample.noise.shape[1] - 1, action.shape[0]))
        staying = self.model.reward(state, action, state)

        def worth(moved, noise):
            """What s' adds to the reward, + γ V^m(s')."""
            added = self.model.reward(state, action, moved) - staying
            next_left = jnp.where(self.model.terminal(moved), 0, left - 1)
            future, _ = self.follow(moved, next_left, noise[1:], nudges)
            return added + self.discount * future

        worths = jax.vmap(worth)(next_states, sample.noise)
        if self.baseline == "leave-one-out":
            baseline = (jnp.sum(worths) - worths) / (len(worths) - 1)
        elif self.baseline == "value":
            baseline = self.discount * self.value(state, left)
        else:
            baseline = jnp.zeros(())
        advantages = worths - baseline

        def surrogate(a):
            reward = jax.vmap(lambda s2: self.model.reward(state, a, s2))(next_states)
            log_density = jax.vmap(lambda s2: self.model.log_density(state, a, s2))(next_states)
            # A next state of density 0 under a has no score; it was clipped on the way.
            log_density = jnp.where(jnp.isfinite(log_density), log_density, 0.0)
            return jnp.mean(reward + advantages * log_density)

        gradient = jax.grad(surrogate)(action)
        return ActionGradient(state[None], gradient[None], staying + jnp.mean(worths))


class CriticOnly(Estimator):
    """∇_a Q(s, a): no model in it. The ablation that shows what the model's gradient is worth."""

    def __call__(self, sample: Sample) -> ActionGradient:
        action = self.policy(sample.state)
        value, gradient = jax.value_and_grad(self.critic, argnums=1)(
            sample.state, action, sample.steps_left
        )
        return ActionGradient(sample.state[None], gradient[None], value)


def pull_back(
    policy: Policy, found: ActionGradient, weights: Float[Array, " b"], inward: float = 0.0
):
    """Mean over samples b of w ∇_θ μ_θ(s) · g(s): the gradient in the policy's network.

    Where an action sits at a bound, the curve that maps the network's output into the bounds is
    flat, and a gradient that points back inside would be all but lost: an early habit of full
    throttle is never unlearnt. Such a gradient is given a slope of at least `inward` times the
    curve's slope in its middle. That scales single components of g by positive factors, so it
    still climbs the bound; with 0 it is the gradient as it stands.

    Returns also the mean square [b] of each sample's gradients in the network's outputs.
    """

    def outputs(network):
        return network(policy.scaling(found.states))

    def slope(x, low, high):
        return jax.jvp(lambda x: into_bounds(x, low, high), (x,), (jnp.ones_like(x),))[1]

    x, vjp = jax.vjp(outputs, policy.network)
    low, high = policy.bounds(found.states)
    slopes = slope(x, low, high)
    if inward > 0:
        least = inward * slope(jnp.zeros_like(x), low, high)
        slopes = jnp.where(found.gradients * x < 0, jnp.maximum(slopes, least), slopes)
    g = found.gradients * slopes
    strength = jnp.mean(jnp.sum(g**2, axis=-1), axis=1)
    shares = weights / math.prod(g.shape[:-1])
    return vjp(shares[:, None, None] * g)[0], strength
