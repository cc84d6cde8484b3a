"""The paper's experiments, each rerun by one command: `ilbo reproduce NAME`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ilbo.experiments.catalogue import NAMES, find

__all__ = [
    "NAMES",
    "find",
]

_HOMES = {
    "NAMES": "catalogue",
    "find": "catalogue",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
        globals()[name] = value = getattr(module, name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
