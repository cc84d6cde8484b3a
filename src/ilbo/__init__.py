"""Planning in continuous MDPs by iterative lower bound optimisation (ILBO).

Names are loaded on first use, so that `import ilbo` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ilbo.version import __version__
from ilbo.xla import avoid_wrong_sums

if TYPE_CHECKING:
    from ilbo.builtin.catalogue import problems
    from ilbo.builtin.reservoirs import reservoir
    from ilbo.errors import DensityError, UserError
    from ilbo.mdp.evaluate import Evaluation, compare, evaluate
    from ilbo.mdp.laws.gamma import Gamma
    from ilbo.mdp.laws.gaussian import Gaussian
    from ilbo.mdp.laws.law import Law
    from ilbo.mdp.laws.product import Product
    from ilbo.mdp.model import Model
    from ilbo.mdp.problem import Problem
    from ilbo.mdp.simulate import Trajectories, simulate
    from ilbo.planning.config import ILBO
    from ilbo.planning.planner import Plan, Planner, Record, plan
    from ilbo.registry.names import make
    from ilbo.runs.loading import load_policy
    from ilbo.storage.policyfile import save_policy

_HOMES = {
    "ilbo.builtin.catalogue": ("problems",),
    "ilbo.builtin.reservoirs": ("reservoir",),
    "ilbo.registry.names": ("make",),
    "ilbo.planning.config": ("ILBO",),
    "ilbo.errors": ("DensityError", "UserError"),
    "ilbo.mdp.model": ("Model",),
    "ilbo.mdp.problem": ("Problem",),
    "ilbo.mdp.laws.gamma": ("Gamma",),
    "ilbo.mdp.laws.gaussian": ("Gaussian",),
    "ilbo.mdp.laws.law": ("Law",),
    "ilbo.mdp.laws.product": ("Product",),
    "ilbo.planning.planner": ("Plan", "Planner", "Record", "plan"),
    "ilbo.runs.loading": ("load_policy",),
    "ilbo.storage.policyfile": ("save_policy",),
    "ilbo.mdp.evaluate": ("Evaluation", "compare", "evaluate"),
    "ilbo.mdp.simulate": ("Trajectories", "simulate"),
}
avoid_wrong_sums()
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name in _HOME:
        globals()[name] = value = getattr(importlib.import_module(_HOME[name]), name)
        return value
    raise AttributeError(f"module 'ilbo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return ["__version__", *_HOME]
