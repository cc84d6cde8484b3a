"""RDDL in: any problem with real-valued actions that pyRDDLGym can read, as a `Problem`."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from ilbo.errors import UserError, suggest
from ilbo.mdp.problem import PYTHON, Origin, Problem
from ilbo.rddl.compiling import Compiler
from ilbo.rddl.draws import DISCRETE
from ilbo.rddl.functions import Functions
from ilbo.rddl.model import Dynamics, RDDLModel, Rules
from ilbo.rddl.parsing import reading
from ilbo.rddl.relaxing import TEMPERATURE, WAYS
from ilbo.rddl.source import Source, locate


def read(
    name: str, instance: str | None = None, arguments: Mapping[str, Any] | None = None
) -> Problem:
    """The problem of an RDDL domain and instance.

    Args:
        name: A domain file; a file that holds domain, non-fluents and instance;
            "rddl:NAME/INSTANCE" for a problem of rddlrepository; or "rddl:NAME" for one of the
            paper's (`packaged`).
        instance: The instance file, where `name` is a domain file.
        arguments: `relaxation`, how planning differentiates what has no derivative, one of
            `relaxing.WAYS` ("exact" if all parts are real, else "mixed"); its `temperature`;
            `functions`, the Python functions that the text calls by $name.
    """
    given = dict(arguments or {})
    for unknown in given.keys() - {"relaxation", "temperature", "functions"}:
        raise UserError(
            f"{unknown!r} is no argument of an RDDL problem: there are relaxation, temperature "
            "and functions."
        )
    functions = given.pop("functions", None)
    if functions is None:
        return build(locate(name, instance), **given)
    if not isinstance(functions, Mapping) or not all(map(callable, functions.values())):
        raise UserError("The functions of an RDDL problem are a dict of names and functions.")
    # The functions are not in the text: no file can say what the problem is.
    return _build(locate(name, instance), PYTHON, functions=functions, **given)


@functools.lru_cache(maxsize=16)
def build(source: Source, relaxation: Any = None, temperature: Any = None) -> Problem:
    """Parses, compiles and checks. The same texts give the same problem, so that programs that
    were compiled for it serve again."""
    files = tuple((path.name, t) for path, t in zip(source.paths, source.texts, strict=True))
    options = {"relaxation": relaxation, "temperature": temperature}
    given = tuple((key, repr(value)) for key, value in options.items() if value is not None)
    return _build(source, Origin("rddl", files, arguments=given), relaxation, temperature)


def _build(
    source: Source,
    origin: Origin,
    relaxation: Any = None,
    temperature: Any = None,
    functions: Functions | None = None,
) -> Problem:
    from ilbo.rddl.region import estimate

    exact = exact_model(source, functions)
    rddl, dynamics = exact.dynamics.compiler.rddl, exact.dynamics
    _check_planned(source, rddl)
    if relaxation is None:
        relaxation = "mixed" if discrete_parts(exact) else "exact"
    with reading(source):
        horizon = int(rddl.horizon)
        return Problem(
            relaxed_model(source, exact, relaxation, temperature),
            exact=exact,
            name=source.name,
            origin=origin,
            initial_state=dynamics.initial(),
            horizon=horizon,
            discount=rddl.discount,
            region=estimate(exact, horizon),
            region_is_guessed=True,
            domain=exact.rules.domain,
            state_names=dynamics.state.names,
            action_names=dynamics.action.names,
        )


def exact_model(source: Source, functions: Functions | None = None) -> RDDLModel:
    """The exact problem of the files; its actions may be of any type."""
    compiled = Compiler(source, functions=functions)
    _check_simulated(source, compiled.rddl)
    with reading(source):
        dynamics = Dynamics(source, compiled)
        return RDDLModel(compiled.law, dynamics, Rules(dynamics))


def relaxed_model(
    source: Source, exact: RDDLModel, relaxation: Any = "mixed", temperature: Any = None
) -> RDDLModel:
    """What planning differentiates: the exact model, or a relaxation of it."""
    if relaxation not in WAYS:
        hint = suggest(str(relaxation), WAYS, f"there are {', '.join(WAYS)}.")
        raise UserError(f"There is no relaxation {relaxation!r}; {hint}")
    warm = TEMPERATURE if temperature is None else temperature
    if isinstance(warm, bool) or not isinstance(warm, int | float) or not 0 <= warm < math.inf:
        raise UserError(f"The temperature must be a number from 0 on, got {warm!r}.")
    if relaxation == "exact":
        return exact
    parsed = exact.dynamics.compiler
    compiled = Compiler(source, relaxation, parsed.functions, parsed)
    with reading(source):
        dynamics = Dynamics(source, compiled)
        return RDDLModel(exact.law, dynamics, exact.rules, jnp.asarray(warm, float))


def discrete_parts(model: RDDLModel) -> list[str]:
    """The fluents and draws that have to be relaxed before they can be differentiated."""
    dynamics = model.dynamics
    return [
        *(f"{f.name} ({f.range})" for f in dynamics.state.fluents if f.range != "real"),
        *(f"{f.name} ({f.range})" for f in dynamics.action.fluents if f.range != "real"),
        *(
            f"{slot.where} ({slot.distribution})"
            for slot in dynamics.compiler.slots.values()
            if slot.distribution in DISCRETE
        ),
    ]


def _check_simulated(source: Source, rddl: Any) -> None:
    if rddl.horizon < 1:
        raise UserError(f"{source.find('horizon')}: the horizon must be at least 1.")
    if not rddl.action_ranges:
        raise UserError(f"{source.files}: the domain {rddl.domain_name!r} has no action fluents.")
    if not rddl.state_ranges:
        raise UserError(f"{source.files}: the domain {rddl.domain_name!r} has no state fluents.")
    if rddl.observ_fluents:
        name = next(iter(rddl.observ_fluents))
        raise UserError(
            f"{source.find(name) or source.files}: the domain is partially observed "
            f"(observ-fluent {name!r}); only fully observed problems can be planned for."
        )


def _check_planned(source: Source, rddl: Any) -> None:
    if "real" not in rddl.action_ranges.values():
        kinds = ", ".join(f"{name} ({kind})" for name, kind in rddl.action_ranges.items())
        raise UserError(
            f"{source.files}: the domain {rddl.domain_name!r} has no real-valued action; "
            f"it has {kinds}."
        )
    for name, kind in rddl.action_ranges.items():
        if kind not in ("real", "int", "bool"):
            raise UserError(
                f"{source.find(name) or source.files}: the action {name!r} takes values of the "
                f"enumerated type {kind!r}; only real, int and bool actions can be planned for."
            )
