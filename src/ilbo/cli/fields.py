"""The planner's settings as flags: one for each field of `ILBO`, unset unless given."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
import typing
from typing import Annotated, Any, Union

from tyro.conf import arg

from ilbo.planning.config import ILBO
from ilbo.runs.settings import FIELDS, Preset


def docstrings(cls: type) -> dict[str, str]:
    """The docstring under each field of a class."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body  # type: ignore[attr-defined]
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _flag(name: str, kind: Any, text: str) -> Any:
    """A flag whose help shows the value of each preset."""
    default, paper = getattr(ILBO(), name), getattr(ILBO.paper(), name)
    shown = _shown(default) + (f"; paper: {_shown(paper)}" if paper != default else "")
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


_texts = docstrings(ILBO)
_flags: dict[str, Any] = {
    "seed": _option(int, "Seed of the run, or of the first of several.", "0"),
    "seeds": _option(int, "How many runs, with successive seeds, side by side.", "1"),
    "preset": _option(Preset, "Settings to start from: ours or the paper's.", "default"),
    **{name: _flag(name, kind, _texts[name]) for name, kind in FIELDS.items()},
}
Settings: Any = dataclasses.make_dataclass(
    "Settings", [(name, kind, None) for name, kind in _flags.items()], frozen=True
)


def given(settings: Any) -> dict[str, Any]:
    """The settings that were given."""
    return {name: value for name, value in vars(settings).items() if value is not None}
