"""Models of the user's own by name: `battery.py:problem`, `package.module:name`.

To find such a problem is to run its file: nothing here may be called with a name that a file of
ours holds unless the user has said that it may.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import inspect
import os
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ilbo.errors import UserError, suggest
from ilbo.mdp.problem import Origin, Problem


class Loaded(NamedTuple):
    """A module of the user's, and the text that it was made from."""

    module: types.ModuleType
    path: Path
    text: str


def is_reference(text: str) -> bool:
    """Whether a name on the command line means a problem in a Python file or module."""
    return text.endswith(".py") or (":" in text and not text.startswith("rddl:"))


def load(reference: str, arguments: Mapping[str, Any] | None = None) -> Problem:
    """The problem in a Python file or module; runs its code.

    Args:
        reference: "FILE.py:NAME" or "MODULE:NAME", where NAME is a `Problem` or a function that
            returns one.
        arguments: Of the function.
    """
    where, _, name = reference.rpartition(":")
    if not where or not name.isidentifier():
        file = where or reference.rstrip(":")
        raise UserError(
            f"Say which problem of {file!r} is meant, by its name there: {file}:problem."
        )
    loaded = _run_file(where) if where.endswith(".py") else _import(where)
    problem = _resolve(loaded, where, name, dict(arguments or {}))
    if problem.is_as_built:  # ilbo's own or from RDDL: it can be built again without the file
        return problem
    found = f"{loaded.path}:{name}" if where.endswith(".py") else reference
    given = tuple((key, repr(value)) for key, value in (arguments or {}).items())
    return problem.from_origin(Origin("file", ((str(loaded.path), loaded.text),), found, given))


def arguments_of(texts: Sequence[str], flag: str = "--arg") -> dict[str, Any]:
    """The values of `--arg NAME=VALUE`: Python literals where they are such, else texts."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UserError(
                f"{flag} takes NAME=VALUE, for example {flag} capacity=10; got {text!r}."
            )
        if name in found:
            raise UserError(f"{flag} {name} is given twice.")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            found[name] = value
    return found


def _run_file(where: str) -> Loaded:
    path = Path(os.path.abspath(os.path.expanduser(where)))
    if path.exists() and not path.is_file():
        raise UserError(f"{where!r} is not a plain file.")
    try:
        source = path.read_bytes()
        text = source.decode()
    except FileNotFoundError:
        raise UserError(f"There is no file {where!r}.") from None
    except UnicodeDecodeError:
        raise UserError(f"{where!r} is not a text file.") from None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UserError(f"Cannot read {where!r}: {reason}.") from None
    module = types.ModuleType(f"model_in_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look there for the module of a class
    with _in_one_sentence(path, where), _beside(path.parent):
        exec(compile(source, str(path), "exec"), module.__dict__)
    return Loaded(module, path, text)


def _import(where: str) -> Loaded:
    with _beside(Path.cwd()):
        with _in_one_sentence(None, where):
            try:
                spec = importlib.util.find_spec(where)
            except (ModuleNotFoundError, ValueError):
                spec = None
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            raise UserError(
                f"There is no module {where!r}, neither installed nor in this folder; "
                "a file is named with its ending, FILE.py:NAME."
            )
        path = Path(spec.origin)
        with _in_one_sentence(path, where):
            text = path.read_text("utf-8")
            return Loaded(importlib.import_module(where), path, text)


def _resolve(loaded: Loaded, where: str, name: str, arguments: dict[str, Any]) -> Problem:
    value = getattr(loaded.module, name, None)
    if value is None:
        known = [key for key, held in vars(loaded.module).items() if _may_be_meant(held)]
        hint = suggest(name, known, f"it has: {', '.join(known)}." if known else "it has none.")
        raise UserError(f"There is no problem {name!r} in {where}; {hint}")
    if isinstance(value, Problem):
        if arguments:
            raise UserError(
                f"{where}:{name} is a problem, not a function that returns one: leave out its "
                "arguments."
            )
        return value
    if isinstance(value, type) or not callable(value):
        kind = "a class" if isinstance(value, type) else f"of type {type(value).__name__}"
        raise UserError(
            f"{where}:{name} is {kind}; it must be an ilbo.Problem, or a function that returns one."
        )
    _check_arguments(value, f"{where}:{name}", arguments)
    with _in_one_sentence(loaded.path, where), _beside(loaded.path.parent):
        made = value(**arguments)
    if not isinstance(made, Problem):
        raise UserError(
            f"{where}:{name} returns an object of type {type(made).__name__}, not an ilbo.Problem."
        )
    return made


def _may_be_meant(value: Any) -> bool:
    return isinstance(value, Problem | types.FunctionType)


def _check_arguments(function: Any, what: str, arguments: dict[str, Any]) -> None:
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for name in arguments:
        if name not in [p.name for p in named] and not takes_any:
            known = ", ".join(p.name for p in named)
            hint = suggest(name, [p.name for p in named], f"it takes: {known or 'none'}.")
            raise UserError(f"{what} takes no argument {name!r}; {hint}")
    for parameter in named:
        if parameter.default is parameter.empty and parameter.name not in arguments:
            raise UserError(
                f"{what} needs the argument {parameter.name!r}: give it with "
                f"--arg {parameter.name}=VALUE."
            )


@contextlib.contextmanager
def _beside(folder: Path) -> Iterator[None]:
    """Modules in the folder can be imported, before all others while the user's code is loaded and
    after them from then on; what it prints goes to standard error."""
    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.path.remove(entry)
        if entry not in sys.path:
            sys.path.append(entry)


@contextlib.contextmanager
def _in_one_sentence(path: Path | None, where: str) -> Iterator[None]:
    """What the user's code raises, as a sentence that names the file and the line."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a model of the user's own may raise anything
        at, line = where, _line(error, path)
        if isinstance(error, SyntaxError) and error.filename not in (None, str(path)):
            at, line = str(error.filename), error.lineno
        place = f"{at}:{line}" if line else at
        said = (str(error).strip().splitlines() or [""])[0]
        if isinstance(error, SyntaxError):
            said = error.msg
        if isinstance(error, UserError):
            raise UserError(f"{place}: {error}") from error
        kind = type(error).__name__
        raise UserError(f"{place} fails: {kind}{f': {said}' if said else ''}.") from error


def _line(error: BaseException, path: Path | None) -> int | None:
    """The last line of the file that the error went through."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    line, at = None, error.__traceback__
    while at is not None:
        if path is not None and at.tb_frame.f_code.co_filename == str(path):
            line = at.tb_lineno
        at = at.tb_next
    return line
