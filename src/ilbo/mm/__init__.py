"""The paper's theory, executable: exact minorise-maximise on MDPs with finitely many states.

Everything here is computed in float64, whatever JAX's global setting.
"""

from ilbo.mm.bound import Bound, bound, bound_gradient, evaluate_bound
from ilbo.mm.discretise import Discretised, discretise
from ilbo.mm.dynamic import value_iteration
from ilbo.mm.iteration import History, iterate, iterate_from_many
from ilbo.mm.maximise import Linear, maximise_parameters, maximise_table, table
from ilbo.mm.mdp import FiniteMDP, lowest_reward
from ilbo.mm.values import Analysis, analyse, objective, objective_of_logs

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
