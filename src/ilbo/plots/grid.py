"""A tidy grid of cells: one for each component, a tall panel and perhaps a low one beneath."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ilbo.plots.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 30
"""Cells of one picture; of larger problems the first ones are shown."""


def columns_for(cells: int) -> int:
    """Columns of a grid that fills its rows as well as it can."""
    if cells <= 4:
        return cells
    return min((3, 4, 5), key=lambda c: (-cells % c, abs(c - math.sqrt(cells))))


def cells(
    count: int, ratios: tuple[float, ...] = (1.0,), width: float = 2.1, height: float = 1.5
) -> tuple[Figure, np.ndarray]:
    """A figure and its panels [count, len(ratios)]; panels of one kind share their y axis."""
    columns = columns_for(count)
    rows = -(-count // columns)
    figure = new_figure(max(5.4, width * columns + 0.6), height * rows * sum(ratios) + 0.9)
    kinds = len(ratios)
    layout = figure.add_gridspec(rows * kinds, columns, height_ratios=ratios * rows)
    panels = np.empty((count, kinds), object)
    for i in range(count):
        row, column = divmod(i, columns)
        for kind in range(kinds):
            panels[i, kind] = figure.add_subplot(
                layout[row * kinds + kind, column],
                sharex=panels[0, 0] if i or kind else None,
                sharey=panels[0, kind] if i else None,
            )
    return figure, panels


def label_edges(panels: np.ndarray, y: tuple[str, ...], x: str) -> None:
    """Tick labels and axis titles on the outer panels only."""
    count, kinds = panels.shape
    columns = columns_for(count)
    for i in range(count):
        for kind in range(kinds):
            ax: Axes = panels[i, kind]
            left, lowest = i % columns == 0, i + columns >= count and kind == kinds - 1
            ax.tick_params(labelleft=left, labelbottom=lowest)
            ax.set_ylabel(y[kind] if left else "")
            ax.set_xlabel(x if lowest else "")
