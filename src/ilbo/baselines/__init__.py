"""What ILBO is measured against: other planners, open-loop plans and the limit of hindsight.

Names are loaded on first use, so that the settings can be read without JAX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ilbo.lazy import on_first_use

if TYPE_CHECKING:
    from ilbo.baselines.bounding import Bound, bound
    from ilbo.baselines.config import SHAC, ThroughTime
    from ilbo.baselines.dynamic import GridPolicy, Optimum, earned, optimum, solve
    from ilbo.baselines.limit import Limit, hindsight
    from ilbo.baselines.open_loop import StraightLine, straight_line
    from ilbo.baselines.penalty import fit_value, penalised_hindsight
    from ilbo.baselines.shac import SHACTrainer, plan_shac
    from ilbo.baselines.through_time import ThroughTimeTrainer, plan_through_time

__all__ = [
    "SHAC",
    "Bound",
    "GridPolicy",
    "Limit",
    "Optimum",
    "SHACTrainer",
    "StraightLine",
    "ThroughTime",
    "ThroughTimeTrainer",
    "bound",
    "earned",
    "fit_value",
    "hindsight",
    "optimum",
    "penalised_hindsight",
    "plan_shac",
    "plan_through_time",
    "solve",
    "straight_line",
]

__getattr__ = on_first_use(
    __name__,
    {
        "bounding": ("Bound", "bound"),
        "config": ("SHAC", "ThroughTime"),
        "dynamic": (
            "GridPolicy",
            "Optimum",
            "earned",
            "optimum",
            "solve",
        ),
        "limit": (
            "Limit",
            "hindsight",
        ),
        "open_loop": (
            "StraightLine",
            "straight_line",
        ),
        "penalty": (
            "fit_value",
            "penalised_hindsight",
        ),
        "shac": ("SHACTrainer", "plan_shac"),
        "through_time": (
            "ThroughTimeTrainer",
            "plan_through_time",
        ),
    },
)
