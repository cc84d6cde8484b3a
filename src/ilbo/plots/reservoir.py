"""Reservoir: levels against their bounds and capacity, and the outflows."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from ilbo.plots.canvas import (
    BLUE,
    GREEN,
    MUTED,
    ORANGE,
    band,
    band_handles,
    dress,
    heading,
    legend_below,
    quantiles,
)
from ilbo.plots.grid import MOST, cells, label_edges, share_limits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ilbo.builtin.reservoirs import Reservoir
    from ilbo.mdp.problem import Problem
    from ilbo.mdp.simulate import PolicyFunction, Trajectories


def draw(
    problem: Problem, policy: PolicyFunction, simulated: Trajectories, title: str | None
) -> Figure:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    model = cast("Reservoir", problem.model)
    lower, upper, capacity = map(np.asarray, (model.lower, model.upper, model.capacity))
    levels = quantiles(np.asarray(simulated.states))
    outflow = quantiles(np.asarray(simulated.actions))
    shown = min(problem.state_size, MOST)
    figure, panels = cells(shown, (1.0, 0.55), width=2.1, titled=title != "")
    which = "" if shown == problem.state_size else f" (first {shown} of {problem.state_size})"
    heading(figure, title, f"{problem.name}: level of each reservoir and its outflow{which}")
    for i, (top, bottom) in enumerate(panels):
        dress(top, problem.state_names[i])
        dress(bottom)
        top.axhspan(lower[i], upper[i], color=GREEN, alpha=0.14, lw=0)
        top.axhline(capacity[i], color=MUTED, lw=1, ls=":")
        band(top, np.arange(levels.shape[1]), levels[..., i], BLUE)
        band(bottom, np.arange(outflow.shape[1]), outflow[..., i], ORANGE, drawstyle="steps-post")
    highest = 1.04 * float(max(capacity[:shown].max(), levels[..., :shown].max()))
    for ax in panels[:, 0]:
        _square_root_axis(ax, highest)
    steps = (0, problem.horizon)
    share_limits(panels[:, 0], steps, (0, highest))
    share_limits(panels[:, 1], steps, (0, 1.05 * max(outflow[..., :shown].max(), 1e-6)))
    label_edges(panels, ("level (√ scale)", "outflow"), "step")
    legend_below(
        figure,
        [
            *band_handles(BLUE),
            Patch(color=GREEN, alpha=0.28, lw=0, label="between the bounds"),
            Line2D([], [], color=MUTED, lw=1, ls=":", label="capacity"),
        ],
    )
    return figure


def _square_root_axis(ax: Axes, top: float) -> None:
    """Lower bounds lie at an eighth of the capacity: a linear axis would squeeze them flat."""
    ax.set_yscale("function", functions=(lambda y: np.sqrt(np.maximum(y, 0)), np.square))
    step = max(u * 10.0**k for k in range(-3, 7) for u in (1, 2, 5) if 9 * u * 10.0**k <= top)
    ax.set_yticks(step * np.array([0, 1, 4, 9]))
