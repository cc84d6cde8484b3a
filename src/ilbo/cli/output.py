"""What the sub-commands print: results on standard output, remarks on standard error."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ilbo.mdp.numbers import precise, precise_interval
from ilbo.notes import note as note
from ilbo.notes import printable

if TYPE_CHECKING:
    from ilbo.mdp.evaluate import Evaluation


def take_any_text() -> None:
    """Has both outputs take what their encoding cannot write; one that is closed takes all."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        else:
            getattr(sys, name).reconfigure(errors="replace")


def say(text: str) -> None:
    """Lines of the result on standard output."""
    print(printable(text))


def print_json(value: Any) -> None:
    """Prints one JSON object; arrays become lists, what is not finite becomes null."""
    print(json.dumps(_plain(value), allow_nan=False))


def print_table(columns: list[str], rows: list[list[str]], title: str | None = None) -> None:
    """A table: drawn by rich on a terminal, plain aligned text elsewhere.

    Columns whose cells all start with a digit or a sign are aligned to the right.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    cells = list(zip(*rows, strict=True)) or [()] * len(columns)
    right = [all(cell[:1] in "-−+0123456789" for cell in column) for column in cells]
    if not sys.stdout.isatty():
        for row in [columns, *rows]:
            print(_aligned(row, [columns, *rows], right))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left")
    for column, numeric in zip(columns, right, strict=True):
        table.add_column(column, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


def print_returns(evaluation: Evaluation) -> None:
    """The returns of a policy, undiscounted and discounted: mean ± standard deviation."""
    e = evaluation
    if e.episodes == 1:
        say(f"return      {precise(e.mean)}   of one episode: no spread, no interval can be given")
        say(f"discounted  {precise(e.discounted_mean)}")
        return
    interval = precise_interval(*e.ci95)
    say(f"return      {precise(e.mean)} ± {precise(e.std)}   95 % {interval}")
    say(f"discounted  {precise(e.discounted_mean)} ± {precise(e.discounted_std)}")


def print_spending(seeds: Sequence[int], found: Sequence[Evaluation]) -> None:
    """What the policies cost, and how they keep the limits of the problem."""
    for seed, e in zip(seeds, found, strict=True):
        whose = f" of seed {seed}" if len(found) > 1 else ""
        for spent in e.costs:
            say(
                f"cost{whose}        {spent.cost} {precise(spent.mean)} in an episode   "
                f"95 % {precise_interval(*spent.ci95)}   worst step {precise(spent.worst_step)}"
            )
        for keeping in e.limits:
            say(f"limit{whose}       {keeping.sentence}")


def _aligned(row: list[str], rows: list[list[str]], right: list[bool]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "  ".join(
        cell.rjust(width) if numeric else cell.ljust(width)
        for cell, width, numeric in zip(row, widths, right, strict=True)
    ).rstrip()


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # NumPy and JAX arrays and scalars
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
