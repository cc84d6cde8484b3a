"""Trials: settings that Optuna proposes, trained, tested on the same noise, given up early."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
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
            tests = [past[-1].current for past in moment.history]
            self.trial.report(float(np.mean(tests)), moment.episode)
            if self.trial.should_prune():
                return "given up"
        return None


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
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"{str(folder / JOURNAL)!r} cannot be read as trials ({error}): choose another --out."
        ) from None
    # A study that goes on must not draw the same settings again.
    study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials))
    study.pruner = optuna.pruners.MedianPruner(
        n_startup_trials=FIRST, n_warmup_steps=patience, n_min_trials=2
    )
    return study


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


def run_trials(study: Any, trials: Trials, count: int, say: Say) -> None:
    """Goes on until so many trials have ended."""
    from optuna.trial import TrialState

    put_in_order(study, trials)
    while (done := len(counted(study))) < count:
        trial = study.ask()
        chosen = {name: setting.suggest(trial) for name, setting in trials.space.items()}
        said = ", ".join(f"{name} {_short(value)}" for name, value in chosen.items())
        try:
            plan = trials.train(trials.settings(chosen), trials.seeds, [GiveUp(trial)])
            value = None if plan.ending == "given up" else trials.judge(plan)
        except UserError as error:
            study.tell(trial, state=TrialState.PRUNED if done else TrialState.FAIL)
            if not done:  # the problem itself is at fault, not what was tried
                raise
            outcome = f"given up: {error}"
        else:
            if value is None:
                study.tell(trial, state=TrialState.PRUNED)
                outcome = f"given up after {plan.episode} episodes"
            else:
                study.tell(trial, value)
                outcome = f"{value:,.2f}, best {study.best_value:,.2f}"
        say(f"trial {done + 1}/{count}: {outcome}  ({said})")


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
