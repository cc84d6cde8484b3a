"""Planning in continuous MDPs by iterative lower bound optimisation (ILBO).

Names are loaded on first use, so that `import ilbo` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ilbo.xla import avoid_wrong_sums

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ilbo.builtin import make, problems, reservoir
    from ilbo.config import ILBO
    from ilbo.errors import DensityError, UserError
    from ilbo.model import Model, Problem
    from ilbo.noise import Gamma, Gaussian, Law, Product
    from ilbo.planner import Plan, Planner, Record, plan
    from ilbo.policyfile import load_policy, save_policy
    from ilbo.rollout import Evaluation, Trajectories, compare, evaluate, simulate

_HOMES = {
    "ilbo.builtin": ("make", "problems", "reservoir"),
    "ilbo.config": ("ILBO",),
    "ilbo.errors": ("DensityError", "UserError"),
    "ilbo.model": ("Model", "Problem"),
    "ilbo.noise": ("Gamma", "Gaussian", "Law", "Product"),
    "ilbo.planner": ("Plan", "Planner", "Record", "plan"),
    "ilbo.policyfile": ("load_policy", "save_policy"),
    "ilbo.rollout": ("Evaluation", "Trajectories", "compare", "evaluate", "simulate"),
}
avoid_wrong_sums()
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str):
    if name in _HOME:
        globals()[name] = value = getattr(importlib.import_module(_HOME[name]), name)
        return value
    raise AttributeError(f"module 'ilbo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return ["__version__", *_HOME]
