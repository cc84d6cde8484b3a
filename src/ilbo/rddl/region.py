"""A start region for problems that name none.

RDDL fixes one initial state. Training also starts elsewhere, and the networks' inputs are scaled by
the region, so it should hold the states that policies reach. It is found by simulation: episodes of
policies that each hold the action at a fixed fraction of its bounds (the lowest, the middle, the
highest, and random ones), and of policies that draw it anew at each step. The region

- takes an action without a bound to be of the size at which constant actions earn most (`_sizes`);
- reaches from the 5th to the 95th percentile of the states visited in the first 40 steps; where a
  tenth of the action range keeps a component to less than a thousandth of that, large actions make
  the system run away, and the region is that of the smaller ones;
- is widened to hold the initial state,
- is at most one turn wide for an angle, that is, a fluent whose sine, cosine or tangent is taken,
- and is cut to the bounds that the state invariants give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ilbo.mdp.bounds import within
from ilbo.mdp.shapes import Action, Noise, State
from ilbo.mdp.simulate import draw_noise
from ilbo.rddl.model import RDDLModel
from ilbo.rddl.parsing import fluents, parts

EPISODES, STEPS = 64, 40
PERCENTILES = (5, 95)
GENTLE, RUNAWAY = 0.1, 1000
DRAWS = 32
"""Random constant actions of each size."""
POWERS = (0, 15)
"""Sizes are powers of two from the first to below the last."""


def estimate(
    model: RDDLModel, horizon: int
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Lowest and highest start state."""
    initial = model.dynamics.initial()
    visit = _visits(model, initial, min(horizon, STEPS), _sizes(model, initial, horizon))
    low, high = np.percentile(visit(1.0), PERCENTILES, axis=0)
    bottom, top = np.percentile(visit(GENTLE), PERCENTILES, axis=0)
    if np.any((high - low > RUNAWAY * (top - bottom)) & (top - bottom > 1e-6)):
        low, high = bottom, top
    low, high = np.minimum(low, initial), np.maximum(high, initial)
    turning = _angles(model) & (high - low > 2 * np.pi)
    low, high = np.where(turning, initial - np.pi, low), np.where(turning, initial + np.pi, high)
    # A component that never moves is given the scale of its value.
    still = high - low <= 1e-6 * (1 + np.abs(initial))
    width = np.maximum(1.0, np.abs(initial)) / 2
    low, high = np.where(still, low - width, low), np.where(still, high + width, high)
    floor, ceiling = model.rules.domain
    low, high = np.maximum(low, floor), np.minimum(high, ceiling)
    return np.minimum(low, high), np.maximum(low, high)


def _sizes(model: RDDLModel, initial: Float[np.ndarray, " n"], horizon: int) -> Float[Array, " m"]:
    """How large actions are that lack a bound: for each action fluent, the power of two up to which
    random constant actions earn most, the best quarter of them."""
    layout = model.dynamics.action
    sizes = np.ones(layout.size, np.float32)
    low, high = (np.asarray(end) for end in model.bounds(jnp.asarray(initial)))
    open_ = ~(np.isfinite(low) & np.isfinite(high))
    if not open_.any():
        return jnp.asarray(sizes)
    random = np.random.default_rng(0)
    fractions = jnp.asarray(random.uniform(size=(DRAWS, layout.size)), jnp.float32)
    noise = draw_noise(model, jax.random.key(1), (horizon, DRAWS))
    tried = np.float32(2.0) ** np.arange(*POWERS)

    @jax.jit
    def earn(sizes: Float[Array, "tried m"]) -> Float[Array, " tried"]:
        def episode(size: Action, fraction: Action, noise: Float[Array, "steps k"]) -> Array:
            def step(
                carry: tuple[State, Array, Array], xi: Noise
            ) -> tuple[tuple[State, Array, Array], None]:
                state, total, over = carry
                action = within(*model.bounds(state), fraction, size)
                following = model.transition(state, action, xi).astype(state.dtype)
                total += jnp.where(over, 0.0, model.reward(state, action, following))
                return (following, total, over | model.terminal(following)), None

            start = jnp.asarray(initial), jnp.zeros(()), jnp.array(False)
            total = jax.lax.scan(step, start, noise)[0][1]
            return jnp.where(jnp.isfinite(total), total, -jnp.inf)

        each = jax.vmap(episode, in_axes=(None, 0, 1))
        earned = jax.vmap(lambda size: jnp.sort(each(size, fractions, noise)))(sizes)
        return jnp.mean(earned[:, -(DRAWS // 4) :], axis=1)

    owner = np.repeat(np.arange(len(layout.fluents)), [f.size for f in layout.fluents])
    for i in 2 * list(range(len(layout.fluents))):
        group = owner == i
        if open_[group].any():
            candidates = np.tile(sizes, (len(tried), 1))
            candidates[:, group] = tried[:, None]
            earned = np.asarray(earn(jnp.asarray(candidates)))
            if np.isfinite(earned).any():
                sizes[group] = tried[int(np.argmax(earned))]
    return jnp.asarray(sizes)


def _visits(
    model: RDDLModel,
    initial: Float[np.ndarray, " n"],
    steps: int,
    sizes: Float[Array, " m"],
) -> Callable[[float], Float[np.ndarray, "visits n"]]:
    """A share of the action range, about its middle ↦ states reached with it.

    An episode that ends, or has a state that is not finite, stays where it is.
    """
    noise = draw_noise(model, jax.random.key(0), (steps, EPISODES))
    draw, size = np.random.default_rng(0), model.dynamics.action.size
    fractions = draw.uniform(size=(steps, EPISODES, size)).astype(np.float32)
    fractions[:, : EPISODES // 2] = fractions[0, : EPISODES // 2]
    fractions[:, :3] = np.array([0.0, 0.5, 1.0])[:, None]

    @jax.vmap
    def move(state: State, fraction: Action, xi: Noise) -> State:
        low, high = model.bounds(state)
        following = model.transition(state, within(low, high, fraction, sizes), xi)
        good = ~model.terminal(state) & jnp.all(jnp.isfinite(following))
        return jnp.where(good, following, state)

    @jax.jit
    def run(
        starts: Float[Array, "episodes n"],
        fractions: Float[Array, "steps episodes m"],
        noise: Float[Array, "steps episodes k"],
    ) -> Float[Array, "steps episodes n"]:
        def step(
            states: Float[Array, "episodes n"],
            inputs: tuple[Float[Array, "episodes m"], Float[Array, "episodes k"]],
        ) -> tuple[Float[Array, "episodes n"], Float[Array, "episodes n"]]:
            states = move(states, *inputs)
            return states, states

        return jax.lax.scan(step, starts, (fractions, noise))[1]

    starts = np.broadcast_to(initial, (EPISODES, initial.size))

    def visit(share: float) -> Float[np.ndarray, "visits n"]:
        states = run(starts, 0.5 + np.float32(share) * (fractions - 0.5), noise)
        return np.asarray(states, np.float64).reshape(-1, initial.size)

    return visit


def _angles(model: RDDLModel) -> Bool[np.ndarray, " n"]:
    """Which state components are angles."""
    rddl: Any = model.dynamics.compiler.rddl
    turned: set[str] = set()
    for _, expression in rddl.cpfs.values():
        for part in parts(expression):
            if part.etype in (("func", "sin"), ("func", "cos"), ("func", "tan")):
                turned |= {name.rstrip("'") for name in fluents(rddl, part)}
    layout = model.dynamics.state
    return np.concatenate([np.full(f.size, f.name in turned) for f in layout.fluents])
