"""The critic's slope beside the model's derivatives, by as much as it proves to be worth.

Both estimate the gradient of the bound in the action. The model's derivatives are exact where the
model is smooth. They say nothing in a dead zone, where the action has no effect for now (a release
of more than there is), and mislead at an edge, whose other side they cannot see. The critic has
seen both sides, but its slope is the slope of a fit. So actions are tried out, and the share of the
critic's slope is what explains best what they really add to the return.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ilbo.mdp.shapes import Number
from ilbo.planning.estimators.point import ActionGradient, Point, Sample

TRIED = 8
"""Sampled states at which an action is tried out."""
EVERY = 4
"""Updates from one try to the next."""
MEMORY = 0.99
"""Of the evidence, from one try to the next."""
SURE = 3.0
"""Standard errors by which the evidence must speak for the critic."""


def gather(
    evidence: Float[Array, "3"],
    place: Int[Array, ""],
    point: Point,
    samples: Sample,
    estimate: ActionGradient,
    actions: Float[Array, "b m"],
) -> Float[Array, "3"]:
    """Running means of what `try_out` finds, at every few steps.

    Args:
        evidence: So far.
        place: The step's, in its segment.
        point: Where the bound touches.
        samples: The states of this update, with a leading axis [b].
        estimate: The estimator's gradients there.
        actions: Actions that were taken there while exploring.
    """
    few = jax.tree.map(lambda x: x[:TRIED], (samples, estimate, actions))

    def more() -> Float[Array, "3"]:
        found = jnp.mean(jax.vmap(lambda *one: try_out(point, *one))(*few), axis=0)
        found = jnp.append(found, found[0] ** 2)
        sound = jnp.all(jnp.isfinite(found))
        found = jnp.where(sound, MEMORY * evidence + (1 - MEMORY) * found, evidence)
        return found.astype(evidence.dtype)

    return jax.lax.cond(place % EVERY == 0, more, lambda: evidence)


def try_out(
    point: Point, sample: Sample, estimate: ActionGradient, action: Float[Array, " m"]
) -> Float[Array, "2"]:
    """Evidence on the share: what a change δ of the first action really adds to the return.

    The model is rolled again along the same noise with the action in the place of the policy's, and
    with the opposite change: half the difference is Δ, free of curvature. With y = Δ − g·δ, what
    the model's gradient leaves unsaid, and x = (∇_a Q − g)·δ, the share that explains most of it is
    E[x y] / E[x²]. Returns (x y, x²).
    """
    state, left, noise = sample.state, sample.steps_left, sample.noise[0]
    own = point.policy(state, left)
    low, high = point.at(left).bounds(state)
    room = jnp.minimum(own - low, high - own)
    change = jnp.clip(action - own, -room, room)

    def value(sign: Array) -> Array:
        nudges = jnp.zeros((len(noise), len(change))).at[0].set(sign * change)
        return point.follow(state, left, noise, nudges)[0]

    up, down = jax.vmap(value)(jnp.array([1.0, -1.0]))
    g, q = estimate.gradients[0], _slope(point, state, left)
    x = jnp.sum((q - g) * change)
    y = (up - down) / 2 - jnp.sum(g * change)
    return jnp.stack([x * y, x * x])


def weigh(evidence: Float[Array, "3"], most: Number, least: Number = 0.0) -> Float[Array, ""]:
    """The share that the evidence surely speaks for, from `least` to `most`."""
    both, square, squared = evidence
    tries = (1 + MEMORY) / (1 - MEMORY)
    error = jnp.sqrt(jnp.maximum(squared - both**2, 0.0) / tries)
    return jnp.clip((both - SURE * error) / jnp.maximum(square, 1e-30), least, most)


def blend(point: Point, estimate: ActionGradient, share: Float[Array, ""]) -> ActionGradient:
    """(1 − c) g + c ∇_a Q for a share c; ∇_a Q alone in components where g is 0 at every state.

    Such a component sits in a dead zone. Where g is 0 at some states only, it may well be right.
    The estimate has leading axes [b, k].
    """
    g, lefts = estimate.gradients, estimate.steps_left
    alive = (lefts > 0)[..., None]
    dead = jnp.all(g == 0, axis=(0, 1))

    def mixed() -> Array:
        slopes = jax.vmap(jax.vmap(lambda s, left: _slope(point, s, left)))(estimate.states, lefts)
        both = jnp.where(dead, slopes, (1 - share) * g + share * slopes)
        return jnp.where(alive & jnp.isfinite(slopes), both, g).astype(g.dtype)

    wanted = (share > 0) | jnp.any(dead)
    return estimate._replace(gradients=jax.lax.cond(wanted, mixed, lambda: g))


def _slope(point: Point, state: Float[Array, " n"], left: Int[Array, ""]) -> Float[Array, " m"]:
    """∇_a Q(s, μ(s))."""
    return jax.grad(point.critic, argnums=1)(state, point.policy(state, left), left)
