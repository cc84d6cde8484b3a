"""How a run by the clock shares its time between training and the search for plans."""

from __future__ import annotations

import time

import jax
import numpy as np

from ilbo.planning.planner import Planner, Seeds
from ilbo.planning.scout import Scout

FIRST = 0.1
"""Share of the time that the search begins with."""
BEHIND, AHEAD = 0.1, 0.6
"""Its share from then on, where the policies held are trained ones, and where they are its own."""


class Scouting:
    """Offers the plans that a search finds to the planner's seeds, one search for each.

    What is held then is the better of the best trained policy and the best plan, and the one that
    is ahead gets most of the time.
    """

    def __init__(self, planner: Planner, seconds: float):
        self.planner, self.seconds = planner, seconds
        self.spent = 0.0
        self._scouts = [Scout(planner.problem, seed) for seed in planner.seeds]
        self._offered = [-np.inf] * len(self._scouts)

    @classmethod
    def of(cls, planner: Planner, seconds: float | None) -> Scouting | None:
        """For a run that ends by the clock, where its policies can follow a plan."""
        if seconds is None or not planner.trainer.can_follow_plans:
            return None
        return cls(planner, seconds)

    def turn(self, seeds: Seeds, episode: int, elapsed: float) -> Seeds:
        """Searches if it is its turn after so many episodes and seconds of the run."""
        due = FIRST * self.seconds
        if self.spent > 0:
            share = AHEAD if self._leads(seeds) else BEHIND
            due = min(share * elapsed - self.spent, self.seconds - elapsed, 0.1 * self.seconds)
        if due < 0.02 * self.seconds:
            return seeds
        seeds = self._search(seeds, due)
        if episode == 0:
            constants = [scout.constant for scout in self._scouts]
            seeds = self.planner.begin_at(seeds, constants)
        return seeds

    def finish(self, seeds: Seeds, elapsed: float) -> Seeds:
        """Searches for the seconds that are left where training cannot go on."""
        left = self.seconds - elapsed
        return self._search(seeds, left) if left > 0 else seeds

    def _search(self, seeds: Seeds, seconds: float) -> Seeds:
        if self.spent == 0:
            self._scouts[0].prepare()  # the others run the same programs
        began = time.perf_counter()
        for scout in self._scouts:
            scout.search(seconds / len(self._scouts))
        earned = [scout.earned for scout in self._scouts]
        if any(new > old for new, old in zip(earned, self._offered, strict=True)):
            seeds = self.planner.offer(seeds, [scout.plan for scout in self._scouts])
        self._offered = earned
        self.planner.scouted = sum(scout.transitions for scout in self._scouts)
        self.spent += time.perf_counter() - began
        return seeds

    def _leads(self, seeds: Seeds) -> bool:
        """Whether every seed holds a plan: a policy whose network does nothing."""
        for seed in self.planner.split(seeds):
            network = self.planner.trainer.policy(jax.tree.map(np.asarray, seed.held)).network
            if np.any(np.asarray(network.network.output.weight)):
                return False
        return True
