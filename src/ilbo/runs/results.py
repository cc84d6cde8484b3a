"""The result of a plan: its policies on fresh trajectories, and what planning took."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key

from ilbo.mdp.evaluate import Evaluation, evaluate
from ilbo.mdp.objective import Mean, objective_of
from ilbo.mdp.problem import Problem
from ilbo.mdp.simulate import PolicyFunction
from ilbo.mdp.spending import Keeping, Spent
from ilbo.mdp.yardstick import Yardstick, against, yardsticks
from ilbo.planning.records import Plan

FRESH_EPISODES = 2048
"""Trajectories that a final result is taken over."""
_FRESH_SEED = 0xF4E5


FIGURES = (
    *("mean", "std", "best_mean", "episodes", "test_episodes", "violations", "seconds"),
    *("compile_seconds", "transitions", "model_evaluations", "random_draws", "gradient_steps"),
    "test_transitions",
)
"""The numbers of every result."""
LISTS = ("seeds", "means", "stds", "best_means")
"""What a result of several seeds has of each of them."""
DISCOUNTED = ("discount", "discounted_mean")
"""Further numbers where the problem discounts."""
_LARGEST = 1e40
"""More than any figure of a run, whose numbers are float32."""


def fresh_key() -> Key[Array, ""]:
    """The key of the trajectories of results: the same for all, used by no training or test."""
    return jax.random.fold_in(jax.random.key(_FRESH_SEED), 1)


def evaluate_fresh(
    problem: Problem, policies: Sequence[PolicyFunction], episodes: int = FRESH_EPISODES
) -> list[Evaluation]:
    """Each policy on the same fresh trajectories from the problem's own start."""
    return [evaluate(problem, policy, fresh_key(), episodes) for policy in policies]


def compare_fresh(problem: Problem, final: Sequence[Evaluation]) -> list[Yardstick]:
    """Policies that were evaluated on fresh trajectories against the yardsticks on the same."""
    others = yardsticks(problem, fresh_key(), final[0].episodes)
    return against([evaluation.discounted_returns for evaluation in final], others)


def over_seeds(evaluations: Sequence[Evaluation]) -> dict[str, float]:
    """Mean and standard deviation of the means of several training seeds."""
    means = [evaluation.mean for evaluation in evaluations]
    return {"mean": float(np.mean(means)), "std": float(np.std(means, ddof=1))}


def _discounted(problem: Problem, final: Sequence[Evaluation]) -> dict[str, float]:
    """The objective itself, where the problem discounts."""
    if problem.discount == 1:
        return {}
    mean = float(np.mean([evaluation.discounted_mean for evaluation in final]))
    return {"discount": problem.discount, "discounted_mean": mean}


def _objective(plan: Plan, final: Sequence[Evaluation]) -> dict[str, Any]:
    """What was planned for, where that is not the mean, and its value where returns tell it."""
    objective = objective_of(getattr(plan.config, "objective", "mean"))
    if isinstance(objective, Mean):
        return {}
    if not objective.of_returns:
        return {"objective": str(objective)}
    value = float(np.mean([evaluation.value(objective) for evaluation in final]))
    return {"objective": str(objective), "objective_value": value}


def spending(problem: Problem, final: Sequence[Evaluation]) -> dict[str, Any]:
    """What the policies cost and how they keep the limits, where there are costs: a list for one
    policy, or a list of them for several."""
    found: dict[str, Any] = {}
    for name, there in (("costs", final[0].costs), ("limits", problem.limits)):
        if there:
            each = [list(map(as_figures, getattr(e, name))) for e in final]
            found[name] = each[0] if len(final) == 1 else each
    return found


def as_figures(figure: Spent | Keeping) -> dict[str, Any]:
    """As JSON has it."""
    kept = {"kept": figure.kept} if isinstance(figure, Keeping) else {}
    return {**dataclasses.asdict(figure), **kept}


def summary(plan: Plan, final: Sequence[Evaluation], best: Sequence[Evaluation]) -> dict[str, Any]:
    """The result as one object: of one seed, or with a list for each figure of several.

    `mean` and `std` are those of the final policy: over episodes where there is one seed; over the
    means of the seeds where there are several. `best_mean` is that of the best tested policy.
    """
    means = [evaluation.mean for evaluation in final]
    best_means = [evaluation.mean for evaluation in best]
    if len(plan.seeds) == 1:
        figures: dict[str, Any] = {
            "seed": plan.seeds[0],
            "mean": means[0],
            "std": final[0].std,
            "ci95": list(final[0].ci95),
        }
    else:
        figures = {
            "seeds": list(plan.seeds),
            **over_seeds(final),
            "means": means,
            "stds": [evaluation.std for evaluation in final],
            "best_means": best_means,
        }
    samples = plan.samples
    return {
        "problem": plan.problem.name,
        **figures,
        "best_mean": float(np.mean(best_means)),
        **_discounted(plan.problem, final),
        **_objective(plan, final),
        "episodes": samples.episodes,
        "test_episodes": final[0].episodes,
        "violations": float(np.mean([evaluation.violations for evaluation in final])),
        "cvar10": float(np.mean([evaluation.cvar(0.1) for evaluation in final])),
        **spending(plan.problem, final),
        **({"unkept": plan.unkept} if any(plan.unkept) else {}),
        "yardsticks": [dataclasses.asdict(y) for y in compare_fresh(plan.problem, final)],
        "seconds": round(plan.seconds, 2),
        "compile_seconds": round(plan.compile_seconds, 2),
        "transitions": samples.transitions,
        "model_evaluations": samples.model_evaluations,
        "random_draws": samples.random_draws,
        "gradient_steps": samples.gradient_steps,
        "test_transitions": samples.test_transitions,
    }


def check(result: Any, seeds: int) -> None:
    """Raises a `ValueError` unless it is such as `summary` gives for so many seeds."""
    if not isinstance(result, dict):
        raise ValueError("it is not an object")
    if not isinstance(result.get("problem"), str):
        raise ValueError("its 'problem' is not a text")
    lists = [("ci95", 2)] if seeds == 1 else [(key, seeds) for key in LISTS]
    for key, size in lists:
        values = result.get(key)
        if not isinstance(values, list) or len(values) != size or not all(map(is_figure, values)):
            raise ValueError(f"its {key!r} is not a list of {size} numbers")
    discounted = DISCOUNTED if "discount" in result else ()
    objective = ("objective_value",) if "objective_value" in result else ()
    for key in itertools.chain(FIGURES, discounted, objective):
        if not is_figure(result.get(key)):
            raise ValueError(f"its {key!r} is not a number")


def is_figure(value: Any) -> bool:
    """Whether a value of a file is a number of a size that a run can have."""
    return type(value) in (int, float) and abs(value) < _LARGEST  # false for NaN
