"""Errors for the user's mistakes: one clear sentence, shown without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Bad input: says what is wrong, where, and what to do. The CLI prints it and exits 2."""


class DensityError(UserError):
    """The transition has no density by the rules of `ilbo.mdp.density`."""


def suggest(name: str, choices: Iterable[str], otherwise: str) -> str:
    """ "did you mean ...?" with the nearest of the choices, or what to say where none is near."""
    near = difflib.get_close_matches(name, list(choices), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else otherwise


def check_setting(good: object, name: str, wanted: str, value: object) -> None:
    """Raises unless a setting is good; says what it must be, and what it is."""
    if not good:
        raise UserError(f"The setting {name} must be {wanted}; it is {value!r}.")
