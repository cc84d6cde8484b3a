"""The folder of a study: what is tried, all trials so far, and what came of them.

study.journal   all trials, in Optuna's own format; a study goes on from it
study.json      the problem, the settings that are the same for all trials, and their seeds
space.toml      what is tried
best.toml       the best settings, for `ilbo plan --config`
result.json     the comparison on fresh seeds; there once the study has ended
tuning.html     the page to look at
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ilbo.errors import UserError
from ilbo.storage.files import lock, read_json, write_json, write_text

JOURNAL, STUDY, SPACE = "study.journal", "study.json", "space.toml"
BEST, RESULT, PAGE, LOCK = "best.toml", "result.json", "tuning.html", ".lock"


class StudyFolder:
    """The folder, locked against others until the block ends."""

    def __init__(self, path: Path, told: Mapping[str, Any], space: str):
        """`told`: what must be as it was for trials to be comparable."""
        self.path = path
        self._lock = lock(path, LOCK, f"The study in {str(path)!r} is running already.")
        try:
            self._begin({**told, "space": space})
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> StudyFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def _begin(self, told: dict[str, Any]) -> None:
        file = self.path / STUDY
        if not file.exists():
            if (self.path / JOURNAL).exists():
                raise UserError(f"{str(self.path)!r} holds trials without {STUDY}: choose another.")
            write_text(self.path / SPACE, told["space"])
            write_json(file, told)
            return
        before = read_json(file)
        held = before if isinstance(before, dict) else {}
        changed = [name for name in told if held.get(name) != told[name]]
        if changed:
            raise UserError(
                f"The study in {str(self.path)!r} was begun with another {changed[0]}: give the "
                "same, or choose another --out."
            )
