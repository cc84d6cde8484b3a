"""Settings of a run from presets, TOML files and flags, and back to TOML. Free of JAX."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import reprlib
import textwrap
import tomllib
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union

from ilbo.errors import UserError, check_setting, suggest
from ilbo.planning.config import GROUPS, ILBO
from ilbo.storage.files import read_text

Preset = Literal["default", "paper", "everywhere"]
PRESETS: dict[str, Callable[..., ILBO]] = {
    "default": ILBO,
    "paper": ILBO.paper,
    "everywhere": ILBO.everywhere,
}


def _plain(kind: Any) -> Any:
    """What a file or a flag can give of a type: of a choice between several, the first."""
    if typing.get_origin(kind) in (Union, UnionType):
        return typing.get_args(kind)[0]
    return kind


FIELDS: dict[str, Any] = {name: _plain(kind) for name, kind in typing.get_type_hints(ILBO).items()}
"""The settings of the planner that a file or a flag can give, and their types."""
RUN_KEYS: dict[str, Any] = {
    "problem": str,
    "instance": str,
    "seed": int,
    "seeds": int,
    "preset": Preset,
    "arg": tuple[str, ...],
    "keep": tuple[str, ...],
    "patience": int,
    "target": float,
    "further_from": int,
}
"""What else a file may hold."""

LIMITS = {
    **dict.fromkeys(("draws", "depth", "window", "candidates", "updates"), 10_000),
    **dict.fromkeys(("policy_batch", "critic_batch", "parallel", "guard"), 1_000_000),
    **dict.fromkeys(("test_episodes", "target_every"), 1_000_000),
    **dict.fromkeys(("critic_store", "policy_store"), 100_000_000),
    **dict.fromkeys(("evaluate_every", "episodes"), 10_000_000),
}
"""The most that a file or a flag may ask for: more is a slip, and would take all memory."""
NETWORK = {"layers": 100, "units": 100_000, "weights between them": 100_000_000}
"""The same of the hidden layers."""
MOST_SEEDS = 10_000


def read(path: str | Path) -> dict[str, Any]:
    """The settings in a TOML file: known names, values of the right type."""
    path = Path(path)
    try:
        values = tomllib.loads(read_text(path))
    except RecursionError:
        raise UserError(f"{str(path)!r} is not valid TOML: it is nested too deeply.") from None
    except ValueError as error:
        raise UserError(f"{str(path)!r} is not valid TOML: {str(error).rstrip('.')}.") from None
    known = RUN_KEYS | FIELDS
    for name, value in values.items():
        if name not in known:
            hint = suggest(name, known, f"there are: {', '.join(known)}.")
            raise UserError(f"{str(path)!r} sets {name!r}, which is no setting; {hint}")
        if not _fits(value, known[name]):
            wanted, given = _named(known[name]), reprlib.repr(value)
            raise UserError(f"{name!r} in {str(path)!r} must be {wanted}: {given}.")
    return values


def write(values: Mapping[str, Any], comment: str = "") -> str:
    """The settings as TOML, those that are None left out; the planner's stand in their groups."""
    grouped = set(itertools.chain(*GROUPS.values()))
    sections = [(comment, [name for name in values if name not in grouped]), *GROUPS.items()]
    blocks = []
    for title, names in sections:
        lines = [
            f"{name} = {_toml(values[name])}" for name in names if values.get(name) is not None
        ]
        if lines:
            blocks.append("\n".join([*(f"# {line}" for line in title.splitlines()), *lines]))
    return "\n\n".join(blocks) + "\n"


def config(preset: str, *layers: Mapping[str, Any]) -> ILBO:
    """The preset with changes laid over it, later ones over earlier ones."""
    changes: dict[str, Any] = {}
    for layer in layers:
        changes |= {name: value for name, value in layer.items() if name in FIELDS}
    chosen = PRESETS[preset](**changes)
    for name, most in LIMITS.items():
        value = getattr(chosen, name)
        check_setting(value <= most, name, f"at most {most:,}", value)
    wanted = "at most " + ", ".join(f"{most:,} {what}" for what, most in NETWORK.items())
    for name in ("layers", "shared_layers"):
        units = getattr(chosen, name)
        weights = sum(inputs * outputs for inputs, outputs in itertools.pairwise(units))
        sizes = zip((len(units), sum(units), weights), NETWORK.values(), strict=True)
        check_setting(all(size <= most for size, most in sizes), name, wanted, units[:6])
    return chosen


def usual(chosen: ILBO) -> dict[str, Any]:
    """The defaults that a run's settings are compared with."""
    return ILBO(seconds=chosen.seconds).settled().to_dict() | {"seconds": None}


def seeds(values: Mapping[str, Any]) -> tuple[int, ...]:
    """The successive seeds of a run."""
    first, count = values.get("seed", 0), values.get("seeds", 1)
    if not 1 <= count <= MOST_SEEDS:
        raise UserError(f"The number of seeds must be from 1 to {MOST_SEEDS:,}, got {count}.")
    if not 0 <= first <= 2**32 - count:
        raise UserError(f"A seed is a whole number from 0 to 2³² − 1, got {first}.")
    return tuple(range(first, first + count))


def docstrings(cls: type) -> dict[str, str]:
    """The docstring under each field of a class that has one, as a single line."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in itertools.pairwise(definition.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _fits(value: Any, kind: Any) -> bool:
    if typing.get_origin(kind) is tuple:
        return isinstance(value, list) and all(_fits(x, typing.get_args(kind)[0]) for x in value)
    if typing.get_origin(kind) is Literal:
        return value in typing.get_args(kind)
    if kind is float:
        return isinstance(value, float) or (type(value) is int and abs(value) < 2**53)
    return type(value) is kind


def _named(kind: Any) -> str:
    if typing.get_origin(kind) is tuple:
        return "a list of " + ("texts" if typing.get_args(kind)[0] is str else "whole numbers")
    if typing.get_origin(kind) is Literal:
        return "one of " + ", ".join(typing.get_args(kind))
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[kind]


def _toml(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # JSON strings are TOML basic strings
    return repr(value)
