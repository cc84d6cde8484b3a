"""The hook that writes a run folder as training goes on, and finds where to go on from."""

from __future__ import annotations

import dataclasses
import time

from ilbo.planning.loop import Hook, Moment, Start
from ilbo.planning.planner import Planner, Seeds
from ilbo.runs import checkpoint
from ilbo.runs.folder import RunFolder
from ilbo.runs.layout import CHECKPOINT

SAVING_SHARE = 0.05
"""Checkpoints take at most about this share of the time; small ones are written every segment."""


class Recorder(Hook):
    """Writes metrics, checkpoints and policies into a run folder.

    The checkpoint is the commit point of a segment: metrics after it are dropped when a run goes
    on, and policies, which are written after it, are written again.
    """

    def __init__(self, folder: RunFolder):
        self.folder = folder
        self._path = folder.path / CHECKPOINT
        self._saved_at, self._took = time.perf_counter(), 0.0

    def begin(self, planner: Planner) -> Start | None:
        start = checkpoint.restore(self._path, planner) if self._path.exists() else None
        records = self.folder.cut_metrics(start.episode if start else 0)
        self._saved_at = time.perf_counter()
        if start is None:
            return None
        self._save_policies(planner, start.seeds)
        history = [[r for r in records if r.seed == seed] for seed in planner.seeds]
        return dataclasses.replace(start, history=history)

    def after(self, moment: Moment) -> None:
        self.folder.append(moment.records)
        if moment.ending == "fault":  # the checkpoint stays: it is the last good state
            self._save_policies(moment.planner, moment.seeds)
            return
        began = time.perf_counter()
        if moment.ending or (began - self._saved_at) * SAVING_SHARE >= self._took:
            checkpoint.save(self._path, moment)
            self._save_policies(moment.planner, moment.seeds)
            self._saved_at = time.perf_counter()
            self._took = self._saved_at - began

    def _save_policies(self, planner: Planner, seeds: Seeds) -> None:
        self.folder.save_policies(planner.problem, planner.seeds, *planner.policies(seeds))
