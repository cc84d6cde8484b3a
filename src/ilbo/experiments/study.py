"""A study: an experiment with its runs, ready to be reported. And what all reports share."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ilbo.experiments.arms import Arm, Result
from ilbo.experiments.scales import Scale, ScaleName
from ilbo.experiments.statistics import mean, spread
from ilbo.mdp.numbers import number
from ilbo.mdp.ranking import too_low
from ilbo.storage.environment import machine
from ilbo.storage.files import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Experiment(Protocol):
    """The interface of an experiment's module."""

    TITLE: str
    SEEDS: Mapping[ScaleName, int]
    """Runs of each arm, unless the user says otherwise."""

    def arms(self, scale: Scale) -> list[Arm]:
        """What is run."""

    def report(self, study: Study) -> str:
        """Writes data and figure; returns the tables and their text as Markdown."""


@dataclass(frozen=True)
class Study:
    """All runs of an experiment."""

    name: str
    scale: Scale
    arms: Sequence[Arm]
    runs: Mapping[str, list[Result]]
    """Results by the arm's key."""
    folder: Path

    def of(self, arm: Arm) -> list[Result]:
        return self.runs[arm.key]

    def select(self, *planners: str, problem: str | None = None) -> list[Arm]:
        return [
            arm
            for arm in self.arms
            if arm.planner in planners and (problem is None or arm.problem == problem)
        ]

    def yardstick(self, planner: str, problem: str) -> Result:
        """The only run of a baseline without training."""
        return self.of(self.select(planner, problem=problem)[0])[0]

    def architecture(self, arm: Arm) -> str:
        names = {layers: name for name, layers in self.scale.architectures.items()}
        return names.get(arm.layers, "")

    def device(self, arm: Arm) -> str:
        """What the arm's first run ran on."""
        return self.of(arm)[0].environment["device"]

    def write_curves(self) -> None:
        """Every test of every run, as `NAME.csv`."""
        rows = [
            [*self._row_head(arm, run), *point]
            for arm in self.select("ilbo", "through-time")
            for run in self.of(arm)
            for point in zip(run.episodes, run.current, run.best, strict=True)
        ]
        self.write_table([*_HEAD, "episodes", "current", "best"], rows, ".csv")

    def write_runs(self) -> None:
        """One line for each run, as `NAME-runs.csv`."""
        counts = ("episodes", "transitions", "model_evaluations", "random_draws", "gradient_steps")
        figures = (
            "final",
            "final_best",
            "standard_error",
            "seconds",
            "compile_seconds",
            "together",
        )
        rows = [
            [
                *self._row_head(arm, run),
                *(getattr(run, name) for name in figures),
                *(run.samples.get(name, 0) for name in counts),
            ]
            for arm in self.arms
            for run in self.of(arm)
        ]
        self.write_table([*_HEAD, *figures, *counts], rows, "-runs.csv")

    def _row_head(self, arm: Arm, run: Result) -> list[Any]:
        return [arm.problem, arm.label, "x".join(map(str, arm.layers)), run.seed]

    def write_table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], end: str) -> None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([f"{x:.8g}" if isinstance(x, float) else x for x in row] for row in rows)
        write_text(self.folder / f"{self.name}{end}", text.getvalue())

    def save_figure(self, figure: Figure, name: str | None = None) -> None:
        """Writes the figure as PNG and PDF."""
        from ilbo.plots.canvas import save

        for ending in ("png", "pdf"):
            save(figure, self.folder / f"{name or self.name}.{ending}")

    def provenance(self, command: str) -> str:
        """Command, commit, machine, versions and time of the runs, as a Markdown list."""
        every = [run for runs in self.runs.values() for run in runs]
        environments = [run.environment for run in every]
        versions = {f"jax {e['packages']['jax']}, Python {e['python']}" for e in environments}
        commits = {_short(e["commit"]) for e in environments if e["commit"]}
        blocks = {(arm.key, run.seconds): run.seconds for arm in self.arms for run in self.of(arm)}
        return "\n".join(
            [
                f"- Command: `{command}`",
                f"- Commit: {', '.join(sorted(commits)) or 'no source checkout'}",
                f"- Machine: {', '.join(sorted(set(map(machine, environments))))}; "
                f"{', '.join(sorted(versions))}",
                f"- Time: {_minutes(sum(blocks.values()))} of planning, compilation included",
            ]
        )


_HEAD = ("problem", "planner", "layers", "seed")


def _short(commit: str) -> str:
    """The first digits of a commit, and the mark of a changed checkout."""
    return commit[:12] + "+" * commit.endswith("+")


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def mean_and_spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation; of a single value, the value alone."""
    middle = number(mean(values).value)
    return f"{middle} ± {number(spread(values))}" if len(values) > 1 else middle


def limit_cell(limit: float, policies: Iterable[float]) -> str:
    """A hindsight limit; one that a policy passes on the same noise is an error, and shown as one.

    Args:
        limit: The limit on the fresh trajectories.
        policies: What policies earn on them.
    """
    if too_low(limit, policies):
        return f"{number(limit)}, too low: a policy earns more"
    return number(limit)


def grouped(rows: Iterable[Mapping[str, Any]], *names: str) -> dict[tuple, list[Any]]:
    """The rows by their values under the names."""
    groups: dict[tuple, list[Any]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; columns whose cells all look like numbers are aligned to the right."""
    cells = [list(map(str, row)) for row in rows]
    numeric = [
        all(row[i][:1] in "−-0123456789[" or row[i] in ("never", "none") for row in cells)
        for i in range(len(columns))
    ]
    lines = [columns, ["---:" if right else "---" for right in numeric], *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
