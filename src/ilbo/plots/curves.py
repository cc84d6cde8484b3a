"""The learning curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from ilbo.errors import UserError
from ilbo.plots.canvas import BLUE, GREEN, RED, dress, heading, legend_below, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ilbo.planning.records import Record

LATE = 0.4
"""Where the second panel begins, as a share of training: early returns would flatten it."""


def draw(history: Sequence[Sequence[Record]], limit: float | None, title: str | None) -> Figure:
    runs = tested(history)
    end = max(run[-1].episode for run in runs)
    late = [[record for record in run if record.episode >= LATE * end] for run in runs]
    late = [run for run in late if run]
    zoom = min(map(len, runs)) >= 5 and all(len(run) >= 2 for run in late)
    figure = new_figure(8.4 if zoom else 5.4, 3.5)
    heading(figure, title, "Learning curve")
    panels = figure.subplots(1, 2 if zoom else 1, squeeze=False)[0]
    _panel(panels[0], runs, limit, "whole training" if zoom else "")
    if zoom:
        _panel(panels[1], late, limit, f"from episode {late[0][0].episode} on")
        panels[1].set_ylabel("")
    handles, labels = panels[0].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    legend_below(figure, [unique[label] for label in unique])
    return figure


def _panel(ax: Axes, runs: list[list[Record]], limit: float | None, title: str) -> None:
    dress(ax, title, "training episodes", "mean return of a test")
    many = len(runs) > 1
    if many:
        for run in runs:
            ax.plot(*line_of(run, "current"), color=BLUE, alpha=0.3, lw=0.8, label="each seed")
    current, best = mean_of(runs, "current"), mean_of(runs, "best")
    what = f", mean of {len(runs)} seeds" if many else ""
    marker = "o" if len(current[0]) <= 30 else None
    ax.plot(*current, color=BLUE, lw=1.9, marker=marker, ms=3, label=f"current policy{what}")
    ax.plot(*best, color=GREEN, lw=1.2, ls=(0, (4, 3)), label=f"best so far{what}")
    if limit is not None and np.isfinite(limit):
        ax.axhline(limit, color=RED, lw=1.2, ls=":", label="hindsight limit")
    ax.margins(x=0.02)


def tested(history: Sequence[Sequence[Record]]) -> list[list[Record]]:
    """The seeds that were tested at least once."""
    runs = [list(run) for run in history if len(run)]
    if not runs:
        raise UserError("There is no test in this history yet, so there is no curve to draw.")
    return runs


def line_of(
    run: Sequence[Record], field: str
) -> tuple[Int[np.ndarray, " tests"], Float[np.ndarray, " tests"]]:
    """Episodes and values of a field, NaN where it is not finite."""
    values = np.array([getattr(record, field) for record in run], float)
    episodes = np.array([record.episode for record in run])
    return episodes, np.where(np.isfinite(values), values, np.nan)


def mean_of(
    runs: list[list[Record]], field: str
) -> tuple[Int[np.ndarray, " tests"], Float[np.ndarray, " tests"]]:
    """The mean over the seeds, as far as all of them were tested."""
    shortest = min(map(len, runs))
    lines = [line_of(run[:shortest], field) for run in runs]
    return lines[0][0], np.mean([values for _, values in lines], axis=0)
