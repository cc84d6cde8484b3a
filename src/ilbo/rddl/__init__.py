"""RDDL in: any problem with real-valued actions that pyRDDLGym can read, as a `Problem`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ilbo.lazy import on_first_use

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

__getattr__ = on_first_use(
    __name__,
    {
        "build": (
            "exact_model",
            "read",
        ),
        "source": (
            "instances",
            "locate",
            "packaged",
            "repository",
        ),
    },
)
