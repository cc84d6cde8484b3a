"""Errors for the user's mistakes: one clear sentence, shown without a traceback."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import operator
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


class UserError(Exception):
    """Bad input: says what is wrong, where, and what to do. The CLI prints it and exits 2."""


class DensityError(UserError):
    """The transition has no density by the rules of `ilbo.mdp.density`."""


class PlanningWarning(UserWarning):
    """A plan is not what it seems: training hit a fault, or the problem has no gradient."""


def warn(sentence: str) -> None:
    """A `PlanningWarning` at the line that called this package."""
    frame, level = sys._getframe(), 1
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "ilbo":
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, PlanningWarning, stacklevel=level)


def suggest(name: str, choices: Iterable[str], otherwise: str) -> str:
    """ "did you mean ...?" with the nearest of the choices, or what to say where none is near."""
    near = difflib.get_close_matches(name, list(choices), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else otherwise


def check_setting(good: object, name: str, wanted: str, value: object) -> None:
    """Raises unless a setting is good; says what it must be, and what it is."""
    if not good:
        raise UserError(f"The setting {name} must be {wanted}; it is {value!r}.")


def whole(value: Any, what: str) -> int:
    """The whole number, of whatever type; an error unless it is one, beginning with `what`.

    >>> whole(20.0, "The horizon")
    20
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        raise UserError(f"{what} must be a whole number; it is {value!r}.") from None


def tells_unknown_settings(**usual: str) -> Callable[[type[T]], type[T]]:
    """Has a dataclass of settings answer a name that it does not know with the nearest it does;
    `usual` are names that others have for its settings."""

    def tell(cls: type[T]) -> type[T]:
        init, names = cls.__init__, [field.name for field in dataclasses.fields(cls)]  # type: ignore

        @functools.wraps(init)
        def told(self: Any, *arguments: Any, **settings: Any) -> None:
            for name in settings:
                if name not in names:
                    meant = usual.get(name, name)
                    hint = suggest(meant, names, f"there are: {', '.join(names)}.")
                    raise UserError(f"{cls.__name__} has no setting {name!r}; {hint}")
            init(self, *arguments, **settings)

        cls.__init__ = told  # type: ignore[method-assign]
        return cls

    return tell


def tidy_settings(settings: Any) -> None:
    """Has a frozen dataclass of settings hold plain values: NumPy's numbers become Python's, a list
    of sizes a tuple. What is no number where one is wanted, or no list, is an error."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
            value = value.item()
        if field.type in ("int", "float", "float | None") and value is not None:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            wanted = "a whole number" if field.type == "int" else "a number"
            check_setting(number, field.name, wanted, value)
        if str(field.type).startswith("tuple"):
            listed = isinstance(value, Iterable) and not isinstance(value, str)
            check_setting(listed, field.name, "a list", value)
            value = tuple(v.item() if hasattr(v, "item") else v for v in value)
        object.__setattr__(settings, field.name, value)
