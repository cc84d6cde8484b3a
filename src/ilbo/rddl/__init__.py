"""RDDL in: any problem with real-valued actions that pyRDDLGym can read, as a `Problem`."""

from __future__ import annotations

from ilbo.errors import UserError
from ilbo.model import Problem
from ilbo.rddl.library import compiler, reading
from ilbo.rddl.source import Source, instances, locate, packaged, repository

__all__ = ["instances", "load", "packaged", "repository"]


def load(name: str, instance: str | None = None) -> Problem:
    """The problem of an RDDL domain and instance.

    Args:
        name: A domain file; a file that holds domain, non-fluents and instance;
            "rddl:NAME/INSTANCE" for a problem of rddlrepository; or "rddl:NAME" for one of the
            paper's (`packaged`).
        instance: The instance file, where `name` is a domain file.
    """
    return build(locate(name, instance))


def build(source: Source) -> Problem:
    """Parses, compiles and checks."""
    from ilbo.rddl.draws import DISCRETE
    from ilbo.rddl.model import Dynamics, RDDLModel, Rules
    from ilbo.rddl.region import estimate

    exact = compiler(source)
    _check_supported(source, exact.rddl)
    with reading(source):
        dynamics = Dynamics(exact, exact=True)
        rules = Rules(dynamics)
        model = RDDLModel(exact.law, dynamics, rules)
        ranges = {*exact.rddl.state_ranges.values(), *exact.rddl.action_ranges.values()}
        planned = model
        if ranges != {"real"} or any(
            slot.distribution in DISCRETE for slot in exact.slots.values()
        ):
            planned = RDDLModel(exact.law, Dynamics(compiler(source, relaxed=True), False), rules)
        horizon = int(exact.rddl.horizon)
        return Problem(
            planned,
            exact=model,
            name=source.name,
            initial_state=dynamics.initial(),
            horizon=horizon,
            discount=exact.rddl.discount,
            region=estimate(model, horizon),
            domain=rules.domain,
            state_names=dynamics.state.names,
            action_names=dynamics.action.names,
        )


def _check_supported(source: Source, rddl) -> None:
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
