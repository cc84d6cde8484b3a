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
from ilbo.mdp.problem import Origin, Problem

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


def facts(name: str) -> dict[str, Any] | None:
    """What the problem of this name is made from; None where there is none of the name.

    >>> facts("reservoir(100, 0)")
    {'family': 'reservoir', 'size': 100, 'seed': 0}
    """
    if name in _instances():
        return _instances()[name]
    if generated := re.fullmatch(r"reservoir\((\d{1,20}),\s*(\d{1,20})\)", name):
        return {"family": "reservoir", "size": int(generated[1]), "seed": int(generated[2])}
    return None


def built_in(name: str) -> Problem | None:
    """The built-in problem of this name, or the generated chain "reservoir(n, seed)"; None where
    there is none."""
    known = facts(name)
    if known is None:
        return None
    if "seed" in known:
        return reservoir(known["size"], known["seed"])
    return _FAMILIES[known["family"]](name, known, Origin("built-in"))
