"""Pictures of training and of what a policy does. Files are PNG, SVG or PDF, by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ilbo.lazy import on_first_use

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

__getattr__ = on_first_use(
    __name__,
    {
        "pictures": (
            "draw_learning_curve",
            "draw_metrics",
            "draw_trajectories",
            "learning_curve",
            "trajectories",
        ),
        "canvas": ("save",),
    },
)
