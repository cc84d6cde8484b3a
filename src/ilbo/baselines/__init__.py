"""What ILBO is measured against: another planner, open-loop plans and the limit of hindsight.

Names are loaded on first use, so that the settings can be read without JAX.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

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

_HOMES = {
    "ThroughTime": "config",
    "Limit": "limit",
    "hindsight": "limit",
    "StraightLine": "open_loop",
    "straight_line": "open_loop",
    "ThroughTimeTrainer": "through_time",
    "plan_through_time": "through_time",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        module = importlib.import_module(f"ilbo.baselines.{_HOMES[name]}")
        globals()[name] = value = getattr(module, name)
        return value
    raise AttributeError(f"module 'ilbo.baselines' has no attribute {name!r}")
