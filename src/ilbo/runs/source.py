"""The Python file that a run's problem comes from: what the run folder says of it, and when it is
run again."""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ilbo.errors import UserError
from ilbo.mdp.problem import Problem
from ilbo.notes import note
from ilbo.registry import python_file
from ilbo.runs.layout import MODEL, relative


@dataclass(frozen=True)
class Source:
    """Where a problem of the user's own was found, and what was there."""

    reference: str
    """As `ilbo.make` takes it: FILE.py:NAME with the whole path, or MODULE:NAME."""
    path: str
    """The file."""
    sha256: str
    """Of its text."""
    arguments: dict[str, str]
    """Of the function that returned the problem, as Python expressions."""

    @classmethod
    def of(cls, problem: Problem) -> Source | None:
        """None where the problem does not come from a file, or is not as it was there."""
        origin = problem.origin
        if origin.kind != "file" or not problem.is_as_built:
            return None
        ((path, text),) = origin.files
        return cls(origin.reference, path, _hash(text), dict(origin.arguments))

    @classmethod
    def read(cls, values: Any) -> Source | None:
        """From `meta.json`; a `ValueError` where it makes no sense."""
        if values is None:
            return None
        names = ("reference", "path", "sha256", "arguments")
        if not isinstance(values, dict) or set(values) != set(names):
            raise ValueError("its source is not told by " + ", ".join(names))
        arguments = values["arguments"]
        texts = [*(values[name] for name in names[:3]), *_entries(arguments)]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("its source is not told by texts")
        return cls(*(values[name] for name in names))

    @property
    def named(self) -> str:
        """How a user would name the problem on a command line in this folder."""
        where, _, name = self.reference.rpartition(":")
        called = f"{relative(Path(where))}:{name}" if where.endswith(".py") else self.reference
        given = (f"--arg {name}={value}" for name, value in self.arguments.items())
        return " ".join([called, *given])

    def load(self, run: Path) -> Problem:
        """Runs the file again, where it lies; warns where it is not what it was."""
        if self.reference.startswith(self.path) and not Path(self.path).exists():
            name = self.reference.rpartition(":")[2]
            raise UserError(
                f"The model of the run {str(run)!r} lay in {self.path!r}, which is gone: name it "
                f"where it lies now, or name the copy that the run keeps, {run / MODEL}:{name}."
            )
        problem = python_file.load(self.reference, self._values(run))
        self.tell_changes(run, problem)
        return problem

    def tell_changes(self, run: Path, problem: Problem) -> None:
        """A line on standard error where the problem is not made as it was for the run."""
        found = Source.of(problem)
        if found is None:
            return
        if found.sha256 != self.sha256:
            note(
                f"ilbo: {relative(Path(found.path))} is not what it was when the run in {run} "
                f"began; the run keeps a copy of that, {run / MODEL}."
            )
        elif found.arguments != self.arguments:
            note(
                f"ilbo: the run in {run} was begun with {_shown(self.arguments)}, and this is with "
                f"{_shown(found.arguments)}."
            )

    def _values(self, run: Path) -> dict[str, Any]:
        try:
            return {name: ast.literal_eval(text) for name, text in self.arguments.items()}
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise UserError(
                f"The model of the run {str(run)!r} was made with {_shown(self.arguments)}, which "
                "cannot be read back: name the model with its arguments."
            ) from None


def refuse_to_run(run: Path, source: Source) -> UserError:
    """What to say where nobody has allowed to run the file."""
    return UserError(
        f"The problem of the run {str(run)!r} is a model of your own, and reading a folder runs no "
        f"code: name the model, {source.named}, or say --trust to run it from there."
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _entries(arguments: Any) -> list[Any]:
    return [*arguments, *arguments.values()] if isinstance(arguments, dict) else [None]


def _shown(arguments: dict[str, str]) -> str:
    return ", ".join(f"{k}={v}" for k, v in arguments.items()) or "no arguments"
