"""What a file must say about a problem so that the problem can be found or built again.

A problem that ilbo can build again, from its name or from RDDL texts, has a digest of what it is
made from: the same in every process, version of JAX and device. A file that carries another than
the problem it is used on is refused. Models of the user's own have none: names and sizes must do.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ilbo.builtin import catalogue
from ilbo.errors import UserError
from ilbo.mdp.problem import Problem
from ilbo.registry.names import named

_ARGUMENTS = ("relaxation", "temperature")
"""How planning differentiates an RDDL problem; what it earns is the same, and so is its digest."""


def describe(problem: Problem) -> dict[str, Any]:
    """Name, sizes, components, and where the problem comes from: JSON values only."""
    described: dict[str, Any] = {
        "name": problem.name,
        "horizon": problem.horizon,
        "discount": problem.discount,
        "states": list(problem.state_names),
        "actions": list(problem.action_names),
    }
    origin = problem.origin
    if origin.kind == "file" or not problem.is_as_built:
        return {**described, "origin": "python"}
    described["origin"] = origin.kind
    if origin.kind == "rddl":
        texts: Any = [text for _, text in origin.files]
        files: dict[str, Any] = {"files": [list(file) for file in origin.files]}
        if origin.arguments:
            files["arguments"] = dict(origin.arguments)
    else:
        texts, files = catalogue.facts(problem.name), {}
    made_from = json.dumps({**described, "made from": texts}, sort_keys=True).encode()
    return {**described, **files, "digest": hashlib.sha256(made_from).hexdigest()}


def check_description(described: Any) -> None:
    """Raises a `ValueError` unless it is such as `describe` gives, whatever else it may say."""
    if not isinstance(described, dict):
        raise ValueError("it does not say which problem it is for")
    for key in ("name", "origin"):
        if not isinstance(described.get(key), str):
            raise ValueError(f"its {key} is not a text")
    for key in ("states", "actions"):
        names = described.get(key)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"its {key} are not a list of names")
        if not names:
            raise ValueError(f"it has no {key}")
    if not isinstance(described.get("digest"), str | None):
        raise ValueError("its digest is not a text")
    if described["origin"] == "rddl" and not _are_files(described.get("files")):
        raise ValueError("its RDDL files cannot be read")
    if described["origin"] == "rddl" and not _are_arguments(described.get("arguments", {})):
        raise ValueError("its arguments cannot be read")


def _are_files(files: Any) -> bool:
    return (
        isinstance(files, list)
        and len(files) > 0
        and all(isinstance(file, list) and len(file) == 2 for file in files)
        and all(isinstance(part, str) for file in files for part in file)
    )


def _are_arguments(arguments: Any) -> bool:
    if not isinstance(arguments, dict):
        return False
    try:
        values = [ast.literal_eval(text) for text in arguments.values()]
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    return all(isinstance(value, str | int | float) for value in values)


def digest(problem: Problem) -> str | None:
    """The digest of what the problem is made from; None for a model of the user's own."""
    return describe(problem).get("digest")


def rebuild(description: dict[str, Any]) -> Problem:
    """The problem that `describe` described; only those of ilbo and of RDDL can be built again."""
    try:
        check_description(description)
    except ValueError as error:
        raise UserError(f"The description of the problem makes no sense: {error}.") from None
    problem = _build(description)
    written = description.get("digest")
    if written not in (None, digest(problem)):
        raise UserError(
            f"The problem {problem.name!r} that the file describes is not the one that it was "
            "written for: the text of the file was changed, or another version of ilbo wrote it."
        )
    return problem


def _build(description: dict[str, Any]) -> Problem:
    name = description["name"]
    if description.get("origin") == "built-in":
        return named(name)
    if description.get("origin") == "rddl":
        from ilbo.rddl.build import build
        from ilbo.rddl.source import Source

        names, texts = zip(*description["files"], strict=True)
        paths = tuple(Path(name) for name in names)
        given = description.get("arguments", {})
        arguments = {key: ast.literal_eval(given[key]) for key in _ARGUMENTS if key in given}
        return build(Source(name, paths, texts), **arguments)
    raise UserError(
        f"The problem {name!r} is a model of your own: build it and give it as `problem`."
    )


def check_same(description: dict[str, Any], problem: Problem, what: str) -> None:
    """Raises unless states and actions are the same, component by component, and the digests are
    where both have one and the name is the same.

    Under another name, a policy may be tried on any problem with the components it knows.
    """
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
    known = {description.get("digest"), digest(problem)} - {None}
    if description["name"] == problem.name and len(known) == 2:
        raise UserError(
            f"{what} is for another problem of the name {problem.name!r}, which has changed since: "
            "to use it on the changed problem, give that another name."
        )


def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two descriptions are of one problem, as far as both tell; older ones tell less."""
    return all(first[key] == second[key] for key in first.keys() & second.keys())


def _few(names: Sequence[str]) -> str:
    return ", ".join(names if len(names) <= 3 else [*names[:2], "..."])
