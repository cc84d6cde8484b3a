"""Estimators of the bound's gradient in the action, a class a file.

At θ^m the gradient of the lower bound Ĵ(θ; θ^m) is

    Σ_s d^m(s) ∇_θ μ_θ(s) · g(s),    g(s) = ∇_a E_{s' ~ T(s, a)} [ r(s, a, s') + γ V^m(s') ]

at a = μ^m(s). Each estimator gives g at states that are distributed as d^m; `planning.pull_back`
turns that into the gradient in θ. Nothing but the action is differentiated: V^m, the baseline and
the policy inside them are those of θ^m.

Value expansion of depth h: V^m(s') is replaced by the rewards of h − 1 further steps of the model
under μ^m and the critic's value of the state after them. h = 1 is the paper's.
"""

from ilbo.planning.estimators.critic_only import CriticOnly
from ilbo.planning.estimators.estimator import Estimator
from ilbo.planning.estimators.pathwise import Pathwise
from ilbo.planning.estimators.score import Score

__all__ = ["ESTIMATORS", "CriticOnly", "Estimator", "Pathwise", "Score"]

ESTIMATORS: dict[str, type[Estimator]] = {kind.name: kind for kind in (Pathwise, Score, CriticOnly)}
"""Those that settings choose by name."""
