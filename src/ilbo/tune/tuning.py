"""A study from beginning to end: trials, the check on fresh seeds, files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ilbo.errors import UserError
from ilbo.mdp.problem import Problem
from ilbo.planning.config import ILBO
from ilbo.registry.identity import describe
from ilbo.runs import settings
from ilbo.storage.files import write_json, write_text
from ilbo.tune import folder as files
from ilbo.tune.folder import StudyFolder
from ilbo.tune.outcome import check, page
from ilbo.tune.places import Here, Place
from ilbo.tune.space import read_space
from ilbo.tune.trials import Asking, Trials, counted, open_study

MOST_TRIALS = 100_000


def tune(
    problem: Problem,
    base: ILBO,
    path: Path,
    *,
    trials: int,
    seeds: tuple[int, ...],
    fresh_seeds: int,
    space: Path | None = None,
    fixed: Mapping[str, Any] | None = None,
    named: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = lambda _: None,
    place: Place | None = None,
) -> dict[str, Any]:
    """Looks for the settings that earn most on a problem; returns the result.

    Args:
        problem: What to plan for.
        base: The settings that trials change; also what the best are compared with.
        path: The study's folder; one that holds trials of the same study goes on.
        trials: How many, those that the folder holds included.
        seeds: That every trial is trained with.
        fresh_seeds: How many others best and base settings are trained with in the end.
        space: What is tried, a TOML file; the default one if None.
        fixed: Settings that were given, and so are not tried.
        named: How the problem is called, for the best settings' file.
        say: Called with a line as each trial ends.
        place: Where trials run; here if None.
    """
    if not 1 <= trials <= MOST_TRIALS:
        raise UserError(f"The number of trials must be from 1 to {MOST_TRIALS:,}, got {trials}.")
    if not 1 <= fresh_seeds <= settings.MOST_SEEDS:
        raise UserError(f"The number of fresh seeds must be at least 1, got {fresh_seeds}.")
    if base.seconds is not None:
        raise UserError("Trials have a number of episodes, not of seconds: give --episodes.")
    ranges, text = read_space(space)
    ranges = {name: one for name, one in ranges.items() if name not in (fixed or {})}
    if not ranges:
        raise UserError("Every setting of the space is given: there is nothing to tune.")
    told = {
        "problem": describe(problem),
        "settings": {k: list(v) if isinstance(v, tuple) else v for k, v in base.to_dict().items()},
        "seeds": list(seeds),
    }
    shared = Trials(problem, base, ranges, seeds)
    place = place or Here()
    place.check(shared)
    with StudyFolder(path, told, text) as held:
        with files.writing_trials(held.path):
            study = open_study(held.path, seeds[0], base.episodes // 4)
            place.run(Asking(study, shared, trials, say))
        if not any(trial.state.name == "COMPLETE" for trial in study.trials):
            raise UserError("All trials were given up: try another space, or more of them.")
        best = study.best_trial
        chosen = {name: ranges[name].value(best.params[name]) for name in ranges}
        result = {"problem": problem.name, "trials": len(counted(study)), "best_trial": best.number}
        result |= {"best": chosen, "best_value": best.value, "handed_out": "untuned"}
        config = shared.settings(chosen)
        if config != base:
            say(f"training with {fresh_seeds} fresh seeds, tuned and without tuning ...")
            result |= check(shared, chosen, fresh_seeds, place)
        after = f"{result['trials']} trials of `ilbo tune {problem.name}`."
        comment = f"The best of {after}"
        if result["handed_out"] == "untuned":
            comment, config = f"The settings without tuning, which are no worse after {after}", base
        keys = {**(named or {"problem": problem.name}), "seed": 0, "seeds": 1}
        write_text(held.path / files.BEST, settings.write({**keys, **config.to_dict()}, comment))
        write_text(held.path / files.PAGE, page(study, shared, result))
        write_json(held.path / files.RESULT, result)
    return result
