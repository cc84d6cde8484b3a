"""Policies for use elsewhere: StableHLO and ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ilbo.lazy import on_first_use

if TYPE_CHECKING:
    from ilbo.export.policy import Exported, ExportedPolicy, export_policy, load_exported

__all__ = [
    "Exported",
    "ExportedPolicy",
    "export_policy",
    "load_exported",
]

__getattr__ = on_first_use(
    __name__,
    {
        "policy": (
            "ExportedPolicy",
            "Exported",
            "export_policy",
            "load_exported",
        ),
    },
)
