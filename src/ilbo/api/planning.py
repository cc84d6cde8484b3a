"""`ilbo.plan` and `ilbo.resume`: training as the command line does it, from Python."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ilbo.api.interruption import first_interrupt_noted
from ilbo.api.progress import Bar
from ilbo.errors import UserError
from ilbo.loggers.logger import Logger
from ilbo.loggers.names import loggers
from ilbo.mdp.problem import Problem
from ilbo.mdp.shapes import Whole
from ilbo.nn.policy import Policy
from ilbo.notes import note
from ilbo.planning import loop
from ilbo.planning.config import ILBO
from ilbo.planning.ilbo import ILBOTrainer
from ilbo.planning.loop import Hook, Moment, Start, StopWhen, Tell
from ilbo.planning.planner import Planner
from ilbo.planning.records import Plan, Progress
from ilbo.planning.stopping import rules
from ilbo.planning.trainer import Trainer
from ilbo.planning.warm_start import WarmStart
from ilbo.registry.names import make
from ilbo.runs.finish import finish
from ilbo.runs.folder import RunFolder
from ilbo.runs.further import LENGTH, earlier_policy, hooks_of, prolonged
from ilbo.runs.recorder import Recorder
from ilbo.runs.saved import read_run
from ilbo.storage.cache import keep_compiled_programs, programs_folder
from ilbo.storage.programs import Kept

SILENCE = 3.0
"""Seconds after which it is said that a program is being compiled."""


def plan(
    problem: Problem | str | Path,
    config: ILBO | Mapping[str, Any] | None = None,
    *,
    seed: Whole = 0,
    seeds: Whole | Sequence[Whole] | None = None,
    episodes: Whole | None = None,
    seconds: float | None = None,
    patience: int | None = None,
    target: float | None = None,
    warm_start: Policy | str | Path | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress | Literal["bar"] | None = None,
    log: str | Logger | Iterable[str | Logger] = (),
) -> Plan:
    """Trains a deep reactive policy by iterative lower bound optimisation.

    Ctrl-C ends training after its segment and returns what was found, with the `ending`
    "stopped"; pressed twice, it raises `KeyboardInterrupt`.

    Args:
        problem: What to plan for: a `Problem`, or what `ilbo.make` takes, such as "navigation-3" or
            "battery.py:problem", whose file is run.
        config: Settings; the defaults if None.
        seed: Seed of the run, or of the first of several.
        seeds: How many runs, with seeds `seed`, `seed` + 1, ...; or their seeds.
        episodes: Training episodes of each run; the config's if None.
        seconds: Seconds to train for instead, compiling included.
        patience: Ends training after so many tests in a row without a better policy.
        target: Ends training once the policy's mean return on the test is as high as this.
        warm_start: The policy to begin with, or the path of its file or run folder; it may be of
            another problem with as many states and actions.
        out: Run folder to write, as `ilbo plan` does: settings, metrics, checkpoints, policies,
            result and pictures. Nothing is written if None.
        overwrite: Whether an earlier run in that folder may go.
        progress: "bar" for a bar, or a function that is called with each test's `Record` as
            training goes on, and with the policy tested too if it takes two arguments. Returning
            `ilbo.STOP`, it ends training.
        log: Other programs to tell of the run: "tensorboard", "mlflow", "wandb", or loggers of
            `ilbo.loggers`; one or several.

    >>> problem = ilbo.make("navigation-3")
    >>> plan = ilbo.plan(problem, ilbo.ILBO(layers=(32,)), episodes=5)
    >>> plan.policy(problem.initial_state).shape
    (2,)
    """
    keep_compiled_programs()
    if isinstance(problem, str | Path):
        problem = make(problem)
    config = loop.as_settings(config)
    hooks = rules(patience, target)
    first = None
    if warm_start is not None:
        maker = config.policy
        first = earlier_policy(warm_start, problem, maker if callable(maker) else None)
        hooks.append(WarmStart(first))
    by_clock = seconds if episodes is not None else (seconds or config.seconds)
    writing = None
    if out is not None:
        asked = {"patience": patience, "target": target}
        writing = _Writing(Path(out), overwrite, by_clock, asked, first)
    with (
        loggers(log, None if out is None else Path(out)) as told,
        _watched(progress, by_clock) as watching,
        writing or contextlib.nullcontext(),
    ):
        found = loop.plan(
            problem,
            config,
            seed=seed,
            seeds=seeds,
            episodes=episodes,
            seconds=seconds,
            hooks=[*([writing] if writing else []), *hooks, *watching, *told],
            keep=_kept,
        )
        if writing:
            told.close(writing.finish(found))
    return found


def resume(
    path: str | Path,
    problem: Problem | None = None,
    *,
    episodes: int | None = None,
    seconds: float | None = None,
    patience: int | None = None,
    target: float | None = None,
    progress: Progress | Literal["bar"] | None = None,
    log: str | Logger | Iterable[str | Logger] = (),
    trust: bool = False,
) -> Plan:
    """Goes on with the run in a folder, to the same policy bit for bit as if it had not stopped;
    or trains it further.

    Args:
        path: The run folder.
        problem: Its problem, where that is a model of your own; others are built again.
        episodes: Episodes in all, if more than the run was begun for: learning rates and
            exploration stretch over the whole, and so go up again where the run had finished.
        seconds: Seconds in all, likewise.
        patience: As in `plan`; counted from here on where the run is trained further.
        target: As in `plan`.
        progress: As in `plan`.
        log: As in `plan`.
        trust: Whether the Python file that the folder names as the problem's source may be run.

    A run that has finished is returned as it is, unless it is trained further.
    """
    keep_compiled_programs()
    saved = read_run(path)
    given = {"episodes": episodes, "seconds": seconds, "patience": patience, "target": target}
    asked = {name: given[name] for name in LENGTH if given[name] is not None}
    done = max((past[-1].episode for past in saved.history if past), default=0)
    longer = prolonged(saved, asked) if asked else saved
    owner = saved.checked(problem) if problem is not None else saved.problem(trust)
    config = longer.config
    trainer = ILBOTrainer.of(owner, config, config.most_episodes)
    planner = Planner(trainer, saved.seeds, config.most_episodes, programs=_kept(trainer))
    with (
        loggers(log, saved.path) as told,
        RunFolder(saved.path) as folder,
        _watched(progress, config.seconds, done) as watching,
    ):
        if asked:
            folder.prolong(longer)
        ended = [StopWhen(lambda: True, "finished")] if longer.result is not None else []
        hooks = [*ended, *hooks_of(longer, owner), *watching, *told]
        found = loop.train(planner, [Recorder(folder), *hooks], seconds=config.seconds)
        if found.is_finished and longer.result is None:
            told.close(finish(folder, found))
    return found


class _Writing(Hook):
    """The run folder of a plan: made once the settings are known to be right, then recorded."""

    def __init__(
        self,
        path: Path,
        overwrite: bool,
        seconds: float | None,
        asked: dict[str, Any],
        warm_start: Policy | None,
    ):
        self.path, self.overwrite, self.seconds = path, overwrite, seconds
        self.asked, self.warm_start = asked, warm_start
        self.folder: RunFolder | None = None

    def __enter__(self) -> _Writing:
        return self

    def __exit__(self, *_: object) -> None:
        if self.folder:
            self.folder.close()

    def begin(self, planner: Planner) -> Start | None:
        config = planner.config
        if config.holds_code:
            raise UserError(
                "A run folder cannot hold a network or an estimator of your own: plan without `out`"
                " and save the policy with `ilbo.save_policy`."
            )
        if self.seconds is None:
            config = dataclasses.replace(config, episodes=planner.episodes, seconds=None)
        else:
            config = dataclasses.replace(config, seconds=float(self.seconds))
        seeds = planner.seeds
        if seeds != tuple(range(seeds[0], seeds[0] + len(seeds))):
            raise UserError(f"The seeds of a run folder are successive numbers, got {list(seeds)}.")
        self.folder = RunFolder.create(
            self.path,
            planner.problem,
            config,
            seeds,
            overwrite=self.overwrite,
            rules=self.asked,
            warm_start=self.warm_start,
        )
        self.recorder = Recorder(self.folder)
        return self.recorder.begin(planner)

    def after(self, moment: Moment) -> None:
        self.recorder.after(moment)

    def finish(self, plan: Plan) -> dict[str, Any] | None:
        """The result; None where the plan has not come to its end."""
        return finish(self.folder, plan) if self.folder and plan.is_finished else None


def _kept(trainer: Trainer) -> Kept | None:
    return Kept.of(programs_folder(), trainer)


@contextlib.contextmanager
def _watched(
    progress: Progress | Literal["bar"] | None, seconds: float | None, done: int = 0
) -> Iterator[list[Hook]]:
    """The hooks that tell how training goes, and the one that hears Ctrl-C."""
    if isinstance(progress, str) and progress != "bar":
        raise UserError(f'progress must be "bar" or a function of a record, got {progress!r}.')
    with first_interrupt_noted() as interrupted, contextlib.ExitStack() as stack:
        hooks: list[Hook] = [StopWhen(interrupted)]
        if progress == "bar":
            hooks.append(stack.enter_context(Bar(seconds, done)))
        else:
            hooks.append(stack.enter_context(_Compiling()))
            hooks += [Tell(progress)] if callable(progress) else []
        yield hooks


class _Compiling(Hook):
    """Says so on standard error where the first segment lets one wait."""

    def __init__(self) -> None:
        self.timer = threading.Timer(SILENCE, self._tell)
        self.timer.daemon = True

    def __enter__(self) -> _Compiling:
        return self

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()

    def begin(self, planner: Planner) -> None:
        self.program = planner.prepare()
        self.timer.start()

    def after(self, moment: Moment) -> None:
        self.timer.cancel()

    def _tell(self) -> None:
        if self.program is None or not self.program.done():
            note("ilbo: compiling; what is compiled is kept for the next time ...")
