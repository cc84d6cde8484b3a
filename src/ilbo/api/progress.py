"""How far training has come: a live bar on a terminal or in a notebook, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from ilbo.api.widget import widget
from ilbo.mdp.numbers import precise
from ilbo.notes import note, printable
from ilbo.planning.loop import Hook, Moment
from ilbo.planning.planner import Planner

if TYPE_CHECKING:
    from rich.progress import Progress

    from ilbo.planning.records import Record


WIDE = 120
"""Columns of a terminal that has room for everything on one line."""


class TrainingProgress:
    """Shows the records of one session; with several seeds, their means."""

    def __init__(
        self, title: str, episodes: int, seeds: int, done: int = 0, seconds: float | None = None
    ):
        """`seconds` where these end the run, and not the episodes."""
        self.title, self.episodes = printable(title), episodes
        self.seeds, self.seconds = seeds, seconds
        self.first: tuple[int, float] | None = None
        self.waiting: list[Record] = []
        self.widget = widget(self.title, seconds or episodes)
        self.bar = _bar() if sys.stderr.isatty() and not self.widget else None
        if self.bar is None and not self.widget:
            note(f"{title}: from episode {done}" if done else title)
        elif self.bar is not None:
            if self.bar.console.width < WIDE:
                note(title)
            self.task = self.bar.add_task(
                self.title,
                total=seconds or episodes,
                completed=0 if seconds else done,
                news="compiling ...",
            )

    def __enter__(self) -> TrainingProgress:
        if self.widget:
            self.widget.show()
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def __call__(self, record: Record) -> None:
        self.waiting.append(record)
        if len(self.waiting) < self.seeds:
            return
        records, self.waiting = self.waiting, []
        current = sum(r.current for r in records) / self.seeds
        best = sum(r.best for r in records) / self.seeds
        speed, left = self._pace(record.episode)
        earned = f"now {precise(current)}  best {precise(best)}"
        news = "  ".join(filter(None, (earned, speed, left)))
        reached = record.episode if self.seconds is None else round(record.seconds)
        if self.widget:
            self.widget.update(reached, news)
        elif self.bar is not None:
            narrow = self.bar.console.width < WIDE
            short = "  ".join(filter(None, (left, earned)))
            self.bar.update(self.task, completed=reached, news=short if narrow else news)
        elif self.seconds is None:
            note(f"episode {record.episode:>{len(str(self.episodes))}}/{self.episodes}  {news}")
        else:
            note(f"episode {record.episode}, {record.seconds:.0f}/{self.seconds:g} s  {news}")

    def _pace(self, episode: int) -> tuple[str, str]:
        """Speed since the first test, so that compilation does not count, and the time left."""
        now = time.perf_counter()
        if self.first is None:
            self.first = episode, now
            return "", ""
        speed = (episode - self.first[0]) / max(now - self.first[1], 1e-9)
        if self.seconds is not None:
            return f"{speed:.3g} episodes/s", ""
        left = round((self.episodes - episode) / max(speed, 1e-9))
        return f"{speed:.3g} episodes/s", f"{left // 60}:{left % 60:02} left"


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    console = Console(stderr=True)
    wide = console.width >= WIDE  # else the title stands above, and the bar keeps its place
    return Progress(
        SpinnerColumn(),
        *([TextColumn("{task.description}", markup=False)] if wide else []),
        BarColumn(40 if wide else 14),
        MofNCompleteColumn(),
        TextColumn("{task.fields[news]}", markup=False),
        console=console,
    )


class Bar(Hook):
    """Shows training from Python as the command line does."""

    def __init__(self, seconds: float | None, done: int = 0):
        """`seconds` where these end the run; `done`: episodes of earlier sessions."""
        self.seconds, self.done = seconds, done
        self.shown: TrainingProgress | None = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self.shown:
            self.shown.__exit__()

    def begin(self, planner: Planner) -> None:
        self.shown = of_planner(planner, self.done, self.seconds).__enter__()

    def after(self, moment: Moment) -> None:
        for record in moment.records:
            assert self.shown
            self.shown(record)


def of_planner(planner: Planner, done: int, seconds: float | None) -> TrainingProgress:
    """What shows the training of a planner."""
    first, last = planner.seeds[0], planner.seeds[-1]
    seeds = f"seed {first}" + (f" to {last}" if last != first else "")
    length = f"{planner.episodes} episodes" if seconds is None else f"{seconds:g} seconds"
    title = f"{planner.problem.name}, {seeds}, {length}"
    return TrainingProgress(title, planner.episodes, len(planner.seeds), done, seconds)
