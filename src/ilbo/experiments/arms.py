"""The arms of an experiment: a planner with its settings on a problem, run for every seed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ilbo.planning.config import ILBO

if TYPE_CHECKING:
    from ilbo.mdp.problem import Problem
    from ilbo.mdp.simulate import PolicyFunction
    from ilbo.planning.records import Plan

Planner = Literal["ilbo", "through-time", "hindsight", "straight-line", "heuristic"]


@dataclass(frozen=True)
class Arm:
    """What is run once for every seed."""

    label: str
    """What tables and figures call it; not part of its identity."""
    problem: str
    """Name of a built-in problem."""
    planner: Planner
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the planner: the fields of `ILBO` or `ThroughTime`, or arguments of `hindsight`."""
    start: tuple[float, ...] | None = None
    """Where the problem starts; its own start if None."""
    test_starts: tuple[tuple[float, ...], ...] = ()
    """Further start states that final policies of ILBO are evaluated from, without retraining."""
    fresh: int = 2048
    """Fresh episodes of each evaluation."""

    @property
    def identity(self) -> dict[str, Any]:
        """All that the results depend on, the seed aside."""
        values = dataclasses.asdict(self)
        del values["label"]
        if self.planner == "ilbo":  # the defaults of another version may be others
            values["settings"] = ILBO(**self.settings).to_dict()
        return json.loads(json.dumps(values))

    @property
    def key(self) -> str:
        """A name for files: readable, and different for different identities."""
        digest = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode())
        sizes = "x".join(map(str, self.settings.get("layers", ())))
        parts = [self.problem, self.planner, sizes, digest.hexdigest()[:10]]
        return "--".join(part for part in parts if part)

    @property
    def layers(self) -> tuple[int, ...]:
        return tuple(self.settings.get("layers", ()))

    @property
    def seeded(self) -> bool:
        """Whether runs differ by seed; baselines without training are run once."""
        return self.planner in ("ilbo", "through-time")


@dataclass(frozen=True)
class Result:
    """What one run of an arm gave. Returns are means over episodes."""

    seed: int
    episodes: tuple[int, ...]
    """Training episodes at each test."""
    current: tuple[float, ...]
    """Return of the current policy in each test."""
    best: tuple[float, ...]
    """The best of these so far."""
    final: float
    """Return of the final policy on fresh trajectories."""
    final_best: float
    """Return of the best tested policy on fresh trajectories."""
    starts: tuple[float, ...]
    """Return of the final policy from each of the arm's test starts."""
    standard_error: float
    """Of `final`, over its fresh trajectories."""
    samples: Mapping[str, int]
    seconds: float
    """Of the whole block of seeds that ran side by side, compilation included."""
    compile_seconds: float
    together: int
    """Seeds in that block."""
    fault: str | None
    environment: Mapping[str, Any]

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Result:
        plain: dict[str, Any] = {
            f.name: tuple(values[f.name]) if isinstance(values[f.name], list) else values[f.name]
            for f in dataclasses.fields(cls)
        }
        return cls(**plain)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def best_at(self, episodes: int) -> float:
        """The best return in the tests up to this many episodes."""
        return max(
            value for e, value in zip(self.episodes, self.best, strict=True) if e <= episodes
        )


def perform(arm: Arm, seeds: Sequence[int]) -> list[Result]:
    """Runs an arm for a block of seeds."""
    import equinox as eqx
    import jax.numpy as jnp

    from ilbo.registry.names import make

    problem = make(arm.problem)
    if arm.start is not None:
        start = problem.check_start(jnp.array(arm.start))
        problem = eqx.tree_at(lambda p: p.initial_state, problem, start)
    return _PERFORMERS[arm.planner](arm, problem, tuple(seeds))


def _ilbo(arm: Arm, problem: Problem, seeds: tuple[int, ...]) -> list[Result]:
    from ilbo.planning.config import ILBO
    from ilbo.planning.loop import plan

    return _of_plan(arm, plan(problem, ILBO(**arm.settings), seeds=seeds))


def _through_time(arm: Arm, problem: Problem, seeds: tuple[int, ...]) -> list[Result]:
    from ilbo.baselines import ThroughTime, plan_through_time

    return _of_plan(arm, plan_through_time(problem, ThroughTime(**arm.settings), seeds=seeds))


def _of_plan(arm: Arm, plan: Plan) -> list[Result]:
    from ilbo.runs.results import evaluate_fresh
    from ilbo.storage.environment import environment

    final = evaluate_fresh(plan.problem, plan.policies, arm.fresh)
    best = evaluate_fresh(plan.problem, plan.best_policies, arm.fresh)
    return [
        Result(
            seed=seed,
            episodes=tuple(record.episode for record in records),
            current=_finite(record.current for record in records),
            best=_finite(record.best for record in records),
            final=evaluation.mean,
            final_best=kept.mean,
            starts=tuple(_from(arm, plan.problem, policy, start) for start in arm.test_starts),
            standard_error=evaluation.std / arm.fresh**0.5,
            samples=dataclasses.asdict(plan.samples),
            seconds=plan.seconds,
            compile_seconds=plan.compile_seconds,
            together=len(plan.seeds),
            fault=fault,
            environment=environment(),
        )
        for seed, records, policy, evaluation, kept, fault in zip(
            plan.seeds, plan.history, plan.policies, final, best, plan.faults, strict=True
        )
    ]


def _from(arm: Arm, problem: Problem, policy: PolicyFunction, start: Iterable[float]) -> float:
    from ilbo.mdp.evaluate import evaluate
    from ilbo.runs.results import fresh_key

    return evaluate(problem, policy, fresh_key(), arm.fresh, list(start)).mean


def _finite(values: Iterable[float]) -> tuple[float, ...]:
    """A return that is not finite counts as −3e38, about the lowest float32."""
    return tuple(v if math.isfinite(v) else -3e38 for v in values)


def _hindsight(arm: Arm, problem: Problem, seeds: tuple[int, ...]) -> list[Result]:
    from ilbo.baselines import hindsight
    from ilbo.runs.results import fresh_key

    # The noise that policies are evaluated on: of fewer sequences the mean may be lower.
    limit = hindsight(problem, fresh_key(), arm.fresh, **arm.settings)
    return [_yardstick(limit.mean, limit.standard_error)]


def _straight_line(arm: Arm, problem: Problem, seeds: tuple[int, ...]) -> list[Result]:
    from ilbo.baselines import straight_line
    from ilbo.runs.results import fresh_key

    earned = straight_line(problem, fresh_key(), arm.fresh).evaluation
    return [_yardstick(earned.mean, earned.std / arm.fresh**0.5)]


def _heuristic(arm: Arm, problem: Problem, seeds: tuple[int, ...]) -> list[Result]:
    from ilbo.mdp.simple import Heuristic
    from ilbo.runs.results import evaluate_fresh

    earned = evaluate_fresh(problem, [Heuristic(problem.exact)], arm.fresh)[0]
    return [_yardstick(earned.mean, earned.std / arm.fresh**0.5)]


def _yardstick(final: float, standard_error: float) -> Result:
    """The result of a baseline without training."""
    from ilbo.storage.environment import environment

    return Result(
        seed=0,
        episodes=(),
        current=(),
        best=(),
        final=final,
        final_best=final,
        starts=(),
        standard_error=standard_error,
        samples={},
        seconds=0.0,
        compile_seconds=0.0,
        together=1,
        fault=None,
        environment=environment(),
    )


_PERFORMERS: dict[Planner, Callable[[Arm, Problem, tuple[int, ...]], list[Result]]] = {
    "ilbo": _ilbo,
    "through-time": _through_time,
    "hindsight": _hindsight,
    "straight-line": _straight_line,
    "heuristic": _heuristic,
}
