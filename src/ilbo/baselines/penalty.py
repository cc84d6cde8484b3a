"""A tighter limit: hindsight that pays for what it knows of the noise.

With perfect information a plan profits from noise that no policy can foresee. Each step of it is
charged what the noise itself was worth, by a value function V(s, steps left):

    r − ( w(s') − E_ξ w(f(s, a, ξ)) ),   w(s') = r(s, a, s') + γ V(s', h − 1).

A policy does not see the noise, so the charges cost it nothing in the mean: the best plan in
hindsight still bounds every policy from above, whatever V is (information relaxation with a
penalty). The nearer V is to the optimal value function, the tighter; with that function itself, the
bound is the optimum. It is an estimate: a mean over drawn noise, of maxima found by an ascent.
"""

from __future__ import annotations

import dataclasses
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
from ilbo.mdp.outside import is_timed
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Action, Noise, State
from ilbo.mdp.simulate import PolicyFunction, as_key, simulate

Value = Callable[[State, Int[Array, ""]], Float[Array, ""]]
"""(state [n], steps left) → what can still be earned."""

NODES = 64
"""Most points of a quadrature; where it would have more, the expectation is over draws."""
DRAWS, MORE_DRAWS, FEW_COMPONENTS = 32, 64, 3
"""Of noise, for that expectation; more where the noise has no more than so many components."""
EPISODES = 4096
"""States that `fit_value` fits for each number of steps left."""
REACH = 0.1
"""How far these lie beyond what is visited at the time, as a share of what is visited at all."""


def penalised_hindsight(
    problem: Problem,
    value: Value,
    key: Key[Array, ""] | int,
    episodes: int = 64,
    start: Any = None,
    draws: int | None = None,
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
        draws: Of noise, for the expectation of each step, which are known to the plan as well. If
            None, the exact sum where the noise has few values, else 64 where it has few components
            and 32 where it has more. A quadrature would not do: a plan can live off its error.
    """
    own = [Narrow(policy) for policy in policies]
    return hindsight(charged(problem, value, start, draws), key, episodes, None, steps, rounds, own)


def charged(problem: Problem, value: Value, start: Any = None, draws: int | None = None) -> Problem:
    """The problem with each step charged for what its noise was worth (`Penalised`); the arguments
    are those of `penalised_hindsight`."""
    model = problem.exact
    nodes, weights = expectation(model.law) if model.law.discrete.all() else (None, None)
    count = draws or (MORE_DRAWS if model.law.size <= FEW_COMPONENTS else DRAWS)
    kind = Penalised
    if type(model).heuristic is not Model.heuristic:
        kind = PenalisedWithHeuristic
    penalised = kind(
        model,
        value,
        problem.horizon,
        problem.discount,
        Redrawn(model.law, 0 if nodes is not None else count),
        nodes,
        weights,
    )
    state = problem.initial_state if start is None else problem.check_start(start)
    low, high = problem.region
    more = np.zeros(1, np.float32)
    return Problem(
        penalised,
        name=f"{problem.name}, penalised",
        initial_state=np.concatenate([state, more]),
        horizon=problem.horizon,
        discount=problem.discount,
        region=(np.concatenate([low, more]), np.concatenate([high, more])),
    )


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
        further = in_pairs(self.law, jax.random.fold_in(key, 1), (*shape, self.draws))
        return jnp.concatenate([own, further.reshape(*shape, -1)], axis=-1)

    def log_prob(self, noise: Float[Array, " k"]) -> Float[Array, " k"]:
        parts = noise.reshape(1 + self.draws, self.law.size)
        return jax.vmap(self.law.log_prob)(parts).ravel()

    def __str__(self) -> str:
        return f"{self.law}, {1 + self.draws} times"


class Penalised(Model):
    """A model whose rewards are charged. Its state is [s, the last step's charge]."""

    model: Model
    value: Value
    horizon: int = eqx.field(static=True)
    discount: float = eqx.field(static=True)
    law: Redrawn
    nodes: Float[Array, "q k"] | None
    weights: Float[Array, " q"] | None
    time: Any = None

    @property
    def sees_time(self) -> bool:
        return True

    def at(self, time: Any) -> Model:
        return dataclasses.replace(self, model=self.model.at(time), time=time)

    def transition(self, state: State, action: Action, noise: Noise) -> State:
        own, k = state[:-1], self.law.law.size
        left = self.horizon - self.time - 1

        def after(xi: Float[Array, " k"]) -> tuple[State, Float[Array, ""]]:
            moved = self.model.transition(own, action, xi)
            later = jnp.where(left > 0, self.value(moved, jnp.maximum(left, 1)), 0.0)
            later = jnp.where(self.model.terminal(moved), 0.0, later)
            return moved, self.model.reward(own, action, moved) + self.discount * later

        moved, worth = after(noise[:k])
        if self.nodes is not None and self.weights is not None:
            mean = self.weights @ jax.vmap(after)(self.nodes)[1]
        else:
            mean = jnp.mean(jax.vmap(after)(noise[k:].reshape(-1, k))[1])
        return jnp.append(moved, worth - mean)

    def reward(self, state: State, action: Action, next_state: State) -> Float[Array, ""]:
        return self.model.reward(state[:-1], action, next_state[:-1]) - next_state[-1]

    def bounds(self, state: State) -> tuple[Action, Action]:
        return self.model.bounds(state[:-1])

    def terminal(self, state: State) -> Bool[Array, ""]:
        return self.model.terminal(state[:-1])


class PenalisedWithHeuristic(Penalised):
    """Of a model with a hand-written controller."""

    def heuristic(self, state: State) -> Action:
        return self.model.heuristic(state[:-1])


class Narrow(eqx.Module):
    """A policy of the plain model in the penalised one."""

    policy: PolicyFunction
    timed = True

    def __call__(self, state: State, time: Int[Array, ""]) -> Action:
        return self.policy(state[:-1], time) if is_timed(self.policy) else self.policy(state[:-1])


class QuadraticValue(eqx.Module):
    """V(s, h) = c_h + b_h · z + z · A_h z, z = (s − centre) / scale: a quadratic function of the
    state for each number of steps left."""

    centre: State
    scale: State
    c: Float[Array, " times"]
    b: Float[Array, "times n"]
    A: Float[Array, "times n n"]

    def __call__(self, state: State, steps_left: Int[Array, ""]) -> Float[Array, ""]:
        z = (state - self.centre) / self.scale
        h = steps_left
        return self.c[h] + self.b[h] @ z + z @ (self.A[h] @ z)

    def with_weights(self, h: int, weights: Float[np.ndarray, " f"]) -> QuadraticValue:
        """With other weights of the `features` where h steps are left."""
        n = len(self.centre)
        A = np.zeros((n, n))
        A[np.triu_indices(n)] = weights[n + 1 :]
        return eqx.tree_at(
            lambda v: (v.c, v.b, v.A),
            self,
            (
                self.c.at[h].set(float(weights[0])),
                self.b.at[h].set(jnp.asarray(weights[1 : n + 1], jnp.float32)),
                self.A.at[h].set(jnp.asarray((A + A.T) / 2, jnp.float32)),
            ),
        )


def features(z: Float[np.ndarray, "b n"]) -> Float[np.ndarray, "b f"]:
    """1, z_i and z_i z_j."""
    rows, columns = np.triu_indices(z.shape[-1])
    return np.concatenate([np.ones_like(z[:, :1]), z, z[:, rows] * z[:, columns]], axis=1)


def fit_value(
    problem: Problem,
    policy: PolicyFunction,
    key: Key[Array, ""] | int = 0,
    episodes: int = EPISODES,
    start: Any = None,
) -> QuadraticValue:
    """The value function of a policy, by regression, backwards in the number of steps left.

    A quadratic function of the state is fitted for each number of steps left to what one step of
    the policy earns and the function of one step less says of the state after it, in the mean over
    the noise. The states are those that the policy visits then, spread out to about twice as far.
    """
    key = as_key(key)
    visit_key, spread_key, key = jax.random.split(key, 3)
    path = simulate(problem, policy, visit_key, episodes, start)
    visited = np.asarray(path.states, np.float64)[:, :-1]
    everywhere = visited[np.asarray(path.alive, bool)]
    centre, scale = everywhere.mean(axis=0), everywhere.std(axis=0)
    reach = visited.std(axis=0) + REACH * scale  # [horizon, n]
    away = reach * np.asarray(jax.random.normal(spread_key, visited.shape))
    states = np.clip(visited + away, *(np.asarray(end) for end in problem.domain))
    scale = np.where(scale > 0, scale, 1.0)
    n, times = problem.state_size, problem.horizon + 1
    value = QuadraticValue(
        jnp.asarray(centre, jnp.float32),
        jnp.asarray(scale, jnp.float32),
        *(jnp.zeros((times, *shape)) for shape in ((), (n,), (n, n))),
    )
    nodes, weights = expectation(problem.exact.law)
    for left in range(1, problem.horizon + 1):
        t = problem.horizon - left
        here = jnp.asarray(states[:, t], jnp.float32)
        worth = _one_step(
            problem, policy, value, here, jnp.asarray(t), nodes, weights, jax.random.fold_in(key, t)
        )
        good = np.isfinite(np.asarray(worth))
        phi = features((states[good, t] - centre) / scale)
        ridge = 1e-6 * max(len(phi), 1) * np.eye(phi.shape[1])
        ridge[0, 0] = 1e-9
        earned = np.asarray(worth, np.float64)[good]
        value = value.with_weights(left, np.linalg.solve(phi.T @ phi + ridge, phi.T @ earned))
    return value


@eqx.filter_jit
def _one_step(
    problem: Problem,
    policy: PolicyFunction,
    value: QuadraticValue,
    states: Float[Array, "e n"],
    time: Int[Array, ""],
    nodes: Float[Array, "q k"] | None,
    weights: Float[Array, " q"] | None,
    key: Key[Array, ""],
) -> Float[Array, " e"]:
    """E_ξ [ r + γ V(s', steps left after) ] at the policy's action."""
    model = problem.exact.at(time)
    left = problem.horizon - time - 1

    def one(state: State, key: Key[Array, ""]) -> Float[Array, ""]:
        action = policy(state, time) if is_timed(policy) else policy(state)
        action = jnp.clip(action, *model.bounds(state))

        def outcome(xi: Float[Array, " k"]) -> Float[Array, ""]:
            moved = model.transition(state, action, xi)
            after = jnp.where(model.terminal(moved), 0.0, value(moved, left))
            return model.reward(state, action, moved) + problem.discount * after

        if nodes is not None and weights is not None:
            return weights @ jax.vmap(outcome)(nodes)
        return jnp.mean(jax.vmap(outcome)(in_pairs(model.law, key, (DRAWS,))))

    keys = jax.random.split(key, len(states))
    return jax.lax.map(lambda both: one(*both), (states, keys), batch_size=256)


def expectation(
    law: Law,
) -> tuple[Float[Array, "q k"] | None, Float[Array, " q"] | None]:
    """Nodes and weights of a quadrature, or None, None where it would have too many."""
    try:
        points = max(p for p in range(1, 10) if p**law.size <= NODES)
        if points < 3:
            return None, None
        nodes, weights = law.quadrature(points)
        if len(weights) > NODES:
            return None, None
    except UserError:
        return None, None
    return jnp.asarray(nodes, jnp.float32), jnp.asarray(weights, jnp.float32)


def in_pairs(law: Law, key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "*shape k"]:
    """Draws along the last axis of the shape; of a Gaussian each second is the one before with the
    other sign, so that what is odd in the noise has the mean 0 exactly."""
    *front, count = shape
    if not law.gaussian.all() or count % 2:
        return law.sample(key, shape)
    half = law.sample(key, (*front, count // 2))
    return jnp.concatenate([half, -half], axis=-2)
