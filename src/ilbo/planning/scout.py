"""A search for open-loop plans that needs no derivative: what gradients cannot see.

Goals behind a plateau, swings that must be built up, a narrow useful range within wide bounds: in
such problems a policy that learns by gradients stands still. A plan of a few knots in time, varied
as a whole and judged by what it earns on the exact model, finds the way in seconds. The search is
the separable natural evolution strategy (Wierstra et al., Natural evolution strategies, JMLR 2014)
with mirrored samples. It restarts when it has converged: anew with wider steps, or from the best
plan so far within a window of time, which refines it.
"""

from __future__ import annotations

import math
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from ilbo.mdp import sampling
from ilbo.mdp.bounds import into_bounds
from ilbo.mdp.problem import Problem
from ilbo.mdp.simulate import Trial, draw_noise, returns

KNOTS = 24
PAIRS = 32
"""Mirrored pairs of plans in a generation."""
EPISODES = 4
"""Episodes that each plan is judged on, along noise shared by all."""
WIDTHS = (1.0, 3.0, 0.1, 10.0, 0.3)
"""First step sizes of fresh rounds, before the curve that maps into the bounds."""
REFINING = (0.3, 1.0, 0.1)
"""Those of rounds that refine the best plan."""
CONVERGED = 0.02
"""Of the first step size: below it a round has converged."""
PATIENCE = 60
"""Generations without a better plan after which a round ends."""


class OpenLoop(eqx.Module):
    """A plan as a policy: an action for each step, whatever the state."""

    plan: Float[Array, "horizon m"]
    """Before the curve that maps it into the bounds."""
    problem: Problem
    timed = True

    def __call__(self, state: Float[Array, " n"], time: Int[Array, ""]) -> Float[Array, " m"]:
        return into_bounds(self.plan[time], *self.problem.exact.at(time).bounds(state))


class Round(eqx.Module):
    """A search under way: plans are base + weights · knots."""

    base: Float[Array, "horizon m"]
    weights: Float[Array, "horizon knots"]
    knots: Float[Array, "knots m"]
    widths: Float[Array, "knots m"]
    first_width: Float[Array, ""]
    best: Float[Array, "horizon m"]
    """The best plan of all rounds."""
    earned: Float[Array, ""]
    """Its mean return, on the search's own noise."""
    found: Float[Array, ""]
    """The best of this round."""
    idle: Int[Array, ""]
    """Generations since this round found a better one."""
    key: Key[Array, ""]


@eqx.filter_jit
def _search(
    problem: Problem, round: Round, noise: Float[Array, "horizon e k"], generations: Int[Array, ""]
) -> tuple[Round, Int[Array, ""]]:
    """So many generations, or as many as it takes to converge."""
    episodes = noise.shape[1]
    starts = jnp.broadcast_to(problem.initial_state, (episodes, problem.state_size))

    def earn(plan: Float[Array, "horizon m"]) -> Float[Array, ""]:
        mean = jnp.mean(returns(problem, OpenLoop(plan, problem), Trial(noise, starts)))
        return jnp.where(jnp.isnan(mean), -jnp.inf, mean)

    size = math.prod(round.knots.shape)
    count = 2 * PAIRS
    ranks = np.arange(count)
    utilities = np.maximum(0.0, np.log(count / 2 + 1) - np.log(ranks + 1))
    utilities = utilities / utilities.sum() - 1 / count
    rate = (3 + math.log(size)) / (5 * math.sqrt(size))

    def generation(carry: tuple[Array, Round]) -> tuple[Array, Round]:
        i, now = carry
        key, draw = jax.random.split(now.key)
        half = sampling.normal(draw, (PAIRS, *now.knots.shape))
        steps = jnp.concatenate([half, -half])
        tried = now.knots + now.widths * steps
        plans = now.base + jnp.einsum("hk,pkm->phm", now.weights, tried)
        earned = jax.vmap(earn)(plans)
        order = jnp.argsort(-earned)
        ranked = steps[order]
        move = jnp.einsum("p,pkm->km", utilities.astype(np.float32), ranked)
        spread = jnp.einsum("p,pkm->km", utilities.astype(np.float32), ranked**2 - 1)
        top, plan = earned[order[0]], plans[order[0]]
        better = top > now.earned
        return i + 1, Round(
            base=now.base,
            weights=now.weights,
            knots=now.knots + now.widths * move,
            widths=now.widths * jnp.exp(jnp.clip(rate / 2 * spread, -0.5, 0.5)),
            first_width=now.first_width,
            best=jnp.where(better, plan, now.best),
            earned=jnp.maximum(top, now.earned),
            found=jnp.maximum(top, now.found),
            idle=jnp.where(top > now.found, 0, now.idle + 1),
            key=key,
        )

    def goes_on(carry: tuple[Array, Round]) -> Array:
        i, now = carry
        return (i < generations) & ~_is_over(now)

    taken, done = jax.lax.while_loop(goes_on, generation, (jnp.array(0), round))
    return done, taken


def _is_over(round: Round) -> Array:
    """Whether the steps have become small, or long found nothing better."""
    converged = jnp.max(round.widths) <= CONVERGED * round.first_width
    return converged | (round.idle >= PATIENCE)


class Scout:
    """Searches for a plan, for some time at a time."""

    def __init__(self, problem: Problem, seed: int):
        key = jax.random.fold_in(jax.random.key(seed), 0x5C007)
        noise_key, self._key = jax.random.split(key)
        self.problem = problem
        self.transitions = 0
        """Steps of the model taken so far."""
        self._random = np.random.default_rng(seed)
        episodes = EPISODES if problem.exact.law.size else 1
        self._noise = draw_noise(problem.exact, noise_key, (problem.horizon, episodes))
        self._best = jnp.zeros((problem.horizon, problem.action_size), jnp.float32)
        self._earned = jnp.array(-jnp.inf, jnp.float32)
        self._rounds = 0
        self._round = self._next_round()
        self._pace = 1.0
        """Generations that a second is taken to hold, until that is known."""

    @property
    def plan(self) -> Float[Array, "horizon m"]:
        """The best plan so far, before the curve that maps it into the bounds."""
        return self._round.best

    @property
    def earned(self) -> float:
        """Its mean return on the search's own noise."""
        return float(self._round.earned)

    def search(self, seconds: float) -> None:
        """Goes on for about so long."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            began = time.perf_counter()
            asked = max(1, int(self._pace * min(left, 1.0)))
            self._round, taken = _search(self.problem, self._round, self._noise, jnp.array(asked))
            count = int(taken)
            self.transitions += count * 2 * PAIRS * self._noise.shape[1] * self.problem.horizon
            if count < asked or bool(_is_over(self._round)):
                self._round = self._next_round(self._round)
            took = time.perf_counter() - began
            if count == asked:  # else it converged on the way
                self._pace = count / took

    def _next_round(self, last: Round | None = None) -> Round:
        """Anew with other steps, or from the best plan, in a window of time that is drawn."""
        horizon, actions = self.problem.horizon, self.problem.action_size
        knots, random = min(KNOTS, horizon), self._random
        best = self._best if last is None else last.best
        earned = self._earned if last is None else last.earned
        fresh, turn = self._rounds % 2 == 0, self._rounds // 2
        self._rounds += 1
        base, first, last_step = jnp.zeros_like(best), 0.0, horizon - 1.0
        width = WIDTHS[turn % len(WIDTHS)]
        if not fresh:
            base, width = best, REFINING[turn % len(REFINING)]
            length = max(2.0, horizon * 0.5 ** random.integers(0, 4))
            first = random.uniform(-length / 2, horizon - length / 2)
            last_step = first + length
        self._key, key = jax.random.split(self._key)
        return Round(
            base=base,
            weights=jnp.asarray(_hats(horizon, first, last_step, knots)),
            knots=jnp.zeros((knots, actions), jnp.float32),
            widths=jnp.full((knots, actions), width, jnp.float32),
            first_width=jnp.array(width, jnp.float32),
            best=best,
            earned=earned,
            found=jnp.array(-jnp.inf, jnp.float32),
            idle=jnp.array(0),
            key=key,
        )


def _hats(horizon: int, first: float, last: float, knots: int) -> Float[np.ndarray, "horizon k"]:
    """Weights [horizon, knots] of linear interpolation between knots from `first` to `last`; steps
    beyond these have none."""
    at = (np.arange(horizon) - first) / max(last - first, 1e-9) * (knots - 1)
    hats = np.maximum(0.0, 1 - np.abs(at[:, None] - np.arange(knots)))
    return hats.astype(np.float32)
