"""A search for open-loop plans beside training: what gradients of a policy cannot see.

Goals behind a plateau, swings that must be built up, a narrow useful range within wide bounds: in
such problems a policy that learns by gradients stands still. A plan of a few knots in time, varied
as a whole and judged by what it earns on the exact model, finds the way in seconds. Rounds of
evolution begin anew with other steps, or refine the best plan so far within a window of time;
between them the best plan climbs along the model's gradient (`ilbo.planning.rounds`).

An action without a bound may be of any size, so the search takes steps in its logarithm, as it
were, and begins with constant plans: what is found there tells the size.
"""

from __future__ import annotations

import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ilbo.mdp.problem import Problem
from ilbo.mdp.simulate import draw_noise
from ilbo.planning.open_plan import Open
from ilbo.planning.rounds import SHAKES, Ascent, Evolution, Found, Judge, Round, search

KNOTS = 24
EPISODES = 4
"""Episodes that each plan is judged on, along noise shared by all."""
WIDTHS = (1.0, 3.0, 0.1, 10.0, 0.3)
"""First step sizes of fresh rounds, before the curve that maps into the bounds."""
REFINING = (0.3, 1.0, 0.1)
"""Those of rounds that refine the best plan."""
WIDER = (1.0, 10.0, 100.0)
"""How many times as wide as usual the relaxation is that plans climb on, in turn."""
TURN = 0.5
"""Seconds that evolution and ascent take turns for."""
CONSTANT = 3.0
"""That of a first round of constant plans, where actions lack a bound."""


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
        noise = draw_noise(problem.exact, noise_key, (problem.horizon, episodes))
        self._judge = Judge(problem, noise)
        shape = problem.horizon, problem.action_size
        self._base = jnp.zeros(shape, jnp.float32)
        """What rounds that begin anew begin with."""
        self._begun = 0
        """Rounds of evolution, constant plans apart."""
        self.found = Found.nothing(shape)
        self._evolution: Round = self._first_round()
        self._ascents = 0
        """Rounds of ascent."""
        self._climbed = -np.inf
        """What the best plan earned when it had last been climbed from."""
        self._ascent: Round = self._next_ascent()
        self._pace: dict[type[Round], float] = {}
        """Generations of each kind that a second holds, where that is known."""

    @property
    def plan(self) -> Float[Array, "horizon m"]:
        """The best plan so far, before the curve that maps it into the bounds."""
        return self._open.stretch(self.found.best)

    @property
    def constant(self) -> Float[Array, " m"] | None:
        """The best constant action where it is away from all bounds, before the curve that maps
        into the bounds, and 0 elsewhere; None where none is looked for."""
        if not self._boundless:
            return None
        best = self._base if self._begun else self.found.best
        away = jnp.where(best > 0, self._open.above, self._open.below)
        return self._open.stretch(jnp.where(away, best, 0.0)[0])

    @property
    def earned(self) -> float:
        """Its mean return on the search's own noise."""
        return float(self.found.earned)

    def prepare(self) -> None:
        """Compiles what the search runs."""
        for first in (self._evolution, self._ascent):
            search(self._judge, first, jnp.array(0))

    def search(self, seconds: float) -> None:
        """Goes on for about so long; evolution and ascent take turns."""
        end = time.perf_counter() + seconds
        while True:
            for move, kind in ((self._evolve, Evolution), (self._climb, Ascent)):
                left = end - time.perf_counter()
                if left <= 0:
                    return
                if kind is Ascent and self._boundless and not self._begun:
                    continue  # the size of actions is not known yet
                began = time.perf_counter()
                asked = max(1, int(self._pace.get(kind, 1.0) * min(left, TURN)))
                count = move(asked)
                if count == asked:  # else the round ended on the way
                    self._pace[kind] = count / (time.perf_counter() - began)

    def _evolve(self, generations: int) -> int:
        self._evolution, count = self._go_on(self._evolution, generations)
        if bool(self._evolution.is_over):
            if self._begun == 0 and self._boundless:
                self._base = jnp.where(self._open.either, self.found.best, 0.0)
            self._evolution = self._next_round()
        return count

    def _climb(self, generations: int) -> int:
        self._ascent, count = self._go_on(self._ascent, generations)
        if bool(self._ascent.is_over):
            self._ascent = self._next_ascent()
        return count

    def _go_on(self, round: Round, generations: int) -> tuple[Round, int]:
        """So many generations, or as many as are left of the round, and their number."""
        round = eqx.tree_at(lambda r: r.found, round, round.found.knowing(self.found))
        round, taken = search(self._judge, round, jnp.array(generations))
        self.found = round.found
        plans = round.plans + (SHAKES if self._judge.shaken else 0)
        count = int(taken)
        self.transitions += count * plans * self._judge.episodes * self.problem.horizon
        return round, count

    def _first_round(self) -> Evolution:
        """Constant plans first, where an action lacks a bound."""
        if not self._boundless:
            return self._next_round()
        constant = np.zeros((self.problem.horizon, self._knots), np.float32)
        constant[:, 0] = 1.0
        widths = np.where(np.arange(self._knots) == 0, CONSTANT, 0.0)
        return Evolution.begin(self.found, self._next_key(), self._base, constant, widths)

    def _next_round(self) -> Evolution:
        """Anew with other steps, or from the best plan in a window of time that is drawn."""
        horizon, knots, random = self.problem.horizon, self._knots, self._random
        turn, refines = divmod(self._begun, 2)
        self._begun += 1
        base, first, last_step = self._base, 0.0, horizon - 1.0
        width = WIDTHS[turn % len(WIDTHS)]
        if refines:
            base, width = self.found.best, REFINING[turn % len(REFINING)]
            length = max(2.0, horizon * 0.5 ** random.integers(0, 4))
            first = random.uniform(-length / 2, horizon - length / 2)
            last_step = first + length
        hats = _hats(horizon, first, last_step, knots)
        return Evolution.begin(self.found, self._next_key(), base, hats, np.full(knots, width))

    def _next_ascent(self) -> Ascent:
        """From the best plan where there is another since, else anew: first from the middle of the
        bounds, then from plans that are drawn; with a relaxation of other widths."""
        turn, anew = divmod(self._ascents, 2)
        self._ascents += 1
        factor = WIDER[turn % len(WIDER)]
        if not anew and self.earned > self._climbed:
            self._climbed = self.earned
            return Ascent.begin(self.found, self._next_key(), self.found.best, factor)
        size = WIDTHS[turn % len(WIDTHS)] if turn >= len(WIDER) else 0.0
        hats = _hats(self.problem.horizon, 0.0, self.problem.horizon - 1.0, self._knots)
        knots = self._random.normal(0.0, size, (self._knots, self.problem.action_size))
        plan = self._base + jnp.asarray(hats @ knots, jnp.float32)
        return Ascent.begin(self.found, self._next_key(), plan, factor)

    @property
    def _knots(self) -> int:
        return min(KNOTS, self.problem.horizon)

    def _next_key(self) -> Array:
        self._key, key = jax.random.split(self._key)
        return key


def _hats(horizon: int, first: float, last: float, knots: int) -> Float[np.ndarray, "horizon k"]:
    """Weights [horizon, knots] of linear interpolation between knots from `first` to `last`; steps
    beyond these have none."""
    at = (np.arange(horizon) - first) / max(last - first, 1e-9) * (knots - 1)
    hats = np.maximum(0.0, 1 - np.abs(at[:, None] - np.arange(knots)))
    return hats.astype(np.float32)
