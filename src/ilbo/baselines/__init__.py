"""What ILBO is measured against: another planner, open-loop plans and the limit of hindsight.

Names are loaded on first use, so that the settings can be read without JAX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ilbo.lazy import on_first_use

if TYPE_CHECKING:
    from ilbo.baselines.config import ThroughTime
    from ilbo.baselines.limit import Limit, hindsight
    from ilbo.baselines.open_loop import StraightLine, straight_line
    from ilbo.baselines.through_time import ThroughTimeTrainer, plan_through_time

__all__ = [
    "Limit",
    "StraightLine",
    "ThroughTime",
    "ThroughTimeTrainer",
    "hindsight",
    "plan_through_time",
    "straight_line",
]

__getattr__ = on_first_use(
    __name__,
    {
        "config": ("ThroughTime",),
        "limit": (
            "Limit",
            "hindsight",
        ),
        "open_loop": (
            "StraightLine",
            "straight_line",
        ),
        "through_time": (
            "ThroughTimeTrainer",
            "plan_through_time",
        ),
    },
)
