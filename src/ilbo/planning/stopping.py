"""Rules that end training before its last episode."""

from __future__ import annotations

from collections.abc import Sequence

from ilbo.errors import check_setting
from ilbo.planning.loop import Hook, Moment
from ilbo.planning.records import Record


class Patience(Hook):
    """Ends training once so many tests in a row have brought no seed a better policy."""

    def __init__(self, tests: int, since: int = 0):
        """`since`: the episode after which tests count."""
        good = isinstance(tests, int) and tests >= 1
        check_setting(good, "patience", "a whole number of at least 1", tests)
        self.tests, self.since = tests, since

    def stop(self, moment: Moment) -> str | None:
        waits = [without_improvement(past, self.since) for past in moment.history]
        return "patience" if min(waits) >= self.tests else None


class Target(Hook):
    """Ends training once every seed's policy earns so much on the test."""

    def __init__(self, mean: float):
        good = isinstance(mean, int | float) and abs(mean) < float("inf")
        check_setting(good, "target", "a number", mean)
        self.mean = mean

    def stop(self, moment: Moment) -> str | None:
        reached = [past and past[-1].current >= self.mean for past in moment.history]
        return "target" if all(reached) else None


def rules(patience: int | None, target: float | None, since: int = 0) -> list[Hook]:
    """The rules that were given."""
    found: list[Hook] = []
    if patience is not None:
        found.append(Patience(patience, since))
    if target is not None:
        found.append(Target(target))
    return found


def without_improvement(history: Sequence[Record], since: int = 0) -> int:
    """Tests, after an episode, since the best one."""
    tests = [record for record in history if record.episode > since]
    last = max((i for i, test in enumerate(tests) if _is_better(tests, i)), default=-1)
    return len(tests) - 1 - last if tests else 0


def _is_better(tests: Sequence[Record], i: int) -> bool:
    return i == 0 or tests[i].best > tests[i - 1].best
