"""Planning in continuous MDPs by iterative lower bound optimisation (ILBO).

Names are loaded on first use, so that `import ilbo` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ilbo.forks import watch_forks
from ilbo.lazy import on_first_use
from ilbo.version import __version__
from ilbo.xla import avoid_wrong_sums

if TYPE_CHECKING:
    from ilbo.api.planning import plan, resume
    from ilbo.api.run import Run
    from ilbo.baselines.bounding import bound
    from ilbo.builtin.catalogue import problems
    from ilbo.builtin.reservoirs import reservoir
    from ilbo.errors import DensityError, PlanningWarning, UserError
    from ilbo.mdp.check import check
    from ilbo.mdp.evaluate import Evaluation, compare, evaluate
    from ilbo.mdp.laws.beta import Beta
    from ilbo.mdp.laws.chain import MarkovChain, Seasonal
    from ilbo.mdp.laws.empirical import Discrete, Empirical
    from ilbo.mdp.laws.gamma import Gamma
    from ilbo.mdp.laws.gaussian import Gaussian
    from ilbo.mdp.laws.law import Law
    from ilbo.mdp.laws.located import Exponential, LogNormal, StudentT, Uniform, Weibull
    from ilbo.mdp.laws.product import Product
    from ilbo.mdp.limits import Chance, EachStep, Expected
    from ilbo.mdp.model import Model
    from ilbo.mdp.outside import NumpyPolicy
    from ilbo.mdp.problem import Problem
    from ilbo.mdp.series import Series, series
    from ilbo.mdp.simulate import Trajectories, simulate
    from ilbo.planning.config import ILBO
    from ilbo.planning.estimators import Estimator
    from ilbo.planning.loop import Hook, train
    from ilbo.planning.planner import Planner
    from ilbo.planning.records import STOP, Plan, Record
    from ilbo.planning.trainer import Trainer
    from ilbo.registry.names import make
    from ilbo.runs.loading import load_policy
    from ilbo.storage.policyfile import save_policy

_HOMES = {
    "api.planning": ("plan", "resume"),
    "api.run": ("Run",),
    "baselines.bounding": ("bound",),
    "builtin.catalogue": ("problems",),
    "builtin.reservoirs": ("reservoir",),
    "registry.names": ("make",),
    "planning.config": ("ILBO",),
    "errors": ("DensityError", "PlanningWarning", "UserError"),
    "mdp.limits": ("Chance", "EachStep", "Expected"),
    "mdp.model": ("Model",),
    "mdp.outside": ("NumpyPolicy",),
    "mdp.problem": ("Problem",),
    "mdp.series": ("Series", "series"),
    "mdp.laws.beta": ("Beta",),
    "mdp.laws.chain": ("MarkovChain", "Seasonal"),
    "mdp.laws.empirical": ("Discrete", "Empirical"),
    "mdp.laws.gamma": ("Gamma",),
    "mdp.laws.located": ("Exponential", "LogNormal", "StudentT", "Uniform", "Weibull"),
    "mdp.laws.gaussian": ("Gaussian",),
    "mdp.laws.law": ("Law",),
    "mdp.laws.product": ("Product",),
    "planning.loop": ("Hook", "train"),
    "planning.planner": ("Planner",),
    "planning.records": ("STOP", "Plan", "Record"),
    "planning.estimators": ("Estimator",),
    "planning.trainer": ("Trainer",),
    "runs.loading": ("load_policy",),
    "storage.policyfile": ("save_policy",),
    "mdp.check": ("check",),
    "mdp.evaluate": ("Evaluation", "compare", "evaluate"),
    "mdp.simulate": ("Trajectories", "simulate"),
}
_ROOMS = ("baselines", "export", "loggers", "plots", "report", "theory")
avoid_wrong_sums()
watch_forks()
__getattr__ = on_first_use(__name__, _HOMES, _ROOMS)


def __dir__() -> list[str]:
    return ["__version__", *_ROOMS, *(name for names in _HOMES.values() for name in names)]
