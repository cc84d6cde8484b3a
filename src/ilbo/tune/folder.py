"""The folder of a study: what is tried, all trials so far, and what came of them.

study.journal   all trials, in Optuna's own format; a study goes on from it
study.json      the problem, the settings that are the same for all trials, and their seeds
space.toml      what is tried
best.toml       the best settings, for `ilbo plan --config`
result.json     the comparison on fresh seeds; there once the study has ended
tuning.html     the page to look at
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ilbo.errors import UserError
from ilbo.storage.files import (
    cannot_write,
    lock,
    read_bytes,
    read_json,
    remove_temporaries,
    write_json,
    write_text,
)

JOURNAL, STUDY, SPACE = "study.journal", "study.json", "space.toml"
BEST, RESULT, PAGE, LOCK = "best.toml", "result.json", "tuning.html", ".lock"


@contextlib.contextmanager
def writing_trials(folder: Path) -> Iterator[None]:
    """Has a disk that takes no more of the journal told by its name; Optuna's errors do without."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS):
            raise cannot_write(folder / JOURNAL, error) from error
        raise


class StudyFolder:
    """The folder, locked against others until the block ends."""

    def __init__(self, path: Path, told: Mapping[str, Any], space: str):
        """`told`: what must be as it was for trials to be comparable."""
        self.path = path
        self._lock = lock(path, LOCK, f"The study in {str(path)!r} is running already.")
        try:
            self._tidy()
            self._begin({**told, "space": space})
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> StudyFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def _tidy(self) -> None:
        """Takes away what a process that was killed has left: temporaries, Optuna's own lock, which
        others would wait for, and the journal's last line where it is not whole."""
        remove_temporaries(self.path)
        journal = self.path / JOURNAL
        try:
            if not ((self.path / STUDY).exists() and journal.exists()):
                return
            for left in self.path.glob(f"{JOURNAL}.lock*"):
                left.unlink()
            text = read_bytes(journal)
            whole = text.rfind(b"\n") + 1
            if whole < len(text):
                os.truncate(journal, whole)
        except OSError as error:
            raise cannot_write(journal, error) from None
        for number, line in enumerate(text[:whole].splitlines(), start=1):
            try:
                json.loads(line)
            except (ValueError, RecursionError):
                raise UserError(
                    f"{str(journal)!r} is damaged: line {number} is no JSON; choose another --out."
                ) from None

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
