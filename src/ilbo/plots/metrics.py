"""The metrics of training: one panel for each quantity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ilbo.plots.canvas import BLUE, dress, heading, new_figure, thousands
from ilbo.plots.curves import line_of, mean_of, tested

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ilbo.planning.records import Record

PANELS = {
    "critic_loss": "critic's loss",
    "critic_gradient": "length of the critic's gradient",
    "bound": "bound: estimated return",
    "policy_gradient": "length of the bound's gradient",
}
LOGARITHMIC = ("critic_loss", "critic_gradient", "policy_gradient")


def draw(history: Sequence[Sequence[Record]], title: str | None) -> Figure:
    from matplotlib.ticker import LogLocator, NullFormatter

    runs = tested(history)
    figure = new_figure(8.4, 4.4)
    heading(figure, title, "Training from the inside")
    panels = figure.subplots(2, 2)
    for ax, (field, name) in zip(panels.flat, PANELS.items(), strict=True):
        lowest = ax in panels[-1]
        dress(ax, name, "training episodes" if lowest else "")
        lines = [line_of(run, field) for run in runs]
        if field in LOGARITHMIC and all((values > 0).all() for _, values in lines):
            ax.set_yscale("log")
            ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            ax.yaxis.set_major_formatter(thousands)
            ax.yaxis.set_minor_formatter(NullFormatter())
        for line in lines if len(runs) > 1 else []:
            ax.plot(*line, color=BLUE, alpha=0.3, lw=0.8)
        ax.plot(*mean_of(runs, field), color=BLUE, lw=1.6)
        ax.margins(x=0.02)
    return figure
