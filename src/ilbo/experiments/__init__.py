"""The paper's experiments, each rerun by one command: `ilbo reproduce NAME`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ilbo.lazy import on_first_use

if TYPE_CHECKING:
    from ilbo.experiments.catalogue import NAMES, find

__all__ = [
    "NAMES",
    "find",
]

__getattr__ = on_first_use(
    __name__,
    {
        "catalogue": (
            "NAMES",
            "find",
        ),
    },
)
