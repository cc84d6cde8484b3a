"""Policies for use elsewhere: StableHLO and ONNX."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ilbo.export.policy import Exported, ExportedPolicy, export_policy, load_exported

__all__ = [
    "Exported",
    "ExportedPolicy",
    "export_policy",
    "load_exported",
]

_HOMES = {
    "ExportedPolicy": "policy",
    "Exported": "policy",
    "export_policy": "policy",
    "load_exported": "policy",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
        globals()[name] = value = getattr(module, name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
