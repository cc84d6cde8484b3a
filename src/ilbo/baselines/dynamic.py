"""The optimum of a small problem, by dynamic programming on a grid of states.

Backwards in the number of steps left, V_0 = 0 and

    V_h(s) = max_a E_ξ [ r(s, a, s') + γ V_{h−1}(s') ],   s' = f(s, a, ξ),

at the points of a grid over a box of states. V_{h−1} between the points is by cubic interpolation
(outside the box, the value at its nearest side), the expectation by the quadrature of the noise's
law, the maximum by a grid of actions that is refined around its best point. Everything is exact but
for these three, whose errors vanish with finer grids: `optimum` solves on several grids, and with
two quadratures, and gives the differences as the error. Work grows with the power of the number of
state components, so there may be three at most.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ilbo.baselines.open_loop import evaluation_noise
from ilbo.errors import UserError
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Action, Noise, State
from ilbo.mdp.simulate import PolicyFunction, as_key, discounted_sum, step

MOST_COMPONENTS = 3
ACTIONS = 9
"""Actions tried in each component at first."""
REFINEMENTS = 6
"""Times that a grid of five actions a component is laid around the best, half as wide each time."""
NOISES = 5
"""Points of the quadrature in each noise component."""
TOGETHER = 64
"""States that are worked on side by side."""


class Grid(eqx.Module):
    """A regular grid over a box of states. Values on it carry a margin of one point all round."""

    low: State
    high: State
    points: int = eqx.field(static=True)
    """In each component."""

    @property
    def states(self) -> Float[Array, "all n"]:
        units = np.linspace(0, 1, self.points, dtype=np.float32)
        every = np.stack(np.meshgrid(*[units] * len(self.low), indexing="ij"), axis=-1)
        return self.low + every.reshape(-1, len(self.low)) * (self.high - self.low)

    def with_margin(self, values: Float[Array, " all"]) -> Float[Array, " wide"]:
        """The margin continues the quadratic through the last three points."""
        table = values.reshape((self.points,) * len(self.low))
        for axis in range(table.ndim):
            line = jnp.moveaxis(table, axis, 0)
            before = 3 * line[0] - 3 * line[1] + line[2]
            after = 3 * line[-1] - 3 * line[-2] + line[-3]
            table = jnp.moveaxis(jnp.concatenate([before[None], line, after[None]]), 0, axis)
        return table.ravel()

    def interpolate(self, table: Float[Array, " wide"], state: State) -> Float[Array, ""]:
        """Cubic convolution (Keys, 1981): exact for quadratic functions, once differentiable."""
        place = (state - self.low) / (self.high - self.low) * (self.points - 1)
        place = jnp.clip(place, 0.0, self.points - 1.0)
        cell = jnp.clip(jnp.floor(place), 0, self.points - 2)
        first = cell.astype(jnp.int32)
        weights = _cubic(place - cell)
        n = len(self.low)
        strides = [(self.points + 2) ** i for i in reversed(range(n))]
        corners = np.array(list(itertools.product(range(4), repeat=n)))
        places = jnp.sum((first + corners) * np.array(strides), axis=1)
        products = jnp.prod(weights[np.arange(n), corners], axis=1)
        return jnp.sum(table[places] * products)


def _cubic(t: Float[Array, " n"]) -> Float[Array, "n 4"]:
    """Weights of the four points around a place that lies t after the second of them."""
    return jnp.stack(
        [
            -t / 2 + t**2 - t**3 / 2,
            1 - 5 * t**2 / 2 + 3 * t**3 / 2,
            t / 2 + 2 * t**2 - 3 * t**3 / 2,
            -(t**2) / 2 + t**3 / 2,
        ],
        axis=-1,
    )


class Lookahead(eqx.Module):
    """The best action of one step where the value of what follows is known."""

    model: Model
    discount: float
    nodes: Float[Array, "q k"]
    weights: Float[Array, " q"]
    actions: int = eqx.field(static=True)

    def worth(
        self, value: Callable[[State], Float[Array, ""]], state: State, action: Action
    ) -> Float[Array, ""]:
        """E_ξ [ r + γ V(s') ]."""

        def one(noise: Float[Array, " k"]) -> Float[Array, ""]:
            moved = self.model.transition(state, action, noise)
            after = jnp.where(self.model.terminal(moved), 0.0, value(moved))
            return self.model.reward(state, action, moved) + self.discount * after

        return self.weights @ jax.vmap(one)(self.nodes)

    def best(
        self, value: Callable[[State], Float[Array, ""]], state: State
    ) -> tuple[Action, Float[Array, ""]]:
        """The best action and its worth."""
        low, high = self.model.bounds(state)
        size = len(low)

        def choose(centre: Action, width: Action, points: int) -> tuple[Action, Float[Array, ""]]:
            units = np.linspace(-1, 1, points)
            shifts = np.stack(np.meshgrid(*[units] * size), axis=-1).reshape(-1, size)
            tried = jnp.clip(centre + jnp.asarray(shifts, jnp.float32) * width, low, high)
            worths = jax.vmap(lambda action: self.worth(value, state, action))(tried)
            top = jnp.argmax(worths)
            return tried[top], worths[top]

        width = (high - low) / 2
        action, worth = choose((low + high) / 2, width, self.actions)
        width = width * (2 / (self.actions - 1))
        for _ in range(REFINEMENTS):
            action, worth = choose(action, width, 5)
            width = width / 2
        return action, worth


class GridPolicy(eqx.Module):
    """The best action where a number of steps is left, by looking one step ahead on the grid.

    With `left` None it sees the time; with a number it acts as if so many steps were always left.
    """

    grid: Grid
    tables: Float[Array, "times wide"]
    """V_h for h = 0 to the horizon."""
    actions: Float[Array, "horizon all m"]
    """The best action at each point of the grid, for h = 1 to the horizon."""
    ahead: Lookahead
    left: int | None = eqx.field(static=True, default=None)

    @property
    def timed(self) -> bool:
        return self.left is None

    def value(self, state: State, steps_left: Int[Array, ""] | int) -> Float[Array, ""]:
        """V(s) with so many steps left."""
        return self.grid.interpolate(self.tables[steps_left], state)

    def __call__(self, state: State, time: Int[Array, ""] | int | None = None) -> Action:
        """Args: state [n]; time: steps taken so far, where the policy sees it."""
        if self.left is not None:
            left: Any = self.left
        else:
            left = jnp.clip(len(self.tables) - 1 - jnp.asarray(time), 1, len(self.tables) - 1)
        return self.ahead.best(lambda s: self.value(s, left - 1), state)[0]


@dataclass(frozen=True)
class Optimum:
    """The optimum of a problem from a start state."""

    value: float
    """The optimum with the time left seen, on the finest grid."""
    error: float
    """About how far that may be off: its difference to that of the grid before, and what two more
    points of the quadrature change there."""
    policy: GridPolicy
    """A best policy. It is `timed`: called with the state and the steps taken so far."""
    stationary_value: float
    """What `stationary` earns, on the finest grid."""
    stationary: GridPolicy
    """The best of the policies that act as if always the same number of steps were left. The best
    of all policies that do not see the time earns at least as much."""
    values: dict[int, float]
    """The optimum on each grid, by its points."""


def optimum(
    problem: Problem,
    grids: Sequence[int] = (21, 41, 81),
    box: tuple[Any, Any] | None = None,
    start: Any = None,
    noises: int = NOISES,
    actions: int = ACTIONS,
) -> Optimum:
    """The optimum of a problem with up to three state components.

    Args:
        problem: With finite action bounds, and a law of noise that has a quadrature.
        grids: Points in each state component, the coarsest grid first; at least two.
        box: Lowest and highest state of the grid; the problem's region if None. It should hold
            nearly all states that good policies visit.
        start: A start state [n]; the problem's own if None.
        noises: Points of the quadrature in each noise component.
        actions: Actions tried in each component before the refinement.
    """
    state = problem.initial_state if start is None else problem.check_start(start)
    if len(grids) < 2 or min(grids) < 5 or list(grids) != sorted(set(grids)):
        raise UserError(f"grids must be two or more sizes of at least 5 that grow, got {grids}.")
    values = {}
    for points in grids:
        policy = solve(problem, points, box, noises, actions)
        values[points] = float(policy.value(state, problem.horizon))
    finest, before = values[grids[-1]], values[grids[-2]]
    finer_noise = solve(problem, grids[-2], box, noises + 2, actions)
    by_noise = abs(float(finer_noise.value(state, problem.horizon)) - before)
    stationary = np.asarray(_as_if_always_left(policy, state))
    left = int(np.argmax(stationary)) + 1
    return Optimum(
        value=finest,
        error=abs(finest - before) + by_noise,
        policy=policy,
        stationary_value=float(stationary.max()),
        stationary=dataclasses.replace(policy, left=left),
        values=values,
    )


def solve(
    problem: Problem,
    points: int,
    box: tuple[Any, Any] | None = None,
    noises: int = NOISES,
    actions: int = ACTIONS,
) -> GridPolicy:
    """The recursion on one grid; the arguments are those of `optimum`."""
    n = problem.state_size
    if n > MOST_COMPONENTS:
        raise UserError(
            f"Dynamic programming on a grid takes problems of up to {MOST_COMPONENTS} state "
            f"components, but {problem.name} has {n}."
        )
    if problem.sees_time:
        raise UserError(
            f"Dynamic programming on a grid takes models without the time, which {problem.name} "
            "sees: give it a clock as a state component instead."
        )
    low, high = problem.region if box is None else box
    low, high = (jnp.broadcast_to(jnp.asarray(end, jnp.float32), (n,)) for end in (low, high))
    if not bool(jnp.all(low < high)):
        raise UserError("The box of the grid must be higher than low in each state component.")
    grid = Grid(low, high, points)
    if not all(bool(jnp.all(jnp.isfinite(end))) for end in problem.exact.bounds(low)):
        raise UserError(
            f"Dynamic programming on a grid needs finite action bounds, which {problem.name} "
            "does not have."
        )
    nodes, weights = problem.exact.law.quadrature(noises)
    ahead = Lookahead(
        problem.exact,
        problem.discount,
        jnp.asarray(nodes, jnp.float32),
        jnp.asarray(weights, jnp.float32),
        actions,
    )
    return GridPolicy(grid, *_recursion(ahead, grid, problem.horizon), ahead)


@eqx.filter_jit
def _recursion(
    ahead: Lookahead, grid: Grid, horizon: int
) -> tuple[Float[Array, "times wide"], Float[Array, "horizon all m"]]:
    """V_h for h = 0 to the horizon, and the best actions at the grid's points for h = 1 on."""
    states = grid.states
    ended = jax.vmap(ahead.model.terminal)(states)

    def back(table: Float[Array, " wide"], _: None) -> tuple[Array, tuple[Array, Array]]:
        def one(state: State) -> tuple[Action, Float[Array, ""]]:
            return ahead.best(lambda s: grid.interpolate(table, s), state)

        actions, values = jax.lax.map(one, states, batch_size=TOGETHER)
        table = grid.with_margin(jnp.where(ended, 0.0, values))
        return table, (table, actions)

    none = grid.with_margin(jnp.zeros(len(states)))
    _, (tables, actions) = jax.lax.scan(back, none, length=horizon)
    return jnp.concatenate([none[None], tables]), actions


@eqx.filter_jit
def _as_if_always_left(policy: GridPolicy, start: State) -> Float[Array, " horizon"]:
    """What the policies earn that act as if always 1, 2, ... steps were left."""
    grid, ahead, states = policy.grid, policy.ahead, policy.grid.states
    ended = jax.vmap(ahead.model.terminal)(states)

    def earned(actions: Float[Array, "all m"]) -> Float[Array, ""]:
        def back(table: Float[Array, " wide"], _: None) -> tuple[Array, None]:
            def one(inputs: tuple[State, Action]) -> Float[Array, ""]:
                return ahead.worth(lambda s: grid.interpolate(table, s), *inputs)

            values = jax.lax.map(one, (states, actions), batch_size=16 * TOGETHER)
            return grid.with_margin(jnp.where(ended, 0.0, values)), None

        none = grid.with_margin(jnp.zeros(len(states)))
        table, _ = jax.lax.scan(back, none, length=len(policy.actions))
        return grid.interpolate(table, start)

    return jax.lax.map(earned, policy.actions)


def earned(
    problem: Problem,
    policy: PolicyFunction,
    key: Key[Array, ""] | int,
    episodes: int = 64,
    start: Any = None,
) -> Float[np.ndarray, " episodes"]:
    """Discounted returns of a policy that may see the time, on the noise of `evaluate`."""
    state = problem.initial_state if start is None else problem.check_start(start)
    noise = evaluation_noise(problem, as_key(key), episodes)
    return np.asarray(_play(problem, policy, noise, state), np.float64)


@eqx.filter_jit
def _play(
    problem: Problem, policy: PolicyFunction, noise: Float[Array, "e horizon k"], start: State
) -> Float[Array, " e"]:
    timed = getattr(policy, "timed", False)

    def episode(xis: Float[Array, "horizon k"]) -> Float[Array, " horizon"]:
        def one(
            carry: tuple[State, Bool[Array, ""]], inputs: tuple[Int[Array, ""], Noise]
        ) -> tuple[tuple[State, Bool[Array, ""]], Float[Array, ""]]:
            state, alive = carry
            time, xi = inputs
            action = policy(state, time) if timed else policy(state)
            now = problem.exact.at(time)
            action = jnp.clip(action, *now.bounds(state))
            moved, reward, still = step(now, state, action, xi, alive)
            return (moved, still), reward

        first = (start, ~problem.exact.terminal(start))
        return jax.lax.scan(one, first, (jnp.arange(problem.horizon), xis))[1]

    rewards = jax.lax.map(episode, noise, batch_size=TOGETHER)
    return discounted_sum(problem, rewards)
