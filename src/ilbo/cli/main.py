"""The `ilbo` command.

A sub-command is one module of this package, named after it, and one line in `COMMANDS`. The module
defines `Command`, a frozen dataclass: tyro makes its fields the arguments (`Positional[...]` for
those without a dash), its docstring and its fields' docstrings the help, and `run` does the work
and returns the exit code:

    @dataclass(frozen=True)
    class Command:
        '''What the command does, in a sentence.'''

        problem: Positional[str]
        '''A built-in problem, ...'''
        json: bool = False
        '''Print one JSON object and nothing else.'''

        def run(self) -> int: ...

Only the chosen module is imported, and JAX and the rest of the package only inside `run`, so that
help is instant. What the user got wrong is raised as `UserError`: one line on standard error and
exit code 2. With `--json`, standard output holds one JSON object (`output.print_json`) and nothing
else; progress and remarks go to standard error (`output.note`).
"""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from ilbo.cli.interruption import end_on_interrupt
from ilbo.errors import UserError, suggest
from ilbo.version import __version__

COMMANDS = {
    "problems": "List the built-in problems.",
    "simulate": "Simulate a simple policy and sum up its returns.",
    "plan": "Train a policy for a problem.",
    "check": "Try a model out before training and say what is off with it.",
    "inspect": "Show how a problem is read: components, bounds, noise, density.",
    "evaluate": "Evaluate a trained policy on fresh episodes.",
    "compare": "Compare policies on equal noise.",
    "watch": "Follow runs in the browser as they go.",
    "tune": "Look for the settings that suit a problem best.",
    "report": "Write the report of one or more runs.",
    "export": "Export a trained policy for use elsewhere.",
    "reproduce": "Reproduce the paper's experiments.",
    "doctor": "Show versions, devices and what is missing, for a bug report.",
    "completion": "Print the completion script for a shell.",
}


GARBAGE = 200_000
"""Allocations before Python collects garbage: importing and tracing make many lasting objects."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line (without the program's name) and returns the exit code."""
    ours = argv is None
    if ours:  # before all else, importing included
        _occupy_closed()
        end_on_interrupt()
    from ilbo.cli.output import note, take_any_text

    if ours:
        take_any_text()
    argv = list(sys.argv[1:] if argv is None else argv)
    gc.set_threshold(GARBAGE)
    atexit.register(gc.freeze)  # a last collection would traverse all of JAX's objects for nothing
    try:
        code = _dispatch(argv)
        sys.stdout.flush()
        return code
    except UserError as error:
        note(f"ilbo: {error}")
        return 2
    except BrokenPipeError:
        _give_up_output()
        return 141
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
            _give_up_output()
            note(f"ilbo: Cannot write the output: {os.strerror(error.errno).lower()}.")
        elif isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            note("ilbo: There is not enough memory; ask for fewer episodes.")
        elif platforms := _unknown_platforms():
            note(
                f"ilbo: JAX finds no device for JAX_PLATFORMS={platforms!r}: install what it needs "
                "for that, or leave the variable out."
            )
        else:
            raise
        return 2
    except KeyboardInterrupt:
        note("ilbo: interrupted")
        return 130


def _occupy_closed() -> None:
    """Keeps files that are opened later from taking the place of a closed input or output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def _give_up_output() -> None:
    """What is still buffered must not fail again when Python exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unknown_platforms() -> str | None:
    """What the user has JAX compute on, where that is not there."""
    platforms = os.environ.get("JAX_PLATFORMS")
    if not platforms or "jax" not in sys.modules:
        return None
    import jax

    try:
        jax.devices()
    except Exception:
        return platforms
    return None


def _dispatch(argv: list[str]) -> int:
    if not argv:
        print(_help(), file=sys.stderr)
        return 2
    name, *arguments = argv
    if name in ("-h", "--help"):
        print(_help())
        return 0
    if name == "--version":
        print(f"ilbo {__version__}")
        return 0
    if name not in COMMANDS:
        hint = suggest(name, COMMANDS, "see `ilbo --help`.")
        raise UserError(f"There is no command {name!r}; {hint}")
    return parse(name, arguments).run()


def parse(name: str, arguments: Sequence[str]) -> Any:
    """The sub-command with these arguments; exits with 2 and says why where they are wrong."""
    import tyro

    return tyro.cli(command(name), prog=f"ilbo {name}", args=arguments, config=tyro_config())


def command(name: str) -> Any:
    """The `Command` class of the sub-command."""
    return importlib.import_module(f"ilbo.cli.{name}").Command


def tyro_config() -> tuple:
    """How all sub-commands are parsed: `--flag` alone, positional arguments by their names."""
    from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, PositionalMetavarFromFieldName

    return (FlagCreatePairsOff, OmitArgPrefixes, PositionalMetavarFromFieldName)


def _help() -> str:
    width = max(map(len, COMMANDS))
    return "\n".join(
        [
            "usage: ilbo COMMAND [ARGUMENTS]",
            "",
            "Planning in continuous MDPs by iterative lower bound optimisation.",
            "",
            "commands:",
            *(f"  {name:{width}}  {line}" for name, line in COMMANDS.items()),
            "",
            "`ilbo COMMAND --help` tells more; `ilbo --version` prints the version.",
        ]
    )
