"""Problems by name: built in, generated, or from RDDL."""

from __future__ import annotations

from pathlib import Path

from ilbo.builtin.catalogue import built_in, problems
from ilbo.errors import UserError, suggest
from ilbo.forks import check_not_forked
from ilbo.mdp.problem import Problem


def make(name: str | Path, instance: str | Path | None = None) -> Problem:
    """A problem by its name, or from RDDL.

    Args:
        name: A built-in problem ("navigation-3"), a generated chain ("reservoir(100, 0)"), an RDDL
            file, or "rddl:NAME/INSTANCE" for a problem of rddlrepository.
        instance: The RDDL instance file, where `name` is a domain file.
    """
    check_not_forked()
    text = str(name)
    if instance is not None or text.startswith("rddl:") or text.endswith(".rddl"):
        from ilbo.rddl.build import read

        return read(text, None if instance is None else str(instance))
    problem = built_in(text)
    if problem is None:
        hint = suggest(text, problems(), "see `ilbo problems`.")
        raise UserError(f"There is no problem {text!r}; {hint}")
    return problem
