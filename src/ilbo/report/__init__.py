"""The report of runs: one HTML page with its pictures in it, which opens from disk."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ilbo.report.page import write_report

__all__ = [
    "write_report",
]

_HOMES = {
    "write_report": "page",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
        globals()[name] = value = getattr(module, name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
