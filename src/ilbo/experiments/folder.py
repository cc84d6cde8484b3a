"""The folder of the experiments of a scale: one small file for each run, written whole as it
finishes. Experiments find in it what others have trained."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ilbo.errors import UserError
from ilbo.experiments.arms import Arm, Result
from ilbo.storage.files import cannot_write, read_json, remove_temporaries, write_json

MARKER, RUNS, FORMAT = "experiment.json", "runs", 2


class ExperimentFolder:
    """Where the runs of all experiments at one scale lie, and their reports."""

    def __init__(self, path: Path):
        self.path = path
        self.runs = path / RUNS

    @classmethod
    def open(cls, path: str | Path, scale: str) -> ExperimentFolder:
        """The folder, made if need be; refused where it holds anything else."""
        folder = cls(Path(path))
        marker = folder.path / MARKER
        if marker.is_file():
            folder._check(read_json(marker), scale)
        elif folder.path.exists() and not folder.path.is_dir():
            raise UserError(f"{str(path)!r} is not a folder; choose another --out.")
        elif folder.path.is_dir() and any(folder.path.iterdir()):
            raise UserError(
                f"The folder {str(path)!r} is not empty and holds no experiment; "
                "choose another --out."
            )
        try:
            folder.runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(folder.path, error) from error
        if not marker.is_file():
            write_json(marker, {"format": FORMAT, "scale": scale})
        remove_temporaries(folder.runs)
        return folder

    def _check(self, held: Any, scale: str) -> None:
        known = isinstance(held, dict) and {"format", "scale"} <= held.keys()
        if not known or not isinstance(held["format"], int):
            raise UserError(f"{str(self.path / MARKER)!r} is damaged; choose another --out.")
        if held["format"] > FORMAT:
            raise UserError(
                f"The folder {str(self.path)!r} was written by a newer version of ilbo; update it."
            )
        if held["format"] < FORMAT:
            raise UserError(
                f"The folder {str(self.path)!r} was written by an older version of ilbo, whose "
                "experiments did not share their runs; choose another --out."
            )
        if held["scale"] != scale:
            raise UserError(
                f"The folder {str(self.path)!r} holds experiments at scale {held['scale']}, not at "
                f"scale {scale}; choose another --out."
            )

    def file(self, arm: Arm, seed: int) -> Path:
        return self.runs / f"{arm.key}--{seed}.json"

    def missing(self, arm: Arm, seeds: Iterable[int]) -> list[int]:
        """The seeds whose runs are not there yet."""
        return [seed for seed in seeds if not self.file(arm, seed).is_file()]

    def save(self, arm: Arm, results: Iterable[Result]) -> None:
        for result in results:
            record = {"arm": arm.identity, **result.to_dict()}
            write_json(self.file(arm, result.seed), json.loads(json.dumps(record)))

    def results(self, arm: Arm, seeds: Sequence[int]) -> list[Result]:
        """The runs of an arm, all of which must be there."""
        return [self._read(self.file(arm, seed)) for seed in seeds]

    def _read(self, file: Path) -> Result:
        values = read_json(file)
        try:
            return Result.read(values)
        except (KeyError, TypeError):
            raise UserError(
                f"{str(file)!r} is damaged; remove it and run the command again."
            ) from None
