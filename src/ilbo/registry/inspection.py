"""What a problem was read as: fluents, bounds, noise, density, and what is not enforced."""

from __future__ import annotations

from typing import Any

import numpy as np

from ilbo.mdp import density_check
from ilbo.mdp.model import Model
from ilbo.mdp.problem import Problem
from ilbo.rddl.build import discrete_parts
from ilbo.rddl.layout import Fluent, Layout
from ilbo.rddl.model import RDDLModel
from ilbo.rddl.parsing import text_of


def inspect(problem: Problem) -> dict[str, Any]:
    """A problem as plain data; one that was not read from RDDL has less to tell."""
    missing = {name: why for name, why in _reasons(problem).items() if why is not None}
    report: dict[str, Any] = {
        "problem": problem.name,
        "horizon": problem.horizon,
        "discount": problem.discount,
        "state_size": problem.state_size,
        "action_size": problem.action_size,
        "state": _state(problem),
        "action": _action(problem),
        "noise_law": str(problem.model.law),
        "noise_size": problem.model.law.size,
        "has_density": not missing,
        "no_density": missing,
    }
    if not isinstance(problem.exact, RDDLModel) or not isinstance(problem.model, RDDLModel):
        return report
    return report | _rddl(problem.exact) | _relaxation(problem.model)


def _reasons(problem: Problem) -> dict[str, str | None]:
    if type(problem.model).log_density is not Model.log_density:
        return {}
    return density_check.reasons(problem)


def _layouts(problem: Problem) -> tuple[Layout, Layout]:
    if isinstance(problem.exact, RDDLModel):
        return problem.exact.dynamics.state, problem.exact.dynamics.action
    names = problem.state_names, problem.action_names
    states, actions = (Layout(tuple(Fluent(n, "real", (), (n,)) for n in part)) for part in names)
    return states, actions


def _state(problem: Problem) -> list[dict[str, Any]]:
    layout, _ = _layouts(problem)
    low, high = (layout.unpack(end, exact=False) for end in problem.region)
    start = layout.unpack(problem.initial_state, exact=False)
    return [
        {
            "fluent": fluent.name,
            "range": fluent.range,
            "size": fluent.size,
            "initial": np.ravel(start[fluent.name]).tolist(),
            "region": [float(np.min(low[fluent.name])), float(np.max(high[fluent.name]))],
        }
        for fluent in layout.fluents
    ]


def _action(problem: Problem) -> list[dict[str, Any]]:
    _, layout = _layouts(problem)
    bounds = problem.exact.at(np.int32(0)).bounds(problem.initial_state)
    low, high = (layout.unpack(end, exact=False) for end in bounds)
    found = problem.exact.rules.found if isinstance(problem.exact, RDDLModel) else []
    rows = []
    for fluent in layout.fluents:
        own = [bound for bound in found if bound.fluent == fluent.name]
        rows.append(
            {
                "fluent": fluent.name,
                "range": fluent.range,
                "size": fluent.size,
                "at_start": [float(np.min(low[fluent.name])), float(np.max(high[fluent.name]))],
                "depends_on_state": any(not bound.constant for bound in own),
                "bounds": [bound.text for bound in own],
            }
        )
    return rows


def _relaxation(model: RDDLModel) -> dict[str, Any]:
    """What planning differentiates."""
    warm = None if model.temperature is None else float(model.temperature)
    return {"relaxation": model.dynamics.compiler.relaxation, "temperature": warm}


def _rddl(model: RDDLModel) -> dict[str, Any]:
    dynamics, rules = model.dynamics, model.rules
    rddl = dynamics.compiler.rddl
    kept = [{"text": bound.text, "kept": "by construction"} for bound in rules.found]
    counted = [{"text": text, "kept": "counted"} for text in rules.constraints()]
    return {
        "files": [str(path) for path in dynamics.source.paths],
        "domain": rddl.domain_name,
        "instance": rddl.instance_name,
        "noise": [
            {"where": slot.where, "distribution": slot.distribution, "law": str(slot.draw.law)}
            for slot in dynamics.compiler.slots.values()
        ],
        "preconditions": kept + counted,
        "not_enforced": list(rules.constraints()),
        "terminations": [text_of(expression) for expression in rddl.terminations],
        "invariants": [text_of(expression) for expression in rddl.invariants],
        "relaxed": discrete_parts(model),
        "hidden": list(dynamics.hidden),
    }
