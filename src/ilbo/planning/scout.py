"""A search for open-loop plans that needs no derivative: what gradients cannot see.

Goals behind a plateau, swings that must be built up, a narrow useful range within wide bounds: in
such problems a policy that learns by gradients stands still. A plan of a few knots in time, varied
as a whole and judged by what it earns on the exact model, finds the way in seconds. The search is
the separable natural evolution strategy (Wierstra et al., Natural evolution strategies, JMLR 2014)
with mirrored samples. It restarts when it has converged: anew with wider steps, or from the best
plan so far within a window of time, which refines it.

An action without a bound may be of any size, so the search takes steps in its logarithm, as it
were, and begins with constant plans: what is found there tells the size.

Without noise the best plans graze what they must not touch, and a rounding error ends them. So
actions are shaken a little in such problems: otherwise in each generation, and the best plan is
the best of a few shakes.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

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


CONSTANT = 3.0
"""That of a first round of constant plans, where actions lack a bound."""


SHAKE = 1e-3
"""Standard deviation of what is added to actions without noise, as a share of them."""
SHAKES = 8
"""Shakes that the best plan is judged by."""


class OpenLoop(eqx.Module):
    """A plan as a policy: an action for each step, whatever the state."""

    plan: Float[Array, "horizon m"]
    """Before the curve that maps it into the bounds."""
    problem: Problem
    shake: Float[Array, "horizon m"] | None = None
    """Added to the actions, in shares of them."""
    timed = True

    def __call__(self, state: Float[Array, " n"], time: Int[Array, ""]) -> Float[Array, " m"]:
        low, high = self.problem.exact.at(time).bounds(state)
        action = into_bounds(self.plan[time], low, high)
        if self.shake is None:
            return action
        return jnp.clip(action * (1 + self.shake[time]), low, high)


class Open(NamedTuple):
    """The sides on which actions have no bound."""

    below: Bool[Array, " m"]
    above: Bool[Array, " m"]

    @classmethod
    def of(cls, problem: Problem) -> Open:
        low, high = problem.exact.at(jnp.zeros((), jnp.int32)).bounds(problem.initial_state)
        return cls(~jnp.isfinite(low), ~jnp.isfinite(high))

    @property
    def either(self) -> Bool[Array, " m"]:
        return self.below | self.above

    def stretch(self, plan: Float[Array, "*h m"]) -> Float[Array, "*h m"]:
        """A plan of the search's as a policy has it: near 0, and towards a bound, the same; else
        steps of a factor further out."""
        return jnp.where(jnp.where(plan > 0, self.above, self.below), jnp.sinh(plan), plan)


class Round(eqx.Module):
    """A search under way: plans, not yet stretched, are base + weights · knots."""

    base: Float[Array, "horizon m"]
    weights: Float[Array, "horizon knots"]
    knots: Float[Array, "knots m"]
    widths: Float[Array, "knots m"]
    first_width: Float[Array, ""]
    rate: Float[Array, ""]
    """At which the widths learn."""
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
    open_sides = Open.of(problem)
    shaken = problem.exact.law.size == 0
    starts = jnp.broadcast_to(problem.initial_state, (episodes, problem.state_size))

    def earn(plan: Float[Array, "horizon m"], shake: Float[Array, "horizon m"]) -> Float[Array, ""]:
        policy = OpenLoop(open_sides.stretch(plan), problem, shake if shaken else None)
        mean = jnp.mean(returns(problem, policy, Trial(noise, starts)))
        return jnp.where(jnp.isnan(mean), -jnp.inf, mean)

    shakes = SHAKE * sampling.normal(jax.random.key(0), (SHAKES, *round.best.shape))
    shakes = shakes.at[0].set(0.0)  # the plan itself

    count = 2 * PAIRS
    ranks = np.arange(count)
    utilities = np.maximum(0.0, np.log(count / 2 + 1) - np.log(ranks + 1))
    utilities = utilities / utilities.sum() - 1 / count

    def generation(carry: tuple[Array, Round]) -> tuple[Array, Round]:
        i, now = carry
        key, draw, shake_key = jax.random.split(now.key, 3)
        half = sampling.normal(draw, (PAIRS, *now.knots.shape))
        steps = jnp.concatenate([half, -half])
        tried = now.knots + now.widths * steps
        plans = now.base + jnp.einsum("hk,pkm->phm", now.weights, tried)
        shake = SHAKE * sampling.normal(shake_key, now.best.shape)
        earned = jax.vmap(earn, in_axes=(0, None))(plans, shake)
        order = jnp.argsort(-earned)
        ranked = steps[order]
        move = jnp.einsum("p,pkm->km", utilities.astype(np.float32), ranked)
        spread = jnp.einsum("p,pkm->km", utilities.astype(np.float32), ranked**2 - 1)
        top, plan = earned[order[0]], plans[order[0]]
        if shaken:
            top = jnp.mean(jax.vmap(earn, in_axes=(None, 0))(plan, shakes))
        better = top > now.earned
        return i + 1, Round(
            base=now.base,
            weights=now.weights,
            knots=now.knots + now.widths * move,
            widths=now.widths * jnp.exp(jnp.clip(now.rate / 2 * spread, -0.5, 0.5)),
            first_width=now.first_width,
            rate=now.rate,
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
        self._open = Open.of(problem)
        self._boundless = bool(np.any(self._open.either))
        self._noise = draw_noise(problem.exact, noise_key, (problem.horizon, episodes))
        self._base = jnp.zeros((problem.horizon, problem.action_size), jnp.float32)
        """What rounds that begin anew begin with."""
        self._rounds = 0
        self._round = self._next_round()
        self._pace = 1.0
        """Generations that a second is taken to hold, until that is known."""

    @property
    def plan(self) -> Float[Array, "horizon m"]:
        """The best plan so far, before the curve that maps it into the bounds."""
        return self._open.stretch(self._round.best)

    @property
    def constant(self) -> Float[Array, " m"] | None:
        """The best constant action where it is away from all bounds, before the curve that maps
        into the bounds, and 0 elsewhere; None where none is looked for."""
        if not self._boundless:
            return None
        best = self._base if self._rounds else self._round.best
        away = jnp.where(best > 0, self._open.above, self._open.below)
        return self._open.stretch(jnp.where(away, best, 0.0)[0])

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
            plans = 2 * PAIRS + (0 if self.problem.exact.law.size else SHAKES)
            self.transitions += count * plans * self._noise.shape[1] * self.problem.horizon
            if count < asked or bool(_is_over(self._round)):
                self._round = self._next_round(self._round)
            took = time.perf_counter() - began
            if count == asked:  # else it converged on the way
                self._pace = count / took

    def _next_round(self, last: Round | None = None) -> Round:
        """Constant plans first, where an action lacks a bound; then anew with other steps, or from
        the best plan, in a window of time that is drawn."""
        horizon, actions = self.problem.horizon, self.problem.action_size
        knots, random = min(KNOTS, horizon), self._random
        best = jnp.zeros((horizon, actions), jnp.float32) if last is None else last.best
        if last is None and self._boundless:
            constant = np.zeros((horizon, knots), np.float32)
            constant[:, 0] = 1.0
            used = np.arange(knots) == 0
            return self._round_of(last, best, constant, np.where(used, CONSTANT, 0.0), actions)
        if last is not None and self._rounds == 0 and self._boundless:
            self._base = jnp.where(self._open.either, best, 0.0)
        fresh, turn = self._rounds % 2 == 0, self._rounds // 2
        self._rounds += 1
        base, first, last_step = self._base, 0.0, horizon - 1.0
        width = WIDTHS[turn % len(WIDTHS)]
        if not fresh:
            base, width = best, REFINING[turn % len(REFINING)]
            length = max(2.0, horizon * 0.5 ** random.integers(0, 4))
            first = random.uniform(-length / 2, horizon - length / 2)
            last_step = first + length
        hats = _hats(horizon, first, last_step, knots)
        return self._round_of(last, base, hats, np.full(knots, width), knots * actions)

    def _round_of(
        self,
        last: Round | None,
        base: Float[Array, "horizon m"],
        weights: Float[np.ndarray, "horizon knots"],
        widths: Float[np.ndarray, " knots"],
        size: int,
    ) -> Round:
        """A round of plans base + weights · knots, `size` numbers that are searched for."""
        self._key, key = jax.random.split(self._key)
        wide = jnp.asarray(widths, jnp.float32)[:, None]
        shape = len(widths), self.problem.action_size
        return Round(
            base=base,
            weights=jnp.asarray(weights),
            knots=jnp.zeros(shape, jnp.float32),
            widths=jnp.broadcast_to(wide, shape),
            first_width=jnp.max(wide),
            rate=jnp.array((3 + math.log(size)) / (5 * math.sqrt(size)), jnp.float32),
            best=base if last is None else last.best,
            earned=jnp.array(-jnp.inf, jnp.float32) if last is None else last.earned,
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
