"""A run folder being written."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ilbo.errors import UserError
from ilbo.mdp.problem import Problem
from ilbo.nn.policy import Policy
from ilbo.planning.config import ILBO
from ilbo.planning.records import Record
from ilbo.registry.identity import describe
from ilbo.runs import settings
from ilbo.runs.layout import (
    CHECKPOINT,
    CONFIG,
    CURVE,
    FORMAT,
    LOCK,
    META,
    METRICS,
    MODEL,
    REPORT,
    REPORT_MARK,
    RESULT,
    TENSORBOARD,
    TRAJECTORIES,
    WARM_START,
    is_run,
    seed_folders,
)
from ilbo.runs.saved import SavedRun, read_meta, read_records, read_run
from ilbo.runs.source import Source
from ilbo.storage.environment import environment
from ilbo.storage.files import (
    cannot_write,
    is_temporary,
    lock,
    remove_temporaries,
    write_atomically,
    write_json,
    write_text,
)
from ilbo.storage.policyfile import BEST, FINAL, target, write_policy
from ilbo.version import __version__


class RunFolder:
    """A run folder being written, locked against others until `close`."""

    def __init__(self, path: Path):
        self.path = path
        self._target: dict[str, Any] | None = None
        taken = f"The folder {str(path)!r} is in use by another run; wait for it or choose another."
        self._lock = lock(path, LOCK, taken)
        for part in (path, *_seed_folders_in(path)):
            remove_temporaries(part)

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._lock.close()

    @classmethod
    def create(
        cls,
        path: str | Path,
        problem: Problem,
        config: ILBO,
        seeds: Sequence[int],
        *,
        overwrite: bool = False,
        named: tuple[str, str | None] | None = None,
        rules: Mapping[str, Any] | None = None,
        warm_start: Policy | None = None,
    ) -> RunFolder:
        """A new run in the folder, which is made if need be.

        Args:
            path: The folder; it must be empty unless `overwrite`.
            problem: What the run plans for.
            config: All settings, the number of episodes among them.
            seeds: Successive seeds.
            overwrite: Whether an earlier run in the folder may go. Files that are not of a run
                are never touched.
            named: The problem and instance as a user calls them; if None, the file that the problem
                comes from, or its name.
            rules: When to stop early: `patience` and `target`, where they are given.
            warm_start: The policy to begin with, if not with a fresh one.
        """
        path = Path(path)
        if not overwrite:
            _refuse_if_taken(path)
        folder = cls(path)
        try:
            folder._clear()
            source = Source.of(problem)
            name, instance = named or (source.reference if source else problem.name, None)
            arguments = [f"{k}={v}" for k, v in problem.origin.arguments]
            described = {"problem": name, "instance": instance, "arg": arguments or None}
            described["keep"] = [str(limit) for limit in problem.limits] or None
            run_keys = {**described, "seed": seeds[0], "seeds": len(seeds), **(rules or {})}
            meta = {"format": FORMAT, "created": datetime.now(UTC).isoformat(timespec="seconds")}
            meta |= {**environment(), "problem": describe(problem)}
            if source:
                write_text(path / MODEL, problem.origin.files[0][1])
                meta["source"] = dataclasses.asdict(source)
            if warm_start is not None:
                write_policy(warm_start, path / WARM_START, target(problem))
            write_json(path / META, meta)
            folder._write_settings(run_keys, config.settled(problem.sees_time))
        except BaseException:
            folder.close()
            raise
        return folder

    def prolong(self, saved: SavedRun) -> None:
        """Has the run go on by these settings: it is no longer finished. Killed in between, it
        goes on by the old ones."""
        (self.path / RESULT).unlink(missing_ok=True)
        self._write_settings(saved.run_keys, saved.config)

    def _write_settings(self, run_keys: Mapping[str, Any], config: ILBO) -> None:
        comment = f"Written by ilbo {__version__}; `ilbo plan --config` takes this file."
        write_text(self.path / CONFIG, settings.write({**run_keys, **config.to_dict()}, comment))

    def append(self, records: Iterable[Record]) -> None:
        """Adds lines to the metrics, in the reader's sight at once."""
        path = self.path / METRICS
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.writelines(map(_line, records))
        except OSError as error:
            raise cannot_write(path, error) from error

    def cut_metrics(self, episode: int) -> list[Record]:
        """Drops the tests after this many episodes, which will come again; returns the others."""
        kept = [r for r in read_records(self.path / METRICS) if r.episode <= episode]
        write_atomically(self.path / METRICS, (_line(record).encode() for record in kept))
        return kept

    def save_policies(
        self, problem: Problem, seeds: Sequence[int], final: list[Policy], best: list[Policy]
    ) -> None:
        """Writes the current policies and those that tested best, one of each a seed."""
        if self._target is None:
            self._target = target(problem)
        folders = seed_folders(self.path, seeds)
        for folder, current, tested in zip(folders, final, best, strict=True):
            try:
                folder.mkdir(exist_ok=True)
            except OSError as error:
                raise cannot_write(folder, error) from error
            write_policy(current, folder / FINAL, self._target)
            write_policy(tested, folder / BEST, self._target)

    def _clear(self) -> None:
        """Removes the files of an earlier run, those first that make it one, and no other file."""
        known = [CONFIG, RESULT, CHECKPOINT, METRICS, META, FINAL, BEST, CURVE, TRAJECTORIES]
        known += [WARM_START, *([MODEL] if _holds_copy(self.path) else [])]
        events = self.path / TENSORBOARD
        try:
            for name in known:
                (self.path / name).unlink(missing_ok=True)
            if _is_report(self.path / REPORT):
                (self.path / REPORT).unlink()
            for seed in _seed_folders_in(self.path):
                _remove(seed, (seed / FINAL, seed / BEST))
            if not events.is_symlink():
                for seed in _seed_folders_in(events):
                    _remove(seed, seed.glob("events.out.tfevents.*"))
                _remove(events)
        except OSError as error:
            raise cannot_write(self.path, error) from error


def _refuse_if_taken(path: Path) -> None:
    if is_run(path):
        held = read_run(path)
        state = "a finished" if held.result else "an unfinished"
        go_on = (
            "" if held.result else f"go on with it by `ilbo plan --resume {held.on_command_line}`, "
        )
        raise UserError(
            f"The folder {str(path)!r} holds {state} run of {held.description['name']}: {go_on}"
            "choose another --out, or replace it with --overwrite."
        )
    if os.path.isdir(path) and not _was_never_begun(path):
        raise UserError(
            f"The folder {str(path)!r} is not empty and holds no run: choose another --out, "
            "or write into it with --overwrite."
        )


def _was_never_begun(path: Path) -> bool:
    """Whether the folder holds at most what a run leaves that was killed before its settings were
    written: it has nothing to go on with."""
    held = [entry.name for entry in path.iterdir() if not is_temporary(entry)]
    if META in held:
        try:
            read_meta(path)
        except UserError:
            return False
    return set(held) <= {LOCK, META, MODEL, WARM_START} and (MODEL not in held or META in held)


def _holds_copy(path: Path) -> bool:
    """Whether the model in the folder is the copy that a run has put there."""
    try:
        source = Source.read(read_meta(path).get("source"))
        text = (path / MODEL).read_bytes()
    except (UserError, OSError):
        return False
    return source is not None and hashlib.sha256(text).hexdigest() == source.sha256


def _is_report(path: Path) -> bool:
    """Whether `ilbo report` has written it."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return REPORT_MARK in file.read(1024)


def _remove(folder: Path, files: Iterable[Path] = ()) -> None:
    """Removes the files, and the folder where nothing else is in it."""
    for file in files:
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _seed_folders_in(path: Path) -> list[Path]:
    """Those that are there, of whatever seeds; not what a link leads to."""
    return [
        folder
        for folder in path.glob("seed-*")
        if re.fullmatch(r"seed-\d+", folder.name) and folder.is_dir() and not folder.is_symlink()
    ]


def _line(record: Record) -> str:
    values = dataclasses.asdict(record)
    plain = {
        k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()
    }
    return json.dumps(plain) + "\n"
