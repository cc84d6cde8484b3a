"""Trials: settings that Optuna proposes, trained, tested on the same noise, given up early."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ilbo.errors import PlanningWarning, UserError
from ilbo.mdp.evaluate import Evaluation, evaluate
from ilbo.mdp.problem import Problem
from ilbo.planning import loop
from ilbo.planning.config import ILBO
from ilbo.planning.loop import Hook, Moment
from ilbo.planning.records import Plan
from ilbo.runs.results import evaluate_fresh
from ilbo.storage.cache import programs_folder
from ilbo.storage.programs import Kept
from ilbo.tune.folder import JOURNAL
from ilbo.tune.space import Range

TRIAL_NOISE = 0x7121
"""Seed of the noise that all trials are judged on; neither tests nor results use it."""
TRIAL_EPISODES = 1024
FIRST = 4
"""Trials that nothing is given up before."""
Say = Callable[[str], None]


class GiveUp(Hook):
    """Tells Optuna of each test, and ends a trial that it gives up."""

    def __init__(self, trial: Any):
        self.trial, self.told = trial, 0

    def stop(self, moment: Moment) -> str | None:
        if moment.episode > self.told:
            self.told = moment.episode
            self.trial.report(tested(moment), moment.episode)
            if self.trial.should_prune():
                return "given up"
        return None


def tested(moment: Moment) -> float:
    """What the seeds earned in their last test."""
    return float(np.mean([past[-1].current for past in moment.history]))


@dataclasses.dataclass(frozen=True)
class Trials:
    """What all trials of a study share."""

    problem: Problem
    base: ILBO
    space: Mapping[str, Range]
    seeds: tuple[int, ...]

    def settings(self, chosen: Mapping[str, Any]) -> ILBO:
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in chosen.items()
        }
        return dataclasses.replace(self.base, **values)

    def train(self, config: ILBO, seeds: Sequence[int], hooks: Sequence[Hook] = ()) -> Plan:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PlanningWarning)
            return loop.plan(
                self.problem,
                config,
                seeds=seeds,
                hooks=hooks,
                keep=lambda trainer: Kept.of(programs_folder(), trainer),
            )

    def earned(self, config: ILBO, seeds: Sequence[int]) -> list[np.ndarray]:
        """What policies trained with these seeds earn in fresh episodes, the same for all."""
        plan = self.train(config, seeds)
        evaluations = evaluate_fresh(self.problem, plan.policies)
        return [evaluation.discounted_returns for evaluation in evaluations]

    def judge(self, plan: Plan) -> float:
        """Mean return of the final policies, the same noise for all trials."""
        return float(np.mean([self._evaluated(policy).discounted_mean for policy in plan.policies]))

    def _evaluated(self, policy: Any) -> Evaluation:
        return evaluate(self.problem, policy, TRIAL_NOISE, TRIAL_EPISODES)


def open_study(folder: Path, seed: int, patience: int) -> Any:
    """The study in a folder, with its trials so far.

    No trial is given up before it has had so many episodes as `patience`.
    """
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError as error:
        raise UserError(
            "Tuning needs the package optuna, which is not installed: pip install 'ilbo[tune]'."
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        storage = JournalStorage(JournalFileBackend(str(folder / JOURNAL)))
        study = optuna.create_study(
            storage=storage, study_name="ilbo", direction="maximize", load_if_exists=True
        )
    except (UserError, OSError):
        raise
    except Exception as error:
        raise UserError(
            f"{str(folder / JOURNAL)!r} cannot be read as trials ({error}): choose another --out."
        ) from None
    # A study that goes on must not draw the same settings again.
    # Nor, where several run at once, settings close to those under way.
    with no_experiments():
        seed += len(study.trials)
        study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    study.pruner = optuna.pruners.MedianPruner(
        n_startup_trials=FIRST, n_warmup_steps=patience, n_min_trials=2
    )
    return study


@contextlib.contextmanager
def no_experiments() -> Iterator[None]:
    """Without Optuna's word that what is used here is an experiment, as early versions call it:
    nothing that users could act on."""
    from optuna.exceptions import ExperimentalWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield


def counted(study: Any) -> list[Any]:
    """The trials that have come to an end, by themselves or given up."""
    return [trial for trial in study.trials if trial.state.name in ("COMPLETE", "PRUNED")]


def put_in_order(study: Any, trials: Trials) -> None:
    """Has trials that were killed tried again; the first trial changes nothing."""
    from optuna.trial import TrialState

    for trial in study.trials:
        if trial.state == TrialState.RUNNING:
            study.tell(trial.number, state=TrialState.FAIL)
            if trial.params:
                study.enqueue_trial(trial.params)
    if not study.trials:
        values = {n: r.parameter(getattr(trials.base, n)) for n, r in trials.space.items()}
        study.enqueue_trial({name: value for name, value in values.items() if value is not None})


@dataclasses.dataclass(frozen=True)
class Asked:
    """A trial that Optuna wants."""

    trial: Any
    chosen: Mapping[str, Any]

    def __str__(self) -> str:
        return f"trial {self.trial.number}"


@dataclasses.dataclass(frozen=True)
class Ended:
    """What came of a trial."""

    episode: int = 0
    value: float | None = None
    """None where it was given up."""
    fault: UserError | None = None


def attempt(trials: Trials, chosen: Mapping[str, Any], hook: Hook) -> Ended:
    """Trains and judges; has no effect but what the hook does."""
    try:
        plan = trials.train(trials.settings(chosen), trials.seeds, [hook])
        given_up = plan.ending == "given up"
        return Ended(plan.episode, None if given_up else trials.judge(plan))
    except UserError as error:
        return Ended(fault=error)


class Asking:
    """Goes on with a study until so many trials have ended, each told to it once."""

    def __init__(self, study: Any, trials: Trials, count: int, say: Say):
        self.study, self.trials, self.count, self.say = study, trials, count, say
        put_in_order(study, trials)
        self.left = count - len(counted(study))
        self.running = 0

    def ask(self) -> Asked | None:
        """The next trial; None where enough have been asked for."""
        if self.left < 1:
            return None
        self.left -= 1
        self.running += 1
        trial = self.study.ask()
        chosen = {name: setting.suggest(trial) for name, setting in self.trials.space.items()}
        return Asked(trial, chosen)

    def done(self, asked: Asked, ended: Ended) -> None:
        """Tells the study; raises the fault of a trial that shows the problem itself at fault."""
        from optuna.trial import TrialState

        self.running -= 1
        before = len(counted(self.study))
        if ended.value is not None:
            self.study.tell(asked.trial, ended.value)
            outcome = f"{ended.value:,.2f}, best {self.study.best_value:,.2f}"
        elif ended.fault is None:
            self.study.tell(asked.trial, state=TrialState.PRUNED)
            outcome = f"given up after {ended.episode} episodes"
        else:
            untuned = self.trials.settings(asked.chosen) == self.trials.base
            hopeless = untuned or not (before or self.running)
            state = TrialState.FAIL if hopeless else TrialState.PRUNED
            self.study.tell(asked.trial, state=state)
            if hopeless:
                raise ended.fault
            outcome = f"given up: {ended.fault}"
        said = ", ".join(f"{name} {_short(value)}" for name, value in asked.chosen.items())
        self.say(f"trial {before + 1}/{self.count}: {outcome}  ({said})")


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
