"""A tighter limit: hindsight that pays for what it knows of the noise.

With perfect information a plan profits from noise that no policy can foresee. Each step of it is
charged what the noise itself was worth, by a value function V(s, steps left):

    r − γ ( V(s', h − 1) − E_ξ V(f(s, a, ξ), h − 1) ).

A policy does not see the noise, so the charges cost it nothing in the mean: the best plan in
hindsight still bounds every policy from above, whatever V is (information relaxation with a
penalty). The nearer V is to the optimal value function, the tighter; with that function itself, the
bound is the optimum. It is an estimate: a mean over drawn noise, of maxima found by an ascent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ilbo.baselines.limit import ROUNDS, STEPS, Limit, hindsight
from ilbo.errors import UserError
from ilbo.mdp.laws.law import Law
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Action, Noise, State
from ilbo.mdp.simulate import PolicyFunction, as_key, simulate

Value = Callable[[State, Int[Array, ""]], Float[Array, ""]]
"""(state [n], steps left) → what can still be earned."""

NODES = 256
"""Most points of a quadrature; where it would have more, the expectation is over draws."""
EPISODES = 4096
"""Episodes that `fit_value` learns from."""


def penalised_hindsight(
    problem: Problem,
    value: Value,
    key: Key[Array, ""] | int,
    episodes: int = 64,
    start: Any = None,
    draws: int = 32,
    steps: int = STEPS,
    rounds: int = ROUNDS,
    policies: Sequence[PolicyFunction] = (),
) -> Limit:
    """The hindsight limit with a penalty; `returns` are those with the charges.

    Args:
        problem: What to act in.
        value: V(state [n], steps left): what can still be earned, as a pure function. Any function
            gives a bound; near the optimal one it is tight.
        key, episodes, start, steps, rounds, policies: As in `hindsight`, on the same noise.
        draws: Of noise for the expectation of each step, where its law has too many components for
            a quadrature.
    """
    model = problem.exact
    try:
        points = max(p for p in range(1, 10) if p**model.law.size <= NODES)
        nodes, weights = model.law.quadrature(points) if points >= 3 else (None, None)
    except UserError:
        nodes, weights = None, None
    kind = Penalised
    if type(model).heuristic is not Model.heuristic:
        kind = PenalisedWithHeuristic
    charged = kind(
        model,
        value,
        problem.horizon,
        problem.discount,
        Redrawn(model.law, 0 if nodes is not None else draws),
        None if nodes is None else jnp.asarray(nodes, jnp.float32),
        None if weights is None else jnp.asarray(weights, jnp.float32),
    )
    state = problem.initial_state if start is None else problem.check_start(start)
    low, high = problem.region
    more = np.array([0.0, 0.0], np.float32)
    wide = Problem(
        charged,
        name=f"{problem.name}, penalised",
        initial_state=np.concatenate([state, more]),
        horizon=problem.horizon,
        discount=problem.discount,
        region=(np.concatenate([low, more]), np.concatenate([high, more])),
    )
    own = [Narrow(policy, problem.state_size) for policy in policies]
    return hindsight(wide, key, episodes, None, steps, rounds, own)


class Redrawn(Law):
    """A law, and further draws of it beside: the first components are drawn as the law's own."""

    law: Law
    draws: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        return self.law.size * (1 + self.draws)

    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*shape k"]:
        own = self.law.sample(key, shape)
        if not self.draws:
            return own
        further = self.law.sample(jax.random.fold_in(key, 1), (*shape, self.draws))
        return jnp.concatenate([own, further.reshape(*shape, -1)], axis=-1)

    def log_prob(self, noise: Float[Array, " k"]) -> Float[Array, " k"]:
        parts = noise.reshape(1 + self.draws, self.law.size)
        return jax.vmap(self.law.log_prob)(parts).ravel()

    def __str__(self) -> str:
        return f"{self.law}, {1 + self.draws} times"


class Penalised(Model):
    """A model whose rewards are charged. Its state is [s, steps taken, the last step's charge]."""

    model: Model
    value: Value
    horizon: int = eqx.field(static=True)
    discount: float = eqx.field(static=True)
    law: Redrawn
    nodes: Float[Array, "q k"] | None
    weights: Float[Array, " q"] | None

    def _now(self, state: State) -> Model:
        return self.model.at(state[-2].astype(jnp.int32))

    def transition(self, state: State, action: Action, noise: Noise) -> State:
        own, time = state[:-2], state[-2]
        k = self.law.law.size
        left = self.horizon - time.astype(jnp.int32) - 1

        def after(xi: Float[Array, " k"]) -> tuple[State, Float[Array, ""]]:
            moved = self._now(state).transition(own, action, xi)
            worth = jnp.where(left > 0, self.value(moved, jnp.maximum(left, 1)), 0.0)
            return moved, jnp.where(self.model.terminal(moved), 0.0, worth)

        moved, worth = after(noise[:k])
        if self.nodes is not None and self.weights is not None:
            mean = self.weights @ jax.vmap(after)(self.nodes)[1]
        else:
            mean = jnp.mean(jax.vmap(after)(noise[k:].reshape(-1, k))[1])
        charge = self.discount * (worth - mean)
        return jnp.concatenate([moved, jnp.stack([time + 1, charge])])

    def reward(self, state: State, action: Action, next_state: State) -> Float[Array, ""]:
        return self._now(state).reward(state[:-2], action, next_state[:-2]) - next_state[-1]

    def bounds(self, state: State) -> tuple[Action, Action]:
        return self._now(state).bounds(state[:-2])

    def terminal(self, state: State) -> Bool[Array, ""]:
        return self.model.terminal(state[:-2])


class PenalisedWithHeuristic(Penalised):
    """Of a model with a hand-written controller."""

    def heuristic(self, state: State) -> Action:
        return self._now(state).heuristic(state[:-2])


class Narrow(eqx.Module):
    """A policy of the plain model in the penalised one."""

    policy: PolicyFunction
    size: int = eqx.field(static=True)

    def __call__(self, state: State) -> Action:
        if getattr(self.policy, "timed", False):
            return self.policy(state[: self.size], state[self.size].astype(jnp.int32))
        return self.policy(state[: self.size])


class QuadraticValue(eqx.Module):
    """V(s, h) = w_h · φ(s): a quadratic function of the state for each number of steps left."""

    centre: State
    scale: State
    weights: Float[Array, "times features"]

    def __call__(self, state: State, steps_left: Int[Array, ""]) -> Float[Array, ""]:
        return features((state - self.centre) / self.scale) @ self.weights[steps_left]


def features(z: Float[Array | np.ndarray, "*b n"]) -> Float[Array, "*b f"]:
    """1, z_i and z_i z_j."""
    rows, columns = np.triu_indices(z.shape[-1])
    products = z[..., rows] * z[..., columns]
    return jnp.concatenate([jnp.ones_like(z[..., :1]), z, products], axis=-1)


def fit_value(
    problem: Problem,
    policy: PolicyFunction,
    key: Key[Array, ""] | int = 0,
    episodes: int = EPISODES,
    start: Any = None,
) -> QuadraticValue:
    """The value function of a policy, by regression of what it earns on the states it visits.

    A quadratic function of the state is fitted for each number of steps left, by ridge regression
    on simulated episodes that start around the given start, as far from it as the episodes of the
    policy itself wander in their first half.
    """
    middle = problem.initial_state if start is None else problem.check_start(start)
    key = as_key(key)
    wander_key, start_key, key = jax.random.split(key, 3)
    visited = np.asarray(simulate(problem, policy, wander_key, 256, start).states, float)
    spread = visited[:, : 1 + problem.horizon // 2].std(axis=(0, 1))
    away = spread * np.asarray(jax.random.normal(start_key, (episodes, problem.state_size)))
    low, high = problem.domain
    starts = np.clip(np.asarray(middle) + away, low, high)
    path = simulate(problem, policy, key, episodes, starts)
    states = np.asarray(path.states, np.float64)[:, :-1]
    alive = np.asarray(path.alive, bool)
    to_go = np.asarray(path.rewards, np.float64)
    for t in reversed(range(problem.horizon - 1)):
        to_go[:, t] += problem.discount * to_go[:, t + 1]
    centre, scale = states[alive].mean(axis=0), states[alive].std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    rows = [np.zeros(features(jnp.zeros(problem.state_size)).shape[0])]
    for left in range(1, problem.horizon + 1):
        t = problem.horizon - left
        phi = np.asarray(features((states[:, t] - centre) / scale), np.float64)[alive[:, t]]
        earned = to_go[alive[:, t], t]
        ridge = 1e-6 * max(len(phi), 1) * np.eye(phi.shape[1])
        ridge[0, 0] = 1e-9
        rows.append(np.linalg.solve(phi.T @ phi + ridge, phi.T @ earned))
    return QuadraticValue(
        jnp.asarray(centre, jnp.float32),
        jnp.asarray(scale, jnp.float32),
        jnp.asarray(np.stack(rows), jnp.float32),
    )
