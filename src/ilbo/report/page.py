"""The report of runs: one HTML page with its pictures in it, which opens from disk."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from string import Template

from ilbo.errors import UserError
from ilbo.mdp.problem import Problem
from ilbo.report import parts
from ilbo.report.comparison import comparison
from ilbo.report.entry import Entry, look_into
from ilbo.report.sections import section
from ilbo.runs.results import FRESH_EPISODES
from ilbo.runs.saved import SavedRun, read_run
from ilbo.storage.files import write_text
from ilbo.version import __version__


def write_report(
    paths: Sequence[str | Path],
    out: str | Path,
    *,
    problem: Problem | None = None,
    episodes: int = FRESH_EPISODES,
    limit: bool = False,
    trust: bool = False,
    bound: bool = False,
) -> None:
    """Writes the report of one or more runs.

    Args:
        paths: Run folders, finished or not.
        out: HTML file to write.
        problem: The problem of the runs where it is a model of your own; without it, the report
            has the curves but no trajectories.
        episodes: Fresh episodes that each policy is evaluated on.
        limit: Whether to compute the hindsight limit of each problem, which takes a while.
        trust: Whether the Python files that the folders name as their problems' sources may be run.
        bound: Whether to compute how far each policy is from the best possible at the most, which
            takes a while.
    """
    if not paths:
        raise UserError("A report needs at least one run folder.")
    if episodes < 2:
        raise UserError(f"A report needs at least 2 episodes, got {episodes}.")
    runs = [read_run(path) for path in paths]
    limits: dict[str, float] = {}
    entries = [
        look_into(run, name, problem, episodes, limits if limit else None, trust, bound)
        for run, name in zip(runs, _names(runs), strict=True)
    ]
    write_text(Path(out), render(entries))


def render(entries: Sequence[Entry]) -> str:
    """The page."""
    problems = list(dict.fromkeys(entry.run.description["name"] for entry in entries))
    plural = "s" if len(entries) > 1 else ""
    body = [comparison(entries)] if len(entries) > 1 else []
    body += [section(entry, i, len(entries) > 1) for i, entry in enumerate(entries)]
    subtitle = f"{len(entries)} run{plural}, trained by iterative lower bound optimisation"
    return fill("Planning report: " + ", ".join(problems), subtitle, "\n".join(body))


def fill(title: str, subtitle: str, body: str) -> str:
    """A page of ours; the body is HTML."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    template = resources.files(__package__).joinpath("template.html").read_text("utf-8")
    return Template(template).substitute(
        version=__version__,
        title=parts.text(title),
        subtitle=parts.text(subtitle),
        body=body,
        footer=parts.text(f"Written {now} by ilbo {__version__}."),
    )


def _names(runs: Sequence[SavedRun]) -> list[str]:
    """The folders' names, or their paths where two have the same name."""
    names = [run.path.resolve().name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.path) for run in runs]
