"""RDDL in: any problem with real-valued actions that pyRDDLGym can read, as a `Problem`."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp

from ilbo.errors import UserError
from ilbo.mdp.problem import Origin, Problem
from ilbo.rddl.compiling import Compiler
from ilbo.rddl.draws import DISCRETE
from ilbo.rddl.model import Dynamics, RDDLModel, Rules
from ilbo.rddl.parsing import reading
from ilbo.rddl.relaxing import TEMPERATURE
from ilbo.rddl.source import Source, locate


def read(name: str, instance: str | None = None) -> Problem:
    """The problem of an RDDL domain and instance.

    Args:
        name: A domain file; a file that holds domain, non-fluents and instance;
            "rddl:NAME/INSTANCE" for a problem of rddlrepository; or "rddl:NAME" for one of the
            paper's (`packaged`).
        instance: The instance file, where `name` is a domain file.
    """
    return build(locate(name, instance))


@functools.lru_cache(maxsize=16)
def build(source: Source) -> Problem:
    """Parses, compiles and checks. The same texts give the same problem, so that programs that
    were compiled for it serve again."""
    from ilbo.rddl.region import estimate

    model = exact_model(source)
    rddl, dynamics = model.dynamics.compiler.rddl, model.dynamics
    files = zip(source.paths, source.texts, strict=True)
    with reading(source):
        horizon = int(rddl.horizon)
        return Problem(
            relaxed_model(source, model) if discrete_parts(model) else model,
            exact=model,
            name=source.name,
            origin=Origin("rddl", tuple((path.name, text) for path, text in files)),
            initial_state=dynamics.initial(),
            horizon=horizon,
            discount=rddl.discount,
            region=estimate(model, horizon),
            region_is_guessed=True,
            domain=model.rules.domain,
            state_names=dynamics.state.names,
            action_names=dynamics.action.names,
        )


def exact_model(source: Source) -> RDDLModel:
    """The exact problem of the files."""
    compiled = Compiler(source)
    _check_supported(source, compiled.rddl)
    with reading(source):
        dynamics = Dynamics(source, compiled)
        return RDDLModel(compiled.law, dynamics, Rules(dynamics))


def relaxed_model(source: Source, exact: RDDLModel) -> RDDLModel:
    """What planning differentiates where parts are discrete: pyRDDLGym-jax's relaxations."""
    with reading(source):
        compiled = Compiler(source, "mixed", parsed=exact.dynamics.compiler)
        dynamics = Dynamics(source, compiled)
        return RDDLModel(exact.law, dynamics, exact.rules, jnp.asarray(TEMPERATURE, float))


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


def _check_supported(source: Source, rddl: Any) -> None:
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
