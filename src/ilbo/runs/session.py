"""Planning with a run folder: saved as it goes, stopped at will, resumed bit for bit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ilbo.planning.planner import (
    Plan,
    Planner,
    Progress,
    Record,
    Run,
    compile_time,
    make_plan,
    make_records,
)
from ilbo.runs import checkpoint
from ilbo.runs.checkpoint import Checkpoint
from ilbo.runs.folder import RunFolder
from ilbo.runs.layout import CHECKPOINT

SAVING_SHARE = 0.05
"""Checkpoints take at most about this share of the time; small ones are written every segment."""


@dataclass(frozen=True)
class Session:
    """What a session of planning ended with."""

    plan: Plan
    episode: int
    """Episodes that every run has been trained for."""
    stopped: bool
    """Whether it ended before its time because it was asked to."""

    @property
    def fault(self) -> str | None:
        return next((fault for fault in self.plan.faults if fault), None)


def train(
    planner: Planner,
    folder: RunFolder,
    *,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Session:
    """Trains from the folder's checkpoint, or from the start, to the end.

    Args:
        planner: Problem, settings and seeds.
        folder: Where checkpoints, metrics and policies go. What it holds already is gone on with.
        progress: Called with each test's `Record`.
        stop: Asked after each segment; once true, the session saves and ends.
    """
    entered = time.perf_counter()
    planner.get_ready()
    path = folder.path / CHECKPOINT
    resumed = path.exists()
    last = checkpoint.load(path, planner) if resumed else Checkpoint(planner.start(), 0, 0.0, 0.0)
    runs, done = last.runs, last.episode
    history = _history(planner, folder.cut_metrics(done))
    began = entered - last.seconds
    times: list[tuple[int, float]] = []
    saving, saved_at = 0.0, time.perf_counter()
    stopped = False

    def save() -> None:
        now = Checkpoint(
            runs, done, time.perf_counter() - began, last.compile_seconds + compiling(times)
        )
        checkpoint.save(path, planner, now)
        save_policies(planner, folder, runs)

    for segment in _segments_after(planner, done):
        if stop():
            stopped = True
            break
        before = time.perf_counter()
        runs, metrics, current, best = planner.advance(runs, segment)
        done += segment
        records = make_records(planner, done, metrics, current, best, began)
        times.append((segment, time.perf_counter() - before))
        folder.append(records)
        for past, record in zip(history, records, strict=True):
            past.append(record)
            if progress:
                progress(record)
        if any(planner.fault(run) for run in planner.split(runs)):
            save_policies(planner, folder, runs)  # the checkpoint stays: the last good state
            break
        waited = time.perf_counter() - saved_at
        if done == planner.episodes or stop() or waited * SAVING_SHARE >= saving:
            saving = time.perf_counter()
            save()
            saved_at = time.perf_counter()
            saving = saved_at - saving
    seconds = time.perf_counter() - began
    compiled = last.compile_seconds + compiling(times)
    return Session(make_plan(planner, runs, history, done, seconds, compiled), done, stopped)


def save_policies(planner: Planner, folder: RunFolder, runs: list[Run] | Run) -> None:
    alone = list(planner.split(runs))
    folder.save_policies(
        planner.problem,
        planner.seeds,
        [planner.policy(planner.final(run)) for run in alone],
        [planner.policy(run.best_policy) for run in alone],
    )


def compiling(times: list[tuple[int, float]]) -> float:
    return compile_time(times) if times else 0.0


def _segments_after(planner: Planner, episode: int) -> list[int]:
    """The segments that are left after this many episodes."""
    done = 0
    left = []
    for segment in planner.segments:
        if done >= episode:
            left.append(segment)
        done += segment
    return left


def _history(planner: Planner, records: list[Record]) -> list[list[Record]]:
    return [[record for record in records if record.seed == seed] for seed in planner.seeds]
