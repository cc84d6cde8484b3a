"""The settings that trials choose from: a TOML file, one table for each setting."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ilbo.errors import UserError, suggest
from ilbo.runs.settings import FIELDS, config
from ilbo.storage.files import read_text

FIXED = ("episodes", "seconds", "evaluate_every", "test_episodes")
"""Settings that make trials comparable, and so are the same for all."""


@dataclass(frozen=True)
class Range:
    """A setting from `low` to `high`, or one of `choices`."""

    name: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: tuple[Any, ...] = ()

    def suggest(self, trial: Any) -> Any:
        """The value that Optuna wants tried."""
        if self.choices:
            # Optuna takes no lists, such as layers: each choice goes by its text.
            return self.value(trial.suggest_categorical(self.name, self.texts))
        if FIELDS[self.name] is int:
            return trial.suggest_int(self.name, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(self.name, self.low, self.high, log=self.log)

    @property
    def texts(self) -> list[str]:
        return [json.dumps(choice) for choice in self.choices]

    def value(self, parameter: Any) -> Any:
        """What a parameter of Optuna's stands for."""
        return json.loads(parameter) if self.choices else parameter

    def parameter(self, value: Any) -> Any:
        """A value as Optuna knows it; None where it is outside of the range."""
        if self.choices:
            value = list(value) if isinstance(value, tuple) else value
            return json.dumps(value) if value in self.choices else None
        return value if isinstance(value, int | float) and self.low <= value <= self.high else None


def read_space(path: Path | None) -> tuple[dict[str, Range], str]:
    """The ranges of a file, or the default ones, and its text; a `UserError` where they make no
    sense."""
    if path is None:
        text = resources.files(__package__).joinpath("space.toml").read_text("utf-8")
    else:
        text = read_text(path)
    where = "The space" if path is None else repr(str(path))
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not valid TOML: {str(error).rstrip('.')}.") from None
    if not values:
        raise UserError(f"{where} names no setting to try.")
    return {name: _range(name, told, where) for name, told in values.items()}, text


def _range(name: str, told: Any, where: str) -> Range:
    if name not in FIELDS:
        hint = suggest(name, FIELDS, "see `ilbo plan --help`.")
        raise UserError(f"{where} has {name!r}, which is no setting; {hint}")
    if name in FIXED:
        raise UserError(f"{where} has {name!r}, which is the same for all trials: leave it out.")
    shapes = ({"choices"}, {"low", "high"}, {"low", "high", "log"})
    if not isinstance(told, dict) or set(told) not in shapes:
        raise UserError(
            f"{name!r} in {where} is told by `low` and `high`, with `log = true` or without, or "
            "by `choices`."
        )
    try:
        if "choices" in told:
            if not isinstance(told["choices"], list) or not told["choices"]:
                raise UserError(f"The choices of {name!r} in {where} are not a list.")
            ends, found = told["choices"], Range(name, choices=tuple(told["choices"]))
        else:
            ends = [told["low"], told["high"]]
            found = Range(name, **told)
            number = all(type(end) in (int, float) for end in ends)
            if not number or not found.low < found.high or FIELDS[name] not in (int, float):
                raise UserError(f"{name!r} in {where} needs numbers, `low` below `high`.")
            if FIELDS[name] is int and any(type(end) is not int for end in ends):
                raise UserError(f"{name!r} in {where} is a whole number, and so are its ends.")
            if type(found.log) is not bool or (found.log and found.low <= 0):
                raise UserError(f"`log` of {name!r} in {where} is for numbers above 0.")
        for end in ends:
            config("default", {name: tuple(end) if isinstance(end, list) else end})
    except TypeError:
        raise UserError(f"The values of {name!r} in {where} make no sense.") from None
    return found
