"""What users may rely on: no public name, and no argument of one, disappears unnoticed."""

import dataclasses
import inspect
from pathlib import Path

import ilbo

LIST = Path(__file__).with_name("public_names.txt")


def public_names():
    """`name(argument, ...)` of all that `import ilbo` offers, and `command --flag` of commands."""
    lines = []
    for name in sorted(set(dir(ilbo)) - set(ilbo._ROOMS)):
        lines.append(f"{name}({', '.join(_arguments(getattr(ilbo, name)))})")
    from ilbo.cli.main import COMMANDS, command

    for name in sorted(COMMANDS):
        fields = [field.name for field in dataclasses.fields(command(name))]
        lines.append(f"ilbo {name}: {', '.join(fields)}")
    return lines


def _arguments(value):
    if not callable(value):
        return []
    try:
        return [name for name in inspect.signature(value).parameters if name != "self"]
    except (TypeError, ValueError):
        return []


def _parsed(lines):
    found = {}
    for line in lines:
        name, _, rest = line.replace("ilbo ", "ilbo-").partition("(" if "(" in line else ":")
        found[name] = {word.strip() for word in rest.rstrip(")").split(",") if word.strip()}
    return found


def test_nothing_public_disappears():
    then, now = _parsed(LIST.read_text().splitlines()), _parsed(public_names())
    gone = sorted(then.keys() - now.keys())
    gone += [f"{name}: {a}" for name in then.keys() & now.keys() for a in then[name] - now[name]]
    assert not gone, "deprecate a name for a version before it goes, with a warning that helps"


def test_what_is_new_is_listed():
    then, now = _parsed(LIST.read_text().splitlines()), _parsed(public_names())
    new = sorted(now.keys() - then.keys())
    new += [f"{name}: {a}" for name in then.keys() & now.keys() for a in now[name] - then[name]]
    assert not new, f"add to {LIST.name}: `python tests/test_public_names.py` prints the whole list"


if __name__ == "__main__":
    print("\n".join(public_names()))
