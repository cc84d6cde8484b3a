"""`ilbo report`: one page to look at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from ilbo.cli.types import Arguments, MaybePath, MaybeText, Trust


@dataclass(frozen=True)
class Command:
    """Write the report of one or more runs: one HTML page that opens from disk."""

    runs: Positional[tuple[Path, ...]]
    """Run folders, finished or not; several are compared."""
    problem: MaybeText = None
    """The problem of the runs where it is your own model, FILE.py:NAME; without it, and without
    --trust, the page has their curves but no trajectories."""
    arguments: Arguments = ()
    trust: Trust = False
    out: Annotated[
        MaybePath,
        arg(metavar="FILE", help_behavior_hint="(default: report.html, in the folder of one run)"),
    ] = None
    """HTML file to write."""
    episodes: int = 2048
    """Fresh episodes that each policy is evaluated on."""
    limit: bool = False
    """Compute the hindsight limit of each problem too, which takes a while."""
    bound: bool = False
    """Say how far each policy is from the best possible at the most, which takes a while."""

    def run(self) -> int:
        from ilbo.cli.output import say
        from ilbo.errors import UserError
        from ilbo.registry.names import make
        from ilbo.registry.python_file import arguments_of
        from ilbo.report.page import write_report
        from ilbo.runs.layout import REPORT, relative
        from ilbo.storage.cache import keep_compiled_programs

        if not self.runs:
            raise UserError("Name a run folder, for example `ilbo report runs/navigation-3-0`.")
        keep_compiled_programs()
        alone = len(self.runs) == 1 and self.runs[0].is_dir()
        out = self.out or (self.runs[0] / REPORT if alone else Path(REPORT))
        problem = None
        if self.problem is not None:
            problem = make(self.problem, None, arguments_of(self.arguments))
        elif self.arguments:
            raise UserError("--arg needs the problem that it is for: name it with --problem.")
        write_report(
            self.runs,
            out,
            problem=problem,
            episodes=self.episodes,
            limit=self.limit,
            trust=self.trust,
            bound=self.bound,
        )
        say(f"report: {relative(out)}")
        return 0
