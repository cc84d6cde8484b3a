"""What a policy sees of each component: itself, its neighbours, the whole, and the model's figures.

A component is one number of the state with the action that acts on it: a reservoir, a room, an
axis. Who its neighbours are comes from the model's derivatives, so like components are seen alike,
however many there are.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ilbo.errors import UserError
from ilbo.mdp.bounds import within
from ilbo.mdp.problem import Problem

PROBES = 8
"""States, actions and noises at which the model's derivatives are looked at."""
LEAST = 1e-6
"""Share of the largest influence below which there is none."""
REACH = 0.8
"""What a neighbour counts for less at each step further away, in the summaries of all of them."""
SHARPNESS = 4.0
"""Of what tells levels near either end of the region apart."""
LARGEST = 3.0
"""Figures are cut to this many standard deviations."""
UP, DOWN = 0, 2
"""Places in `Components.mixing` of the nearest that act on a component, and that it acts on."""


class NoComponents(UserError):
    """A problem whose actions and states do not correspond one to one."""


class Components(eqx.Module):
    """The n components of a problem, as arrays."""

    acts: Bool[Array, "n n"]
    """Whether component j (columns) acts on component i (rows) within a step."""
    mixing: Float[Array, "kinds n n"]
    """Weights of the others, see `mixings`."""
    figures: Float[Array, "n figures"]
    """What the model says of each component and of those next to it, in like sizes."""
    middle: Float[Array, " own"]
    """Mean of the model's own figures over the components trained on."""
    spread: Float[Array, " own"]
    """Their standard deviation; 0 where all are the same."""

    @classmethod
    def of(cls, problem: Problem, like: Components | None = None) -> Components:
        """Those of a problem.

        Args:
            problem: Its actions and the numbers of its state correspond one to one.
            like: Those that a policy was trained on, whose scale of the figures is taken over.
        """
        half = _half(problem)
        acts = _acts(problem, half)
        own = _own_figures(problem, half, acts)
        if like is not None and own.shape[1] != len(like.middle):
            raise UserError(
                f"The model of {problem.name} has {own.shape[1]} figures for each component, and "
                f"the policy knows {len(like.middle)}: it can go to problems of its model alone."
            )
        if like is None:  # in 32 bits, as they are kept
            middle, spread = (x.astype(np.float32) for x in (own.mean(axis=0), own.std(axis=0)))
            spread = np.where(spread > 1e-4 * np.abs(middle), spread, np.float32(0))
        else:
            middle, spread = np.asarray(like.middle), np.asarray(like.spread)
        scaled = (own - middle) / np.where(spread > 0, spread, np.inf)
        mixing = mixings(acts, half)
        near = [np.clip(scaled, -LARGEST, LARGEST)]
        near += [mixing[kind] @ near[0] for kind in (UP, DOWN)]
        sums = np.minimum(mixing.sum(axis=2).T, LARGEST)
        # Half their size: there are more of them than of what changes.
        figures = np.concatenate([*near, sums], axis=1) / 2
        return cls.built(acts, mixing, figures, middle, spread)

    @classmethod
    def built(cls, acts: np.ndarray, *floats: np.ndarray) -> Components:
        """Of arrays of NumPy's."""
        return cls(jnp.asarray(acts), *(jnp.asarray(x.astype(np.float32)) for x in floats))

    @property
    def inputs(self) -> int:
        """Numbers seen of each component."""
        return 7 + len(self.mixing) + self.figures.shape[1]

    def see(self, x: Float[Array, "*b n"]) -> Float[Array, "*b n inputs"]:
        """What is seen of each component of normalised states; first of all its own."""
        nearest = self.mixing[np.array([UP, DOWN])]
        ends = [jnp.exp(-SHARPNESS * (1 + x)), jnp.exp(-SHARPNESS * (1 - x))]
        near = [end @ weights.T for end in ends for weights in nearest]
        mixed = jnp.moveaxis(jnp.tensordot(x, self.mixing, axes=(-1, 2)), -2, -1)
        figures = jnp.broadcast_to(self.figures, (*x.shape, self.figures.shape[1]))
        moving = jnp.stack([x, *ends, *near], axis=-1)
        return jnp.concatenate([moving, mixed, figures.astype(x.dtype)], axis=-1)


def mixings(
    acts: Bool[np.ndarray, "n n"], half: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "kinds n n"]:
    """Weights [kinds, n, n] of the others, as a component sees them.

    The mean of those that act on it, of those one step further, and the same of those that it acts
    on; all of them up and down the graph, the near ones for more; the same of those up the graph as
    amounts in units of its own; the mean of all.
    """
    n = len(acts)
    up, down = (a / np.maximum(a.sum(axis=1, keepdims=True), 1) for a in (acts, acts.T))
    all_up, all_down = _reached(up), _reached(down)
    amounts = all_up * half[None, :] / half[:, None]
    mean = np.full((n, n), 1 / n)
    return np.stack([up, up @ up, down, down @ down, all_up, all_down, amounts, mean])


def _reached(step: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """(1 − γ) Σ_k γ^(k − 1) P^k from k = 1 on: weights of 1 in all at the most."""
    return (1 - REACH) * np.linalg.solve(np.eye(len(step)) - REACH * step, step)


def _half(problem: Problem) -> Float[np.ndarray, " n"]:
    """Half the width of the region, 1 where it has none; rounded as in `Scaling`."""
    low, high = (np.asarray(bound, np.float32) for bound in problem.region)
    half = (high - low) / np.float32(2)
    return np.where(half > 0, half, 1).astype(np.float64)


def _acts(problem: Problem, half: Float[np.ndarray, " n"]) -> Bool[np.ndarray, "n n"]:
    """Who acts on whom, by the derivatives of the transition at a few states and actions."""
    n, m = problem.state_size, problem.action_size
    if n != m or n == 1:
        raise NoComponents(
            f"{problem.name} has no like components: its {n} states and {m} actions do not "
            "correspond one to one."
            if n != m
            else f"{problem.name} has a single component, which shares with no other."
        )
    by_state, by_action = (np.asarray(x, np.float64) for x in _influences(problem))
    influence = by_state * half + by_action * half
    for i in np.flatnonzero(np.diag(by_action) == 0)[:1]:
        raise NoComponents(
            f"{problem.name} has no like components: {problem.action_names[i]} does not act on "
            f"{problem.state_names[i]}."
        )
    acts = influence / half[:, None] > LEAST * (influence / half[:, None]).max()
    np.fill_diagonal(acts, False)
    return acts


@eqx.filter_jit
def _influences(problem: Problem) -> tuple[Float[Array, "n n"], Float[Array, "n n"]]:
    """Sums over probes of the sizes of ∂s'/∂s and ∂s'/∂a, [n, n] each."""
    model = problem.model

    def add(sums: Any, probe: tuple[Array, ...]) -> tuple[Any, None]:
        unit, action_unit, noise, time = probe
        now = model.at(time)
        state = problem.in_region(unit)
        action = within(*now.bounds(state), action_unit)
        found = jax.jacfwd(now.transition, argnums=(0, 1))(state, action, noise)
        sizes = (jnp.where(jnp.isfinite(x), jnp.abs(x), 0.0) for x in found)
        return tuple(s + x for s, x in zip(sums, sizes, strict=True)), None

    n = problem.state_size
    units = np.random.default_rng(0).uniform(size=(2, PROBES, n)).astype(np.float32)
    noises = jax.vmap(model.noise)(jax.random.split(jax.random.key(0), PROBES))
    times: Int[Array, " probes"] = jnp.arange(PROBES) % problem.horizon
    probes = (*map(jnp.asarray, units), noises, times)
    return jax.lax.scan(add, (jnp.zeros((n, n)), jnp.zeros((n, n))), probes)[0]


def _own_figures(
    problem: Problem, half: Float[np.ndarray, " n"], acts: Bool[np.ndarray, "n n"]
) -> Float[np.ndarray, "n own"]:
    """The model's vectors with a number for each component, as they are and in units of the region;
    the region; how many others act on it and how many it acts on."""
    leaves = [
        np.asarray(leaf, np.float64)
        for leaf in jax.tree.leaves(problem.model)
        if eqx.is_inexact_array(leaf) and leaf.shape == half.shape
    ]
    low, high = (np.asarray(bound, np.float64) for bound in problem.region)
    region = [half, (low + high) / half]
    others = [acts.sum(axis=1).astype(float), acts.sum(axis=0).astype(float)]
    found = [*leaves, *(leaf / half for leaf in leaves), *region, *others]
    return np.stack(found, axis=1)
