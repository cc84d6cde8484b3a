"""Pictures of training and of what a policy does. Files are PNG, SVG or PDF, by their names."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ilbo.plots.canvas import save
    from ilbo.plots.pictures import (
        draw_learning_curve,
        draw_metrics,
        draw_trajectories,
        learning_curve,
        trajectories,
    )

__all__ = [
    "draw_learning_curve",
    "draw_metrics",
    "draw_trajectories",
    "learning_curve",
    "save",
    "trajectories",
]

_HOMES = {
    "draw_learning_curve": "pictures",
    "draw_metrics": "pictures",
    "draw_trajectories": "pictures",
    "learning_curve": "pictures",
    "trajectories": "pictures",
    "save": "canvas",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
        globals()[name] = value = getattr(module, name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
