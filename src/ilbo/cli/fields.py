"""The planner's settings as flags: one for each field of `ILBO`, unset unless given."""

from __future__ import annotations

import dataclasses
import itertools
import typing
from typing import Annotated, Any, Union

from tyro.conf import arg

from ilbo.planning.config import GROUPS, ILBO
from ilbo.runs.settings import FIELDS, PRESETS, Preset, docstrings


def _flag(name: str, kind: Any, text: str) -> Any:
    """A flag whose help shows the value of each preset."""
    default, *others = (getattr(make(), name) for make in PRESETS.values())
    names = list(PRESETS)[1:]
    shown = _shown(default) + "".join(
        f"; {preset}: {_shown(value)}"
        for preset, value in zip(names, others, strict=True)
        if value != default
    )
    return _option(kind, text, shown)


def _option(kind: Any, text: str, default: str) -> Any:
    """An argument that may be left out; None first, as in `ilbo.cli.types`."""
    helped = arg(help=text, help_behavior_hint=f"(default: {default})", metavar=_metavar(kind))
    return Annotated[Union[None, kind], helped]  # noqa: UP007, RUF036


def _metavar(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return "{" + ",".join(typing.get_args(kind)) + "}"
    if typing.get_origin(kind) is tuple:
        return "INT [INT ...]"
    return "{True,False}" if kind is bool else kind.__name__.upper()


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _made(name: str, flags: dict[str, Any]) -> Any:
    """A frozen dataclass of optional arguments; tyro shows each as a group of its own."""
    return dataclasses.make_dataclass(
        name, [(field, kind, None) for field, kind in flags.items()], frozen=True
    )


_texts = docstrings(ILBO)
_run: dict[str, Any] = {
    "seed": _option(int, "Seed of the run, or of the first of several.", "0"),
    "seeds": _option(int, "How many runs, with successive seeds, side by side.", "1"),
    "patience": _option(
        int, "Ends training after so many tests in a row without a better policy.", "never"
    ),
    "target": _option(
        float, "Ends training once the mean return on the test is as high as this.", "never"
    ),
    "preset": _option(
        Preset,
        "Settings to start from: ours, the paper's, or for all starts of the region.",
        "default",
    ),
}


def _flags(names: tuple[str, ...]) -> dict[str, Any]:
    return {name: _flag(name, FIELDS[name], _texts[name]) for name in names if name in FIELDS}


_groups = {group: _made(group.title(), _flags(names)) for group, names in GROUPS.items()}
Settings: Any = dataclasses.make_dataclass(
    "Settings",
    [(name, kind, None) for name, kind in _run.items()]
    + [(name, kind, dataclasses.field(default_factory=kind)) for name, kind in _groups.items()],
    frozen=True,
)


def given(settings: Any) -> dict[str, Any]:
    """The settings that were given."""
    run = {name: getattr(settings, name) for name in _run}
    groups = [vars(getattr(settings, group)) for group in _groups]
    values = dict(itertools.chain(run.items(), *(group.items() for group in groups)))
    return {name: value for name, value in values.items() if value is not None}
