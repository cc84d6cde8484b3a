"""What run folders say, as JSON values, looked at again and again while runs go on."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ilbo.errors import UserError
from ilbo.planning.config import ENDLESS
from ilbo.planning.ilbo import count_samples
from ilbo.planning.records import Record
from ilbo.runs import settings
from ilbo.runs.layout import CHECKPOINT, CONFIG, META, METRICS, RESULT, is_run, seed_folders
from ilbo.runs.saved import SavedRun, parse_record, read_run
from ilbo.storage.files import cannot_read
from ilbo.storage.policyfile import FINAL

DEEPEST = 3
"""How far below a folder that was named runs are looked for."""
MOST_RUNS = 200
"""The newest of more are shown."""
MOST_BYTES = 1 << 20
"""Of metrics in one answer."""
SHOWN = ("mean", "std", "best_mean", "means", "test_episodes", "seconds", "compile_seconds")
"""What is told of a result."""


class Folders:
    """The runs in the folders that a user has named; no link out of them is followed."""

    def __init__(self, paths: Sequence[str | Path]):
        """Each path is a run folder, or a folder with runs in it."""
        for path in paths:
            if not os.path.isdir(path):
                raise UserError(f"There is no folder {str(path)!r} to watch.")
        self.roots = [Path(path).resolve() for path in paths]
        self._read: dict[Path, tuple[Any, SavedRun]] = {}

    def found(self) -> dict[str, Path]:
        """The run folders by their keys in the page, the newest first."""
        paths = dict.fromkeys(path for root in self.roots for path in _runs_in(root, DEEPEST))
        newest = sorted(paths, key=lambda path: _stamp(path / CONFIG), reverse=True)
        return {key_of(path): path for path in newest[:MOST_RUNS]}

    def runs(self) -> dict[str, Any]:
        """All that the page shows of runs, their metrics aside."""
        found = self.found()
        names = _names(list(found.values()), self.roots)
        told = [self._tell(key, path, names[path]) for key, path in found.items()]
        return {"now": time.time(), "runs": told}

    def run(self, path: Path) -> SavedRun:
        """The run in a folder, read again where its files have changed."""
        for name in (CONFIG, META, RESULT, METRICS, CHECKPOINT):
            check_inside(path, path / name)
        stamp = tuple(_stamp(path / name) for name in (CONFIG, META, RESULT))
        held = self._read.get(path)
        if held is None or held[0] != stamp:
            held = self._read[path] = stamp, read_run(path)
        return held[1]

    def metrics(self, path: Path, start: int, mark: str) -> dict[str, Any]:
        """The tests from a place in the file on: those of whole lines, and where to go on.

        `mark` is that of the answer before; where the file is another one by now, it is read from
        its beginning, and `anew` is true.
        """
        run, file = self.run(path), path / METRICS
        answer: dict[str, Any] = {"mark": "", "anew": mark != "", "records": [], "next": 0}
        if not os.path.isfile(file):
            return answer
        try:
            with open(file, "rb") as opened:
                status = os.fstat(opened.fileno())
                answer["mark"] = f"{status.st_ino:x}.{_stamp(path / CONFIG)[0]:x}"
                answer["anew"] = mark != answer["mark"] or not 0 <= start <= status.st_size
                start = 0 if answer["anew"] else start
                opened.seek(start)
                data = opened.read(MOST_BYTES)
        except OSError as error:
            raise cannot_read(file, error) from None
        end = data.rfind(b"\n") + 1
        try:
            records = [parse_record(line) for line in data[:end].splitlines()]
        except ValueError as error:
            raise UserError(f"{str(file)!r} is damaged: {error}.") from None
        answer["records"] = [_plain(record) for record in records if record.seed in run.seeds]
        answer |= {"next": start + end, "more": len(data) == MOST_BYTES and end > 0}
        if records:
            answer["samples"] = _samples(run, records[-1].episode)
        return answer

    def _tell(self, key: str, path: Path, name: str) -> dict[str, Any]:
        told: dict[str, Any] = {"key": key, "name": name, "folder": str(path)}
        try:
            run = self.run(path)
        except UserError as error:
            return {**told, "error": str(error)}
        own, episodes = run.config.settled().to_dict(), run.config.episodes
        by_clock = run.config.seconds is not None
        changed = [_stamp(path / name)[0] for name in (CONFIG, METRICS, CHECKPOINT, RESULT)]
        result = (
            {name: run.result[name] for name in SHOWN if name in run.result} if run.result else None
        )
        return {
            **told,
            "problem": run.description["name"],
            "digest": run.description.get("digest"),
            "seeds": list(run.seeds),
            "episodes": None if by_clock or episodes >= ENDLESS else episodes,
            "seconds": run.config.seconds,
            "test_episodes": run.config.test_episodes,
            "changed": max(changed) / 1e9,
            "tests": "{}.{}".format(*_stamp(path / METRICS)),
            "settings": {**_rules(run), **own},
            "usual": settings.usual(run.config),
            "made": {
                name: run.meta.get(name)
                for name in ("created", "ilbo", "commit", "python", "platform", "device")
            },
            "result": result,
            "policies": [
                _stamp(folder / FINAL)[0] for folder in seed_folders(path, run.seeds)
            ],
        }  # fmt: skip


def key_of(path: Path) -> str:
    """What a folder is called in addresses of the page."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def check_inside(folder: Path, file: Path) -> None:
    """Raises where a file of a folder is a link to somewhere else."""
    try:
        inside = file.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # links in a circle
        inside = False
    if not inside:
        raise UserError(f"{str(file)!r} is a link out of its folder, which is not followed.")


def _runs_in(folder: Path, depth: int) -> Iterator[Path]:
    """The run folders at a place and below; not what links lead to, nor what is hidden."""
    if is_run(folder):
        yield folder
        return
    if depth == 0:
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
            yield from _runs_in(folder / entry.name, depth - 1)


def _names(paths: Sequence[Path], roots: Sequence[Path]) -> dict[Path, str]:
    """Folders' names, from the folder on that was named; whole paths where that is not enough."""
    names = {}
    for path in paths:
        root = next(root for root in roots if path.is_relative_to(root))
        names[path] = path.name if path == root else str(path.relative_to(root))
    unique = len(set(names.values())) == len(names)
    return {path: name if unique else str(path) for path, name in names.items()}


def _stamp(path: Path) -> tuple[int, int]:
    """When a file was changed, in nanoseconds, and its size; zeros where it is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _rules(run: SavedRun) -> dict[str, Any]:
    """What else was said of a run: its seeds, and when to stop."""
    rules = {name: run.run_keys.get(name) for name in ("seed", "seeds", "patience", "target")}
    return {name: value for name, value in rules.items() if value is not None}


def _samples(run: SavedRun, episode: int) -> dict[str, int] | None:
    """What one seed has consumed."""
    horizon = run.description.get("horizon")
    if type(horizon) is not int or not 0 < horizon < 2**31:
        return None
    return dataclasses.asdict(count_samples(run.config.settled(), horizon, episode))


def _plain(record: Record) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in dataclasses.asdict(record).items()
    }
