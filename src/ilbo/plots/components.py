"""Any problem: one small panel for each component of the state and of the action."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ilbo.plots.canvas import (
    BLUE,
    ORANGE,
    band,
    band_handles,
    dress,
    heading,
    legend_below,
    quantiles,
)
from ilbo.plots.grid import MOST, columns_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ilbo.mdp.problem import Problem
    from ilbo.mdp.simulate import PolicyFunction, Trajectories


def draw(
    problem: Problem, policy: PolicyFunction, simulated: Trajectories, title: str | None
) -> Figure:
    from ilbo.plots.canvas import new_figure

    alive = np.asarray(simulated.alive)
    states = quantiles(np.asarray(simulated.states))
    actions = quantiles(np.asarray(simulated.actions), alive)
    kinds = [
        (states, problem.state_names, problem.state_units, BLUE, ""),
        (actions, problem.action_names, problem.action_units, ORANGE, "steps-post"),
    ]
    shown = [min(len(names), MOST) for _, names, *_ in kinds]
    columns = max(map(columns_for, shown))
    rows = [-(-count // columns) for count in shown]
    figure = new_figure(max(5.4, 2.5 * columns + 0.4), 1.6 * sum(rows) + 0.9)
    left_out = [
        f"{len(names) - count} more {what}"
        for (_, names, *_), count, what in zip(kinds, shown, ("states", "actions"), strict=True)
        if len(names) > count
    ]
    which = f" ({' and '.join(left_out)} not shown)" if left_out else ""
    heading(figure, title, f"{problem.name}: states and actions{which}")
    layout = figure.add_gridspec(sum(rows), columns)
    for (levels, names, units, color, style), count, row in zip(
        kinds, shown, (0, rows[0]), strict=True
    ):
        for i in range(count):
            down, across = divmod(i, columns)
            ax = figure.add_subplot(layout[row + down, across])
            lowest = i + columns >= count
            dress(ax, names[i], "step" if lowest else "", units[i])
            steps = np.arange(levels.shape[1])
            band(ax, steps, levels[..., i], color, **({"drawstyle": style} if style else {}))
            ax.set_xlim(0, problem.horizon)
    handles = band_handles(BLUE)
    legend_below(figure, handles)
    return figure
