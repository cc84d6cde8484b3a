"""The hook that all loggers share: what is told of a run, and when."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from ilbo.errors import UserError
from ilbo.notes import note
from ilbo.planning.loop import Hook, Moment
from ilbo.planning.planner import Planner
from ilbo.planning.records import Record

Figures = dict[str, float]


@runtime_checkable
class Track(Protocol):
    """One seed of a run in the eyes of a logger."""

    def write(self, episode: int, figures: Figures) -> None:
        """The figures of a test; all of them are finite."""

    def end(self, final: Figures, finished: bool) -> None:
        """The final figures; nothing comes after them."""


class Logger(Hook, ABC):
    """Tells another program of a run: settings when it begins, figures at each test, and the final
    ones. Each seed is a run of its own there.

        with ilbo.loggers.MLflow() as log:
            ilbo.train(planner, [log])

    Where the other program fails while training goes on, a line says so, and training goes on.
    """

    name: str = "The logger"
    """As users call the program."""
    package: str = ""
    """What must be installed for it, if anything, and the extra of ilbo that brings it."""
    extra: str = ""

    def __init__(self) -> None:
        self.tracks: dict[int, Track] = {}
        self.last: dict[int, Figures] = {}
        self.finished = False
        self.history_told = False

    @abstractmethod
    def track(self, title: str, seed: int, settings: Mapping[str, Any]) -> Track:
        """Begins with a seed. Settings are texts, numbers and truth values."""

    def __enter__(self) -> Logger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, planner: Planner) -> None:
        problem, seeds = planner.problem, planner.seeds
        shared = {"problem": problem.name, "horizon": problem.horizon, **settings_of(planner)}
        for seed in seeds:
            title = f"{problem.name}, seed {seed}"
            self.tracks[seed] = self._open(title, seed, {**shared, "seed": seed})

    def after(self, moment: Moment) -> None:
        """Tells of the last tests; the first time, of those of earlier sessions too."""
        earlier = [] if self.history_told else [r for past in moment.history for r in past]
        self.history_told = True
        for record in earlier or moment.records:
            self._tell(record)
        if moment.ending:
            self.finished = moment.ending not in ("stopped", "fault")
            samples = dataclasses.asdict(moment.planner.trainer.samples(moment.episode))
            clock = moment.clock
            spent = {"seconds": clock.seconds, "compile_seconds": clock.compile_seconds}
            for seed, figures in self.last.items():
                self.last[seed] = {**figures, **samples, **spent}

    def close(self, result: Mapping[str, Any] | None = None) -> None:
        """Tells of the end. `result`: that of `ilbo plan --json`, on fresh episodes, where there
        is one; else the last test's figures are the final ones."""
        for place, seed in enumerate(list(self.tracks)):
            final = {**self.last.get(seed, {}), **(of_seed(result, place) if result else {})}
            self._attempt(seed, functools.partial(self._end, final))
        self.tracks = {}

    def _end(self, final: Figures, track: Track) -> None:
        track.end(final, self.finished)

    @classmethod
    def check_installed(cls) -> None:
        """Raises where the other program is not there."""
        if cls.package and importlib.util.find_spec(cls.package) is None:
            raise UserError(
                f"{cls.name} needs the package {cls.package}, which is not installed: "
                f"pip install 'ilbo[{cls.extra}]'."
            )

    def _open(self, title: str, seed: int, settings: Mapping[str, Any]) -> Track:
        self.check_installed()
        try:
            return self.track(title, seed, settings)
        except Exception as error:
            raise UserError(f"{self.name} cannot be written to: {error}") from error

    def _tell(self, record: Record) -> None:
        figures = dataclasses.asdict(record)
        seed, episode = figures.pop("seed"), figures.pop("episode")
        finite = {name: value for name, value in figures.items() if math.isfinite(value)}
        self.last[seed] = {name: finite[name] for name in ("current", "best") if name in finite}
        self._attempt(seed, lambda track: track.write(episode, finite))

    def _attempt(self, seed: int, use: Callable[[Track], None]) -> None:
        """What another program does must not cost a run."""
        if seed not in self.tracks:
            return
        try:
            use(self.tracks[seed])
        except Exception as error:
            del self.tracks[seed]
            note(f"ilbo: {self.name} fails, and training goes on without it: {error}")


def settings_of(planner: Planner) -> dict[str, Any]:
    """All settings as texts, numbers and truth values."""
    config = planner.config
    values = config.to_dict() if hasattr(config, "to_dict") else dataclasses.asdict(config)
    if values.get("seconds") is None:
        values["episodes"] = planner.episodes
    return {name: plain(value) for name, value in values.items() if value is not None}


def plain(value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return value
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def of_seed(result: Mapping[str, Any], place: int) -> Figures:
    """The figures of a result that are numbers; those of one seed where it has several."""
    each = {"mean": "means", "std": "stds", "best_mean": "best_means"}
    own = {one: result[many][place] for one, many in each.items() if many in result}
    values = {**result, **own}
    return {
        name: float(value)
        for name, value in values.items()
        if type(value) in (int, float) and name != "seed" and math.isfinite(value)
    }
