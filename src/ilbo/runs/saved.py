"""A run folder, read."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ilbo.errors import UserError
from ilbo.mdp.problem import Problem
from ilbo.nn.policy import Policy
from ilbo.planning.config import ILBO
from ilbo.planning.records import Record
from ilbo.registry.identity import check_description, check_same, rebuild, same
from ilbo.runs import results, settings
from ilbo.runs.layout import CONFIG, FORMAT, META, METRICS, RESULT, is_run, relative, seed_folders
from ilbo.runs.source import Source, refuse_to_run
from ilbo.storage.files import read_json, read_text
from ilbo.storage.policyfile import BEST, FINAL, read_header, read_policy
from ilbo.version import __version__


@dataclass(frozen=True)
class SavedRun:
    """A run folder, read."""

    path: Path
    config: ILBO
    seeds: tuple[int, ...]
    description: dict[str, Any]
    """The problem, as `ilbo.registry.identity.describe` gives it."""
    meta: dict[str, Any]
    history: list[list[Record]]
    """The tests so far, one list per seed."""
    result: dict[str, Any] | None
    """What `ilbo plan --json` printed; None while the run has not finished."""
    source: Source | None = None
    """The Python file that the problem comes from; None where it comes from none."""
    run_keys: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What else its settings say: how the problem is named, and when to stop."""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def on_command_line(self) -> str:
        """The folder as an argument of `ilbo`, with what lets its problem be built again."""
        return f"{relative(self.path)} --trust" if self.source else relative(self.path)

    def can_build(self, trust: bool = False) -> bool:
        """Whether the folder alone tells what the problem is: not where it is a model of the
        user's own, unless its file may be run."""
        return self.description.get("origin") != "python" or (trust and self.source is not None)

    def problem(self, trust: bool = False) -> Problem:
        """The problem, built again; one in a Python file only where that may be run."""
        if self.source is None:
            return self.limited(rebuild(self.description))
        if not trust:
            raise refuse_to_run(self.path, self.source)
        return self.checked(self.source.load(self.path))

    def checked(self, problem: Problem) -> Problem:
        """The problem that a user gives for the run; raises where it cannot be that."""
        check_same(self.description, problem, f"The run {str(self.path)!r}")
        return self.limited(problem)

    def limited(self, problem: Problem) -> Problem:
        """The problem with the limits of the run, whatever its own are."""
        keep = self.run_keys.get("keep", ())
        return problem if keep == [str(x) for x in problem.limits] else problem.with_limits(keep)

    def policies(self, problem: Problem, best: bool = False) -> list[Policy]:
        """The final policies (or those that tested best), one per seed."""
        name = BEST if best else FINAL
        files = [folder / name for folder in seed_folders(self.path, self.seeds)]
        for file in files:
            check_belongs(file, self.description)
        return [read_policy(file, problem) for file in files]


def check_belongs(file: Path, description: dict[str, Any]) -> None:
    """Raises where a policy in a run folder is not for the problem of the run."""
    if not same(read_header(file)["problem"], description):
        raise UserError(
            f"The policy {str(file)!r} was trained for another problem than the run that it lies "
            "in: put the run's own policy back."
        )


def read_run(path: str | Path) -> SavedRun:
    """Reads a run folder, finished or not."""
    path = Path(path)
    if not is_run(path):
        raise UserError(f"There is no run in the folder {str(path)!r}.")
    config, seeds, run_keys = _read_config(path / CONFIG)
    meta = read_meta(path)
    if not isinstance(meta.get("format"), int) or meta["format"] > FORMAT:
        raise UserError(
            f"{str(path)!r} was written by a newer version of ilbo ({meta.get('ilbo')}); "
            f"this is {__version__}: update ilbo."
        )
    result = _read_result(path / RESULT, seeds) if (path / RESULT).exists() else None
    records = read_records(path / METRICS)
    history = [[record for record in records if record.seed == seed] for seed in seeds]
    source = Source.read(meta.get("source"))
    return SavedRun(path, config, seeds, meta["problem"], meta, history, result, source, run_keys)


def read_meta(path: Path) -> dict[str, Any]:
    """What a run folder says about itself, its problem among it."""
    meta = read_json(path / META)
    try:
        check_description(meta.get("problem") if isinstance(meta, dict) else None)
        if not isinstance(meta.get("packages", {}), dict):
            raise ValueError("its packages are not a table")
        if not isinstance(meta.get("command", []), list):
            raise ValueError("its command is not a list")
        Source.read(meta.get("source"))
    except ValueError as error:
        raise UserError(f"{str(path / META)!r} is damaged: {error}.") from None
    return meta


def _read_result(path: Path, seeds: tuple[int, ...]) -> dict[str, Any]:
    result = read_json(path)
    try:
        results.check(result, len(seeds))
    except ValueError as error:
        raise UserError(
            f"{str(path)!r} is damaged: {error}; without the file, `ilbo plan --resume "
            f"{path.parent}` writes it again."
        ) from None
    return result


def read_records(path: Path) -> list[Record]:
    """The tests in a metrics file; a last line cut short by a crash is left out."""
    if not path.exists():
        return []
    records = []
    lines = read_text(path).split("\n")
    for number, line in enumerate(lines, start=1):
        try:
            records.append(parse_record(line))
        except ValueError:
            if number == len(lines):  # empty, or cut short
                break
            raise UserError(
                f"{str(path)!r} is damaged: line {number} is no record of a test; put the line "
                "right, or remove it."
            ) from None
    return records


def parse_record(line: str | bytes) -> Record:
    """A line of the metrics; what was not finite is null there. A `ValueError` if it is none."""
    try:
        return _record(json.loads(line))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("it is no record of a test") from None


def _record(values: dict[str, Any]) -> Record:
    for name in ("seed", "episode"):
        if type(values[name]) is not int or not 0 <= values[name] < 2**53:
            raise ValueError(name)
    names = [field.name for field in dataclasses.fields(Record)]
    figures: dict[str, Any] = {
        name: math.nan if values[name] is None else values[name] for name in names
    }
    for name in names:
        if values[name] is not None and not results.is_figure(values[name]):
            raise ValueError(name)
    return Record(**figures)


def _read_config(path: Path) -> tuple[ILBO, tuple[int, ...], dict[str, Any]]:
    values = settings.read(path)
    missing = [key for key in ("problem", "seed", "seeds") if key not in values]
    if missing:
        raise UserError(f"{str(path)!r} does not set {missing[0]!r}.")
    run_keys = {key: value for key, value in values.items() if key in settings.RUN_KEYS}
    return settings.config("default", values), settings.seeds(values), run_keys
