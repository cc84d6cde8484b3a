"""Problems by name: built in, generated, from RDDL, or a model of the user's own in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ilbo.builtin.catalogue import built_in, problems
from ilbo.errors import UserError, suggest
from ilbo.forks import check_not_forked
from ilbo.mdp.device import check_device
from ilbo.mdp.problem import Problem
from ilbo.registry import python_file


def make(
    name: str | Path,
    instance: str | Path | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Problem:
    """A problem by its name, from RDDL, or from a Python file, which is run.

    Args:
        name: A built-in problem ("navigation-3"), a generated chain ("reservoir(100, 0)"), an RDDL
            file, "rddl:NAME/INSTANCE" for a problem of rddlrepository, or a model of your own:
            "FILE.py:NAME" or "MODULE:NAME", a `Problem` or a function that returns one.
        instance: The RDDL instance file, where `name` is a domain file.
        arguments: Of the function, where the problem is your own and made by one; of an RDDL
            problem, `relaxation`, `temperature` and `functions` (see `ilbo.rddl.read`).
    """
    check_not_forked()
    check_device()
    text = str(name)
    own = instance is None and python_file.is_reference(text)
    if own:
        return python_file.load(text, arguments)
    if instance is not None or text.startswith("rddl:") or text.endswith(".rddl"):
        from ilbo.rddl.build import read

        return read(text, None if instance is None else str(instance), arguments)
    if arguments:
        raise UserError(
            f"{text!r} takes no arguments: only a function in a Python file and RDDL do."
        )
    return named(text)


def named(text: str) -> Problem:
    """A problem of ilbo's own; never runs code of others, whatever the name."""
    problem = built_in(text)
    if problem is None:
        hint = suggest(text, problems(), "see `ilbo problems`.")
        raise UserError(f"There is no problem {text!r}; {hint}")
    return problem
