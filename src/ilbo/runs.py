"""Run folders: what a training run leaves on disk, readable at any moment of it.

config.toml      problem, seeds and every setting; `ilbo plan --config` takes it
meta.json        the problem, versions of all that matters, commit, device
metrics.jsonl    one line a test: the fields of `ilbo.planner.Record`
checkpoint.ilbo  all that resuming needs
policy.ilbo      the current policy; best.ilbo the one that tested best
                 (of several seeds: in the folders seed-0, seed-1, ...)
result.json      the final result; there once the run has finished
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ilbo import __version__, settings
from ilbo.config import ILBO
from ilbo.errors import UserError
from ilbo.files import (
    cannot_write,
    read_json,
    read_text,
    remove_temporaries,
    write_atomically,
    write_json,
    write_text,
)
from ilbo.identity import describe, rebuild
from ilbo.model import Problem
from ilbo.networks import Policy
from ilbo.planner import Record
from ilbo.policyfile import BEST, FINAL, read_policy, target, write_policy
from ilbo.versions import environment

CONFIG, META, METRICS = "config.toml", "meta.json", "metrics.jsonl"
CHECKPOINT, RESULT, LOCK = "checkpoint.ilbo", "result.json", ".lock"
CURVE, TRAJECTORIES, REPORT, TENSORBOARD = (
    "curve.png",
    "trajectories.png",
    "report.html",
    "tensorboard",
)
FORMAT = 1


@dataclass(frozen=True)
class SavedRun:
    """A run folder, read."""

    path: Path
    config: ILBO
    seeds: tuple[int, ...]
    description: dict[str, Any]
    """The problem, as `ilbo.identity.describe` gives it."""
    meta: dict[str, Any]
    history: list[list[Record]]
    """The tests so far, one list a seed."""
    result: dict[str, Any] | None
    """What `ilbo plan --json` printed; None while the run has not finished."""

    @property
    def name(self) -> str:
        return self.path.name

    def problem(self) -> Problem:
        """The problem, built again."""
        return rebuild(self.description)

    def policies(self, problem: Problem, best: bool = False) -> list[Policy]:
        """The final policies (or those that tested best), one a seed."""
        name = BEST if best else FINAL
        folders = seed_folders(self.path, self.seeds)
        return [read_policy(folder / name, problem) for folder in folders]


def is_run(path: str | Path) -> bool:
    return os.path.isfile(Path(path) / CONFIG)  # False, not an error, for impossible names


def read_run(path: str | Path) -> SavedRun:
    """Reads a run folder, finished or not."""
    path = Path(path)
    if not is_run(path):
        raise UserError(f"There is no run in the folder {str(path)!r}.")
    config, seeds = _read_config(path / CONFIG)
    meta = read_json(path / META)
    if not isinstance(meta, dict) or not isinstance(meta.get("problem"), dict):
        raise UserError(f"{str(path / META)!r} is damaged: it does not say which problem it is.")
    if not isinstance(meta.get("format"), int) or meta["format"] > FORMAT:
        raise UserError(
            f"{str(path)!r} was written by a newer version of ilbo ({meta.get('ilbo')}); "
            f"this is {__version__}: update ilbo."
        )
    result = read_json(path / RESULT) if (path / RESULT).exists() else None
    records = read_records(path / METRICS)
    history = [[record for record in records if record.seed == seed] for seed in seeds]
    return SavedRun(path, config, seeds, meta["problem"], meta, history, result)


def read_records(path: Path) -> list[Record]:
    """The tests in a metrics file; a last line cut short by a crash is left out."""
    if not path.exists():
        return []
    records = []
    names = [field.name for field in dataclasses.fields(Record)]
    for line in read_text(path).splitlines():
        try:
            values = json.loads(line)
            numbers: list[Any] = [
                math.nan if values[name] is None else values[name] for name in names
            ]
        except (ValueError, KeyError, TypeError):
            continue
        records.append(Record(*numbers))
    return records


def seed_folders(path: Path, seeds: Sequence[int]) -> list[Path]:
    """Where the policies of each seed lie."""
    return [path] if len(seeds) == 1 else [path / f"seed-{seed}" for seed in seeds]


class RunFolder:
    """A run folder being written, locked against others until `close`."""

    def __init__(self, path: Path):
        self.path = path
        self._target: dict[str, Any] | None = None
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = open(path / LOCK, "a")  # noqa: SIM115
        except OSError as error:
            raise cannot_write(path, error) from error
        try:
            _lock(self._lock)
        except BlockingIOError:
            self._lock.close()
            raise UserError(
                f"The folder {str(path)!r} is in use by another run; wait for it or choose another."
            ) from None
        remove_temporaries(path)

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
    ) -> RunFolder:
        """A new run in the folder, which is made if need be.

        Args:
            path: The folder; it must be empty unless `overwrite`.
            problem: What the run plans for.
            config: All settings, the number of episodes among them.
            seeds: Successive seeds.
            overwrite: Whether an earlier run in the folder may go. Files that are not of a run
                are never touched.
            named: The problem and instance as a user calls them; the problem's name if None.
        """
        path = Path(path)
        if not overwrite:
            _refuse_if_taken(path)
        folder = cls(path)
        try:
            folder._clear()
            name, instance = named or (problem.name, None)
            described = {"problem": name, "instance": instance, "seed": seeds[0]}
            values = {**described, "seeds": len(seeds), **config.to_dict()}
            meta = {"format": FORMAT, "created": datetime.now(UTC).isoformat(timespec="seconds")}
            write_json(path / META, {**meta, **environment(), "problem": describe(problem)})
            comment = f"Written by ilbo {__version__}; `ilbo plan --config` takes this file."
            write_text(path / CONFIG, settings.write(values, comment))
        except BaseException:
            folder.close()
            raise
        return folder

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
        """Removes the files of an earlier run, those first that make it one."""
        known = (CONFIG, RESULT, CHECKPOINT, METRICS, META, FINAL, BEST)
        try:
            for name in (*known, CURVE, TRAJECTORIES, REPORT):
                (self.path / name).unlink(missing_ok=True)
            shutil.rmtree(self.path / TENSORBOARD, ignore_errors=True)
            for seed in self.path.glob("seed-*"):
                for name in (FINAL, BEST):
                    (seed / name).unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    seed.rmdir()
        except OSError as error:
            raise cannot_write(self.path, error) from error


def unused_folder(root: Path, name: str, seeds: Sequence[int]) -> Path:
    """A folder for a run that is not there yet, claimed by making it."""
    slug = re.sub(r"[^\w.()-]+", "-", name.removesuffix(".rddl")).strip("-.") or "run"
    stem = f"{slug}-{seeds[0]}" + (f"to{seeds[-1]}" if len(seeds) > 1 else "")
    number = 1
    while True:
        path = root / (stem if number == 1 else f"{stem}-{number}")
        try:
            root.mkdir(parents=True, exist_ok=True)
            path.mkdir()
            return path
        except FileExistsError:
            if not os.path.isdir(root):
                raise UserError(f"{str(root)!r} is not a folder.") from None
            number += 1
        except OSError as error:
            raise cannot_write(path, error) from error


def _refuse_if_taken(path: Path) -> None:
    if is_run(path):
        held = read_run(path)
        state = "a finished" if held.result else "an unfinished"
        go_on = "" if held.result else f"go on with it by `ilbo plan --resume {path}`, "
        raise UserError(
            f"The folder {str(path)!r} holds {state} run of {held.description['name']}: {go_on}"
            "choose another --out, or replace it with --overwrite."
        )
    if os.path.isdir(path) and any(entry.name != LOCK for entry in path.iterdir()):
        raise UserError(
            f"The folder {str(path)!r} is not empty and holds no run: choose another --out, "
            "or write into it with --overwrite."
        )


def _read_config(path: Path) -> tuple[ILBO, tuple[int, ...]]:
    values = settings.read(path)
    missing = [key for key in ("problem", "seed", "seeds") if key not in values]
    if missing:
        raise UserError(f"{str(path)!r} does not set {missing[0]!r}.")
    seeds = tuple(range(values["seed"], values["seed"] + values["seeds"]))
    return settings.config("default", values), seeds


def _line(record: Record) -> str:
    values = dataclasses.asdict(record)
    plain = {
        k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()
    }
    return json.dumps(plain) + "\n"


def _lock(file: Any) -> None:
    """Takes the lock, which ends with the process; where there are no locks, does without."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        pass


def relative(path: Path) -> str:
    """The path as a user in this folder would type it."""
    with contextlib.suppress(ValueError):
        return str(path.resolve().relative_to(Path.cwd()))
    return os.fspath(path)
