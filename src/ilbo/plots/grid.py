"""A grid of cells, one for each component: a tall panel and, where needed, a low one beneath."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Shaped

from ilbo.plots.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 30
"""Cells of one picture; of larger problems the first ones are shown."""


HEIGHT = 1.5
"""Inches of a panel whose ratio is 1."""


def columns_for(cells: int) -> int:
    """Columns of a grid that fills its rows as well as it can."""
    if cells <= 4:
        return cells
    return min((3, 4, 5), key=lambda c: (-cells % c, abs(c - math.sqrt(cells))))


def cells(
    count: int, ratios: tuple[float, ...], width: float, titled: bool
) -> tuple[Figure, Shaped[np.ndarray, "count kinds"]]:
    """A figure and its panels, one for each ratio of heights in cells of a width in inches.

    Panels stand at fixed places and share no axes: with many of them either would be slow.
    """
    columns, kinds = columns_for(count), len(ratios)
    above = 0.55 if titled else 0.25
    rows = -(-count // columns)
    wide, high = max(5.4, width * columns + 0.7), HEIGHT * rows * sum(ratios) + above + 0.6
    figure = new_figure(wide, high, layout=None)
    layout = figure.add_gridspec(
        rows,
        columns,
        left=0.62 / wide,
        right=1 - 0.2 / wide,
        bottom=0.76 / high,
        top=1 - above / high,
        wspace=0.09,
        hspace=0.24 / sum(ratios),
    )
    panels = np.empty((count, kinds), object)
    for i in range(count):
        cell = layout[divmod(i, columns)].subgridspec(kinds, 1, height_ratios=ratios, hspace=0.14)
        for kind in range(kinds):
            panels[i, kind] = figure.add_subplot(cell[kind])
    return figure, panels


def share_limits(
    panels: Shaped[np.ndarray, " count"], x: tuple[float, float], y: tuple[float, float]
) -> None:
    """The same limits for all panels of one kind, [count]."""
    for ax in panels:
        ax.set_xlim(x)
        ax.set_ylim(y)


def label_edges(panels: Shaped[np.ndarray, "count kinds"], y: tuple[str, ...], x: str) -> None:
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
