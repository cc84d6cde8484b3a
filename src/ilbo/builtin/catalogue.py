"""The built-in problems by name."""

from __future__ import annotations

import functools
import json
import re
from importlib import resources
from typing import Any

from ilbo.builtin.hvac import hvac
from ilbo.builtin.navigation import navigation
from ilbo.builtin.reservoirs import chain, reservoir
from ilbo.mdp.problem import Problem

_FAMILIES = {"navigation": navigation, "hvac": hvac, "reservoir": chain}


@functools.cache
def _instances() -> dict[str, dict[str, Any]]:
    return json.loads(resources.files(__package__).joinpath("instances.json").read_text())


def problems() -> list[str]:
    """Names of the built-in problems.

    >>> problems()
    ['navigation-3', 'hvac-6', 'hvac-3', 'reservoir-10', 'reservoir-20', 'reservoir-30']
    """
    return list(_instances())


def built_in(name: str) -> Problem | None:
    """The built-in problem of this name, or the generated chain "reservoir(n, seed)"; None where
    there is none."""
    if name in _instances():
        facts = _instances()[name]
        return _FAMILIES[facts["family"]](name, facts)
    if generated := re.fullmatch(r"reservoir\((\d+),\s*(\d+)\)", name):
        return reservoir(int(generated[1]), int(generated[2]))
    return None
