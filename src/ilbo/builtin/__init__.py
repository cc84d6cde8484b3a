"""The built-in problems and how they are named."""

from __future__ import annotations

import difflib
import functools
import json
import re
from importlib import resources
from pathlib import Path

from ilbo.builtin.hvac import HVAC, hvac
from ilbo.builtin.navigation import Navigation, navigation
from ilbo.builtin.reservoirs import Reservoir, chain, reservoir
from ilbo.errors import UserError
from ilbo.model import Problem

__all__ = ["HVAC", "Navigation", "Reservoir", "make", "problems", "reservoir"]

_FAMILIES = {"navigation": navigation, "hvac": hvac, "reservoir": chain}


@functools.cache
def _instances() -> dict[str, dict]:
    return json.loads(resources.files(__name__).joinpath("instances.json").read_text())


def problems() -> list[str]:
    """Names of the built-in problems.

    >>> problems()
    ['navigation-3', 'hvac-6', 'hvac-3', 'reservoir-10', 'reservoir-20', 'reservoir-30']
    """
    return list(_instances())


def make(name: str | Path, instance: str | Path | None = None) -> Problem:
    """A problem by its name, or from RDDL.

    Args:
        name: A built-in problem ("navigation-3"), a generated chain ("reservoir(100, 0)"), an RDDL
            file, or "rddl:NAME/INSTANCE" for a problem of rddlrepository.
        instance: The RDDL instance file, where `name` is a domain file.
    """
    text = str(name)
    if instance is not None or text.startswith("rddl:") or text.endswith(".rddl"):
        from ilbo.rddl import load

        return load(text, None if instance is None else str(instance))
    if text in _instances():
        facts = _instances()[text]
        return _FAMILIES[facts["family"]](text, facts)
    if generated := re.fullmatch(r"reservoir\((\d+),\s*(\d+)\)", text):
        return reservoir(int(generated[1]), int(generated[2]))
    near = difflib.get_close_matches(text, problems(), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "see `ilbo problems`."
    raise UserError(f"There is no problem {text!r}; {hint}")
