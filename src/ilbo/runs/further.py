"""A run that goes on for longer than it was begun for, and one that begins where another ended."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from ilbo.errors import UserError
from ilbo.mdp.problem import Problem
from ilbo.nn.policy import Maker, Policy
from ilbo.planning.loop import Hook
from ilbo.planning.stopping import rules
from ilbo.planning.warm_start import WarmStart
from ilbo.runs import settings
from ilbo.runs.layout import CHECKPOINT, WARM_START
from ilbo.runs.saved import SavedRun
from ilbo.storage.policyfile import read_policy

LENGTH = ("episodes", "seconds", "patience", "target")
"""What may be said anew of a run that goes on."""


def prolonged(saved: SavedRun, given: dict[str, Any]) -> SavedRun:
    """The run with what is said anew of its length: episodes or seconds in all, rules to stop.

    Rules hold for the run as it goes on now: those that ended it before are gone.
    """
    length = {name: value for name, value in given.items() if name in ("episodes", "seconds")}
    keys = {k: v for k, v in saved.run_keys.items() if k not in ("patience", "target")}
    keys |= {name: given[name] for name in ("patience", "target") if name in given}
    rules(keys.get("patience"), keys.get("target"))  # raises where they make no sense
    if not length:
        if saved.result is not None:
            raise UserError(
                f"The run in {str(saved.path)!r} has finished: say how long to train it in all, "
                "by --episodes or --seconds."
            )
        return dataclasses.replace(saved, run_keys=keys)
    if len(length) == 2:
        raise UserError("Give a number of episodes or of seconds, not both.")
    tests = [past[-1] for past in saved.history if past]
    done = max((test.episode for test in tests), default=0)
    spent = max((test.seconds for test in tests), default=0.0)
    if length.get("episodes", done + 1) <= done:
        raise UserError(
            f"The run in {str(saved.path)!r} has had {done} episodes; --episodes says how many in "
            "all: ask for more."
        )
    if length.get("seconds", spent + 1) <= spent:
        raise UserError(
            f"The run in {str(saved.path)!r} has taken {spent:.0f} seconds; --seconds says how "
            "many in all: ask for more."
        )
    changed = settings.config("default", {**saved.config.to_dict(), "seconds": None, **length})
    return dataclasses.replace(
        saved, config=changed, run_keys={**keys, "further_from": done}, result=None
    )


def hooks_of(saved: SavedRun, problem: Problem) -> list[Hook]:
    """What ends a run early, and what it begins with where it has no checkpoint yet."""
    keys = saved.run_keys
    found = rules(keys.get("patience"), keys.get("target"), keys.get("further_from", 0))
    first = saved.path / WARM_START
    if first.exists() and not (saved.path / CHECKPOINT).exists():
        found.append(WarmStart(read_policy(first, problem, of_same_sizes=True)))
    return found


def earlier_policy(given: Policy | str | Path, problem: Problem, make: Maker | None) -> Policy:
    """The policy to begin with: itself, or that of a file or of a run folder."""
    if isinstance(given, str | Path):
        return read_policy(given, problem, make, of_same_sizes=True)
    if not isinstance(given, Policy):
        raise UserError(
            "The policy to begin with must be one that planning returned, or the path of its file "
            f"or run folder, got an object of type {type(given).__name__}."
        )
    return given
