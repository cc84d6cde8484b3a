"""What a file must say about a problem so that the problem can be found or built again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx

from ilbo.errors import UserError
from ilbo.mdp.problem import Problem
from ilbo.registry.names import make


def describe(problem: Problem) -> dict[str, Any]:
    """Name, sizes, components, and where the problem comes from: JSON values only."""
    return {
        "name": problem.name,
        "horizon": problem.horizon,
        "discount": problem.discount,
        "states": list(problem.state_names),
        "actions": list(problem.action_names),
        **_origin(problem),
    }


def _origin(problem: Problem) -> dict[str, Any]:
    dynamics = getattr(problem.exact, "dynamics", None)
    source = getattr(dynamics, "source", None)
    if type(problem.exact).__module__.startswith("ilbo.rddl.") and source is not None:
        files = zip(source.paths, source.texts, strict=True)
        return {"origin": "rddl", "files": [[path.name, text] for path, text in files]}
    try:
        built_in = eqx.tree_equal(make(problem.name), problem)
    except UserError:
        built_in = False
    return {"origin": "built-in" if built_in else "python"}


def rebuild(description: dict[str, Any]) -> Problem:
    """The problem that `describe` described; only those of ilbo and of RDDL can be built again."""
    if description["origin"] == "built-in":
        return make(str(description["name"]))
    if description["origin"] == "rddl":
        from ilbo.rddl.build import build
        from ilbo.rddl.source import Source

        names, texts = zip(*description["files"], strict=True)
        paths = tuple(Path(str(name)) for name in names)
        return build(Source(str(description["name"]), paths, tuple(map(str, texts))))
    raise UserError(
        f"The problem {description['name']!r} is a model of your own: build it and give it as "
        "`problem`."
    )


def check_same(description: dict[str, Any], problem: Problem, what: str) -> None:
    """Raises unless states and actions are the same, component by component."""
    for kind, own in (("states", problem.state_names), ("actions", problem.action_names)):
        wanted = description[kind]
        if list(own) == list(wanted):
            continue
        how = (
            f"{len(wanted)} {kind} where this has {len(own)}"
            if len(wanted) != len(own)
            else f"the {kind} {_few(wanted)} where this has {_few(own)}"
        )
        raise UserError(
            f"{what} is for the problem {description['name']!r}, not for {problem.name!r}: "
            f"it has {how}."
        )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names if len(names) <= 3 else [*names[:2], "..."])
