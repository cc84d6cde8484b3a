"""The paper's theory, executable: exact minorise-maximise on MDPs with finitely many states.

Everything here is computed in float64, whatever JAX's global setting.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ilbo.theory.discretisation import Discretised, discretise
    from ilbo.theory.dynamic import value_iteration
    from ilbo.theory.iteration import History, iterate, iterate_from_many
    from ilbo.theory.maximise import Linear, maximise_parameters, maximise_table, table
    from ilbo.theory.mdp import FiniteMDP, lowest_reward
    from ilbo.theory.minoriser import Bound, bound, bound_gradient, evaluate_bound
    from ilbo.theory.values import Analysis, analyse, objective, objective_of_logs

__all__ = [
    "Analysis",
    "Bound",
    "Discretised",
    "FiniteMDP",
    "History",
    "Linear",
    "analyse",
    "bound",
    "bound_gradient",
    "discretise",
    "evaluate_bound",
    "iterate",
    "iterate_from_many",
    "lowest_reward",
    "maximise_parameters",
    "maximise_table",
    "objective",
    "objective_of_logs",
    "table",
    "value_iteration",
]

_HOMES = {
    "Bound": "minoriser",
    "bound": "minoriser",
    "bound_gradient": "minoriser",
    "evaluate_bound": "minoriser",
    "Discretised": "discretisation",
    "discretise": "discretisation",
    "value_iteration": "dynamic",
    "History": "iteration",
    "iterate": "iteration",
    "iterate_from_many": "iteration",
    "Linear": "maximise",
    "maximise_parameters": "maximise",
    "maximise_table": "maximise",
    "table": "maximise",
    "FiniteMDP": "mdp",
    "lowest_reward": "mdp",
    "Analysis": "values",
    "analyse": "values",
    "objective": "values",
    "objective_of_logs": "values",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
        globals()[name] = value = getattr(module, name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
