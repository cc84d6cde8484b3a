"""The paper's theory, executable: exact minorise-maximise on MDPs with finitely many states.

Everything here is computed in float64, whatever JAX's global setting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ilbo.lazy import on_first_use

if TYPE_CHECKING:
    from ilbo.theory.constrained import (
        ConstrainedHistory,
        iterate_constrained,
        linear_program,
        mixture,
    )
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
    "ConstrainedHistory",
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
    "iterate_constrained",
    "iterate_from_many",
    "linear_program",
    "lowest_reward",
    "maximise_parameters",
    "maximise_table",
    "mixture",
    "objective",
    "objective_of_logs",
    "table",
    "value_iteration",
]

__getattr__ = on_first_use(
    __name__,
    {
        "minoriser": (
            "Bound",
            "bound",
            "bound_gradient",
            "evaluate_bound",
        ),
        "constrained": (
            "ConstrainedHistory",
            "iterate_constrained",
            "linear_program",
            "mixture",
        ),
        "discretisation": (
            "Discretised",
            "discretise",
        ),
        "dynamic": ("value_iteration",),
        "iteration": (
            "History",
            "iterate",
            "iterate_from_many",
        ),
        "maximise": (
            "Linear",
            "maximise_parameters",
            "maximise_table",
            "table",
        ),
        "mdp": (
            "FiniteMDP",
            "lowest_reward",
        ),
        "values": (
            "Analysis",
            "analyse",
            "objective",
            "objective_of_logs",
        ),
    },
)
