"""Where the text of a problem comes from, and where in it a message points."""

from __future__ import annotations

import ast
import functools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources, util
from pathlib import Path

from ilbo.errors import UserError, suggest

MOST_SHOWN = 100
"""Characters of a line in a message."""


@dataclass(frozen=True)
class Source:
    """The files of a problem, read, and what to call it."""

    name: str
    paths: tuple[Path, ...]
    texts: tuple[str, ...]

    @property
    def text(self) -> str:
        """All files, one after the other; a line of it is found again with `place`."""
        return "\n".join(self.texts)

    @property
    def files(self) -> str:
        return " and ".join(path.name for path in self.paths)

    def place(self, line: int) -> str:
        """The file and line of a line of `text`, both counted from 1."""
        for path, text in zip(self.paths, self.texts, strict=True):
            lines = text.count("\n") + 1
            if line <= lines:
                return f"{path.name}, line {max(line, 1)}"
            line -= lines
        return f"{self.paths[-1].name}, last line"

    def shown(self, line: int) -> str:
        """A line of `text` for a message."""
        text = self.text.split("\n")[line - 1].strip()
        return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."

    def find(self, word: str) -> str | None:
        """The place of the first line that holds the word outside a comment."""
        line = self.line_of(word)
        return None if line is None else self.place(line)

    def line_of(self, word: str) -> int | None:
        """The line of `text` that is the first to hold the word outside a comment."""
        return self._first(rf"(?<![\w-]){re.escape(word)}(?![\w-])")

    def line_that_defines(self, name: str) -> int | None:
        """The line of `text` that says what a fluent, or the reward, is: `name(?x) = ...`."""
        return self._first(rf"(?<![\w-]){re.escape(name)}\s*(\([^()]*\))?\s*=(?![=>])")

    def _first(self, pattern: str) -> int | None:
        for number, line in enumerate(self.text.split("\n"), start=1):
            if re.search(pattern, line.split("//")[0]):
                return number
        return None


def locate(name: str, instance: str | None) -> Source:
    """The source of a domain and an instance file, a single file, or `rddl:NAME[/INSTANCE]`."""
    if not name.startswith("rddl:"):
        paths = [Path(name)] if instance is None else [Path(name), Path(instance)]
        return _read(paths[-1].stem, paths)
    if instance is not None:
        raise UserError(
            f"{name!r} already names an instance: leave out the file {instance!r}, "
            "or give a domain file in its place."
        )
    wanted = name.removeprefix("rddl:")
    problem, slash, number = wanted.partition("/")
    if not slash and wanted in packaged():
        return _read(name, packaged()[wanted])
    if problem in packaged():
        raise UserError(f"{problem!r} is a single instance: write 'rddl:{problem}'.")
    folder = _choose(problem, repository(), "problem")
    instances = _instances(folder)
    number = number if slash else next(iter(instances))
    path = _choose(number, instances, f"instance of {problem}")
    return _read(f"rddl:{problem}/{number}", [folder / "domain.rddl", path])


def packaged() -> dict[str, list[Path]]:
    """The paper's problems as RDDL: the domain and the instance file of each."""
    folder = Path(str(resources.files("ilbo.rddl"))) / "files"
    return {
        path.stem: [folder / f"{path.stem.split('-')[0]}.rddl", path]
        for path in sorted(folder.glob("*-*.rddl"))
    }


@functools.cache
def repository() -> dict[str, Path]:
    """The folder of each problem of rddlrepository, under the names that its manager gives them.

    The manager itself is not used: it writes a manifest into its own package.
    """
    spec = util.find_spec("rddlrepository")
    if spec is None or not spec.submodule_search_locations:
        raise missing_extra("rddlrepository")
    archive = Path(next(iter(spec.submodule_search_locations))) / "archive"
    found = {}
    for domain in sorted(archive.rglob("domain.rddl")):
        info = _info(domain.parent / "__init__.py")
        if info is not None:
            context = info.get("context")
            found[info["name"] + (f"_{context}" if context else "")] = domain.parent
    return found


def instances(problem: str) -> list[str]:
    """The instances of a problem of rddlrepository."""
    return list(_instances(repository()[problem]))


def missing_extra(package: str) -> UserError:
    return UserError(f"RDDL needs {package}, which is not installed: pip install 'ilbo[rddl]'.")


def _info(path: Path) -> dict | None:
    if not path.exists():
        return None
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            return ast.literal_eval(node.value)
    return None


def _instances(folder: Path) -> dict[str, Path]:
    numbered = {path.stem.removeprefix("instance"): path for path in folder.glob("instance*.rddl")}
    return dict(sorted(numbered.items(), key=lambda item: (len(item[0]), item[0])))


def _choose(name: str, choices: dict[str, Path], what: str) -> Path:
    if name in choices:
        return choices[name]
    hint = suggest(name, choices, f"there are: {', '.join(choices)}.")
    raise UserError(f"There is no {what} {name!r} in rddlrepository; {hint}")


def _read(name: str, paths: list[Path]) -> Source:
    return Source(name, tuple(paths), tuple(_texts(paths)))


def _texts(paths: list[Path]) -> Iterator[str]:
    for path in paths:
        try:
            str(path).encode()
            if os.path.exists(path) and not os.path.isfile(path):
                raise UserError(f"{str(path)!r} is not a plain file.")
            yield path.read_text(encoding="utf-8", errors="replace")
        except ValueError:
            raise UserError(f"The path {str(path)!r} is not plain text: rename it.") from None
        except FileNotFoundError:
            raise UserError(f"There is no file {str(path)!r}.") from None
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            raise UserError(f"Cannot read {str(path)!r}: {reason}.") from None
