"""The report of runs: one HTML page with its pictures in it, which opens from disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ilbo.lazy import on_first_use

if TYPE_CHECKING:
    from ilbo.report.page import write_report

__all__ = [
    "write_report",
]

__getattr__ = on_first_use(
    __name__,
    {
        "page": ("write_report",),
    },
)
