"""Run folders: what a training run leaves on disk, readable at any moment of it.

config.toml      problem, seeds and every setting; `ilbo plan --config` takes it
meta.json        the problem, versions of all that matters, commit, device
model.py         a copy of the Python file that the problem comes from, where it comes from one
metrics.jsonl    one line per test and seed: the fields of `ilbo.Record`
checkpoint.ilbo  all that resuming needs
start.ilbo       the policy that training began with, where it began with an earlier one
policy.ilbo      the current policy; best.ilbo the one that tested best
                 (of several seeds: in the folders seed-0, seed-1, ...)
result.json      the final result; there once the run has finished
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from ilbo.errors import UserError
from ilbo.storage.files import (
    cannot_write,
)

CONFIG, META, METRICS = "config.toml", "meta.json", "metrics.jsonl"
CHECKPOINT, RESULT, LOCK = "checkpoint.ilbo", "result.json", ".lock"
CURVE, TRAJECTORIES = "curve.png", "trajectories.png"
REPORT, TENSORBOARD = "report.html", "tensorboard"
MODEL, WARM_START = "model.py", "start.ilbo"
REPORT_MARK = b'<meta name="generator" content="ilbo '
"""What the head of a report holds, by which it is known for one."""
FORMAT = 1
"""Of the run folder."""


def is_run(path: str | Path) -> bool:
    return os.path.isfile(Path(path) / CONFIG)  # False, not an error, for impossible names


def seed_folders(path: Path, seeds: Sequence[int]) -> list[Path]:
    """Where the policies of each seed lie."""
    return [path] if len(seeds) == 1 else [path / f"seed-{seed}" for seed in seeds]


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


def relative(path: Path) -> str:
    """The path as a user in this folder would type it."""
    with contextlib.suppress(ValueError):
        return str(path.resolve().relative_to(Path.cwd()))
    return os.fspath(path)
