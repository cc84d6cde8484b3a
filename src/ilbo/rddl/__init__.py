"""RDDL in: any problem with real-valued actions that pyRDDLGym can read, as a `Problem`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ilbo.rddl.build import exact_model, read
    from ilbo.rddl.source import instances, locate, packaged, repository

__all__ = [
    "exact_model",
    "instances",
    "locate",
    "packaged",
    "read",
    "repository",
]

_HOMES = {
    "exact_model": "build",
    "read": "build",
    "instances": "source",
    "locate": "source",
    "packaged": "source",
    "repository": "source",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
        globals()[name] = value = getattr(module, name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
