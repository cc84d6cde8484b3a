"""A run, its problem and its policies on fresh trajectories."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ilbo.baselines.bounding import Bound, bound_best
from ilbo.mdp.evaluate import Evaluation
from ilbo.mdp.problem import Problem
from ilbo.mdp.yardstick import Returns, Yardstick, against, yardsticks
from ilbo.nn.policy import Policy
from ilbo.planning.ilbo import count_samples
from ilbo.planning.records import Samples
from ilbo.runs.results import evaluate_fresh, fresh_key
from ilbo.runs.saved import SavedRun


@dataclass(frozen=True)
class Entry:
    """A run and its evaluation for the report."""

    run: SavedRun
    name: str
    problem: Problem | None
    """None where it cannot be built again: a model of the user's own."""
    policies: list[Policy]
    evaluations: list[Evaluation]
    """The final policy of each seed on fresh trajectories; none where there is no problem."""
    limit: float | None
    others: dict[str, Returns]
    """What yardsticks earn on the same trajectories."""
    bound: Bound | None = None
    """Of the seed that earns most."""

    @property
    def yardsticks(self) -> list[Yardstick]:
        return against(self.each, self.others) if self.evaluations else []

    @property
    def each(self) -> list[Float[np.ndarray, " episodes"]]:
        """The returns of each seed on the same fresh trajectories, discounted as its problem is."""
        return [evaluation.discounted_returns for evaluation in self.evaluations]

    @property
    def returns(self) -> Float[np.ndarray, " episodes"]:
        """The mean over the seeds on each fresh trajectory."""
        return np.mean(self.each, axis=0)

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the mean of one seed; of several, their spread tells more."""
        return self.evaluations[0].ci95 if len(self.evaluations) == 1 else None

    @property
    def episode(self) -> int:
        """Training episodes before the last test; 0 where there was none."""
        return max((run[-1].episode for run in self.run.history if run), default=0)

    @property
    def samples(self) -> Samples | None:
        if self.problem is None or not self.episode:
            return None
        return count_samples(self.run.config, self.problem.horizon, self.episode)


def look_into(
    run: SavedRun,
    name: str,
    given: Problem | None,
    episodes: int,
    limits: dict[str, float] | None,
    trust: bool = False,
    bounded: bool = False,
) -> Entry:
    problem = given
    if problem is None and run.can_build(trust):
        problem = run.problem(trust)
    elif problem is not None and run.source is not None:
        run.source.tell_changes(run.path, problem)
    if problem is None:
        return Entry(run, name, None, [], [], None, {})
    trained = any(run.history)
    policies = run.policies(problem) if trained else []
    evaluations = evaluate_fresh(problem, policies, episodes)
    limit = None
    if limits is not None:
        key = run.description.get("digest", problem.name)
        if key not in limits:
            from ilbo.baselines import hindsight

            found = hindsight(problem, fresh_key(), episodes, policies=policies)
            limits[key] = found.mean
        limit = limits[key]
    others = yardsticks(problem, fresh_key(), episodes) if trained else {}
    bound = None
    if bounded and trained:
        earned = [evaluation.discounted_returns for evaluation in evaluations]
        bound = bound_best(problem, policies, earned, fresh_key())
    return Entry(run, name, problem, policies, evaluations, limit, others, bound)
