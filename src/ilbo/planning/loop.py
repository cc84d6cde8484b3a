"""The training loop, the only one, and the hooks that look on."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ilbo.errors import UserError, check_setting, warn, whole
from ilbo.mdp import probe
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Whole
from ilbo.planning import sharing
from ilbo.planning.config import ENDLESS, ILBO
from ilbo.planning.ilbo import ILBOTrainer
from ilbo.planning.planner import Advanced, Planner, Programs, Seeds
from ilbo.planning.records import STOP, Plan, Progress, Record
from ilbo.planning.scouting import Scouting
from ilbo.planning.trainer import Metrics, Trainer


@dataclass(frozen=True)
class Start:
    """Where training begins, or goes on from."""

    seeds: Seeds
    episode: int = 0
    history: list[list[Record]] = field(default_factory=list)
    """The tests so far, one list per seed; empty where there were none."""
    seconds: float = 0.0
    """Time that planning has taken so far, over all sessions."""
    compile_seconds: float = 0.0
    finished: bool = False
    """Whether training is over: nothing is left but to hand out what it gave."""


class Hook:
    """Looks on while a planner trains. Each method does nothing unless overridden."""

    def begin(self, planner: Planner) -> Start | None:
        """Where to go on from; None to begin anew."""

    def stop(self, moment: Moment) -> str | None:
        """A reason to stop, asked before and after each segment; None to go on."""

    def after(self, moment: Moment) -> None:
        """Called after each segment. Must not keep `moment.seeds`: the next segment uses them up.

        `moment.ending` is set where this segment was the last; where a reason to stop comes up
        before the next one, it is called once more, without records.
        """


class Tell(Hook):
    """Calls a function with each test's `Record`, and with the policy tested where it takes two
    arguments; ends training where it returns `STOP`."""

    def __init__(self, progress: Progress):
        self.progress = progress
        self.sees_policy = _takes_two(progress)
        self.asked = False

    def after(self, moment: Moment) -> None:
        policies = moment.planner.policies(moment.seeds)[0] if self.sees_policy else []
        for i, record in enumerate(moment.records):
            seen = (record, policies[i]) if self.sees_policy else (record,)
            self.asked |= self.progress(*seen) is STOP

    def stop(self, moment: Moment) -> str | None:
        return "progress" if self.asked else None


def _takes_two(progress: Progress) -> bool:
    try:
        parameters = inspect.signature(progress).parameters.values()
    except (TypeError, ValueError):  # such as some functions of C
        return False
    needed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len([p for p in needed if p.default is p.empty]) == 2


class StopWhen(Hook):
    """Stops once a function says so."""

    def __init__(self, asked: Callable[[], bool], reason: str = "stopped"):
        self.asked, self.reason = asked, reason

    def stop(self, moment: Moment) -> str | None:
        return self.reason if self.asked() else None


class Clock:
    """Seconds of a run, over all sessions, and how many of them went into compiling."""

    def __init__(self, start: Start, entered: float):
        self._began = entered - start.seconds
        self._compiled_before = start.compile_seconds
        self._segments: list[tuple[int, float]] = []

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def note(self, episodes: int, seconds: float) -> None:
        """A segment of so many episodes took so long."""
        self._segments.append((episodes, seconds))

    @property
    def usual(self) -> tuple[int, float] | None:
        """Episodes of a segment and the seconds that it usually takes, once that is known: the
        first one compiles."""
        if len(self._segments) < 2:
            return None
        return self._segments[-1][0], float(np.median([took for _, took in self._segments[1:]]))

    @property
    def compile_seconds(self) -> float:
        """What the first segment of each session took longer than others of its length."""
        if not self._segments:
            return self._compiled_before
        first, took = self._segments[0]
        others = [t for episodes, t in self._segments[1:] if episodes == first]
        usual = float(np.median(others)) if others else 0.0
        return self._compiled_before + max(0.0, took - usual)


@dataclass(frozen=True)
class Moment:
    """Training between two segments."""

    planner: Planner
    seeds: Seeds
    episode: int
    """Episodes that every seed has been trained for."""
    records: list[Record]
    """The tests of the last segment, one per seed."""
    history: list[list[Record]]
    clock: Clock
    ending: str | None = None
    """"finished", "fault" or a hook's reason to stop; None while training goes on."""

    def advanced(self, segment: int) -> Moment:
        """After one more segment of so many episodes."""
        before = time.perf_counter()
        result = self.planner.advance(self.seeds, segment)
        episode = self.episode + segment
        records = _records(self.planner, episode, result, self.clock.seconds)
        self.clock.note(segment, time.perf_counter() - before)
        for past, record in zip(self.history, records, strict=True):
            past.append(record)
        ending = "finished" if episode >= self.planner.episodes else None
        if any(self.planner.faults(result.seeds)):
            ending = "fault"
        return replace(self, seeds=result.seeds, episode=episode, records=records, ending=ending)

    def plan(self) -> Plan:
        planner = self.planner
        policies, best_policies = planner.policies(self.seeds)
        return Plan(
            problem=planner.problem,
            config=planner.config,
            seeds=planner.seeds,
            policies=policies,
            best_policies=best_policies,
            history=self.history,
            samples=planner.trainer.samples(self.episode).with_scouting(planner.scouted),
            seconds=self.clock.seconds,
            compile_seconds=self.clock.compile_seconds,
            faults=planner.faults(self.seeds),
            unkept=planner.unkept(self.seeds),
            ending=self.ending or "finished",
        )


UNKNOWN_LENGTH = 40
"""Segments that a run by the clock is taken to have until its pace is known."""


def train(planner: Planner, hooks: Iterable[Hook] = (), *, seconds: float | None = None) -> Plan:
    """Trains all seeds of a planner from the start, or where a hook says, to the end.

    Args:
        planner: What to train.
        hooks: What looks on.
        seconds: Time to train for, if that is to end it: schedules follow the share that is gone.
    """
    entered, hooks = time.perf_counter(), tuple(hooks)
    scouting = Scouting.of(planner, seconds)
    planner.prepare()
    started = [start for hook in hooks if (start := hook.begin(planner)) is not None]
    start = started[0] if started else Start(planner.start())
    history = start.history or [[] for _ in planner.seeds]
    moment = Moment(planner, start.seeds, start.episode, [], history, Clock(start, entered))
    for segment in () if start.finished else planner.segments_after(start.episode):
        if reason := _reason_to_stop(hooks, moment):
            moment = replace(moment, records=[], ending=reason)
            for hook in hooks:
                hook.after(moment)
            break
        if scouting:
            turned = scouting.turn(moment.seeds, moment.episode, moment.clock.seconds)
            moment = replace(moment, seeds=turned)
        if seconds is not None:
            planner.expect(_expected_episodes(planner, moment, seconds))
        moment = moment.advanced(segment)
        if scouting and moment.ending == "fault":
            finished = scouting.finish(moment.seeds, moment.clock.seconds)
            moment = replace(moment, seeds=finished)
        if seconds is not None and not moment.ending and _is_over(moment.clock, seconds):
            moment = replace(moment, ending="finished")
        if not moment.ending:
            moment = replace(moment, ending=_reason_to_stop(hooks, moment))
        for hook in hooks:
            hook.after(moment)
        if moment.ending:
            break
    plan = moment.plan()
    for sentence in (plan.fault, *plan.unkept):
        if sentence:
            warn(sentence)
    return plan


def _expected_episodes(planner: Planner, moment: Moment, seconds: float) -> float:
    """Episodes of the whole run, by its pace so far."""
    pace = moment.clock.usual
    if pace is None:
        return moment.episode + UNKNOWN_LENGTH * planner.trainer.every
    episodes, took = pace
    return moment.episode + max(1.0, (seconds - moment.clock.seconds) / took) * episodes


def _is_over(clock: Clock, seconds: float) -> bool:
    """Whether there is no time for another segment."""
    pace = clock.usual
    return clock.seconds + (pace[1] if pace else 0.0) > seconds


def plan(
    problem: Problem,
    config: ILBO | Mapping[str, Any] | None = None,
    *,
    seed: Whole = 0,
    seeds: Whole | Sequence[Whole] | None = None,
    episodes: Whole | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
    hooks: Sequence[Hook] = (),
    keep: Callable[[Trainer], Programs | None] | None = None,
) -> Plan:
    """Trains a deep reactive policy by iterative lower bound optimisation; writes nothing.

    `ilbo.plan` (`ilbo.api.planning`) is this with a run folder and with kept programs.

    Args:
        problem: What to plan for.
        config: Settings, or a dict of those that are not the defaults.
        seed: Seed of the run, or of the first of several.
        seeds: How many runs, with seeds `seed`, `seed` + 1, ...; or their seeds.
        episodes: Training episodes of each run; the config's if None.
        seconds: Seconds to train for instead, compiling included.
        progress: Called with each test's `Record` as training goes on.
        hooks: What else looks on.
        keep: Says where the trainer's compiled programs are kept; nowhere if None.

    A `PlanningWarning` says where training hit a fault, which leaves the last good policy, and
    where a problem that is not built in has no gradient to plan by.
    """
    config = as_settings(config)
    if not isinstance(problem, Problem):
        hint = f": `ilbo.make({problem!r})`" if isinstance(problem, str) else ""
        raise UserError(f"Planning takes an `ilbo.Problem`, not {problem!r}{hint}.")
    if seconds is not None and episodes is not None:
        raise UserError("Give a number of episodes or of seconds, not both.")
    if seconds is None and episodes is None:
        seconds, episodes = config.seconds, config.episodes
    if seconds is not None:
        number = isinstance(seconds, int | float)
        check_setting(number and 0 < seconds < math.inf, "seconds", "a positive number", seconds)
        config, episodes = replace(config, seconds=seconds), ENDLESS
    assert episodes is not None
    episodes = whole(episodes, "The number of episodes")
    for remark in remarks(problem, config):
        warn(remark)
    trainer = ILBOTrainer.of(problem, config, episodes)
    kept = keep(trainer) if keep else None
    planner = Planner(trainer, successive(seed, seeds), episodes, programs=kept)
    told = [Tell(progress)] if progress else []
    return train(planner, [*hooks, *told], seconds=seconds)


def as_settings(config: ILBO | Mapping[str, Any] | None) -> ILBO:
    """Settings as users give them."""
    if config is None or isinstance(config, Mapping):
        return ILBO(**(config or {}))
    if not isinstance(config, ILBO):
        raise UserError(f"Settings are an `ilbo.ILBO`, or a dict of them, not {config!r}.")
    return config


def remarks(problem: Problem, config: ILBO) -> list[str]:
    """Sentences where the problem does not allow what is asked of the planner."""
    return sharing.remarks(problem, config) + _gradient_remarks(problem, config)


def _gradient_remarks(problem: Problem, config: ILBO) -> list[str]:
    """Sentences where a problem that is not built in has no gradient for planning to follow."""
    known = problem.origin.kind == "built-in" or config.gradient.name != "pathwise"
    searched = config.seconds is not None and config.sees_time  # the search for plans needs none
    return [] if known or searched else probe.remarks(problem)


def successive(seed: Whole, seeds: Whole | Sequence[Whole] | None) -> tuple[int, ...]:
    """The seeds from `seed` on where their number is given (one if None), or those given."""
    if isinstance(seeds, Iterable) and not isinstance(seeds, str):
        chosen = tuple(whole(one, "A seed") for one in seeds)
    else:
        first = whole(seed, "A seed")
        count = 1 if seeds is None else whole(seeds, "The number of seeds")
        chosen = tuple(range(first, first + count))
    for one in chosen:
        if not 0 <= one < 2**32:
            raise UserError(f"A seed is a whole number from 0 to 2³² − 1, got {one}.")
    return chosen


def _reason_to_stop(hooks: Iterable[Hook], moment: Moment) -> str | None:
    return next((reason for hook in hooks if (reason := hook.stop(moment))), None)


def _records(planner: Planner, episode: int, result: Advanced, seconds: float) -> list[Record]:
    figures = (result.current, result.best, *result.metrics)
    columns = [np.asarray(figure, np.float64) for figure in figures]
    names = ("current", "best", *Metrics._fields)

    def record(i: int, seed: int) -> Record:
        values = {name: float(column[i]) for name, column in zip(names, columns, strict=True)}
        return Record(seed=seed, episode=episode, seconds=seconds, **values)

    return [record(i, seed) for i, seed in enumerate(planner.seeds)]
