"""HVAC: the rooms against the comfort band, and the air blown into them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ilbo.plots.canvas import (
    BLUE,
    GREEN,
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
    from matplotlib.figure import Figure

    from ilbo.mdp.problem import Problem
    from ilbo.mdp.simulate import PolicyFunction, Trajectories


def draw(
    problem: Problem, policy: PolicyFunction, simulated: Trajectories, title: str | None
) -> Figure:
    from matplotlib.patches import Patch

    from ilbo.builtin.hvac import AIR_MAX, TEMP_LOW, TEMP_UP

    warmth = quantiles(np.asarray(simulated.states))
    air = quantiles(np.asarray(simulated.actions))
    shown = min(problem.state_size, MOST)
    figure, panels = cells(shown, (1.0, 0.55), width=2.7, titled=title != "")
    heading(figure, title, f"{problem.name}: temperature of each room and the air it gets")
    for i, (top, bottom) in enumerate(panels):
        dress(top, problem.state_names[i])
        dress(bottom)
        top.axhspan(TEMP_LOW, TEMP_UP, color=GREEN, alpha=0.18, lw=0)
        band(top, np.arange(warmth.shape[1]), warmth[..., i], BLUE)
        band(bottom, np.arange(air.shape[1]), air[..., i], ORANGE, drawstyle="steps-post")
    low, high = min(warmth.min(), TEMP_LOW), max(warmth.max(), TEMP_UP)
    room = 0.05 * (high - low)
    steps = (0, problem.horizon)
    share_limits(panels[:, 0], steps, (low - room, high + room))
    share_limits(panels[:, 1], steps, (-0.03 * AIR_MAX, 1.03 * AIR_MAX))
    label_edges(panels, ("°C", "air, kg/s"), "step")
    comfort = Patch(color=GREEN, alpha=0.3, lw=0, label=f"comfort, {TEMP_LOW:g} to {TEMP_UP:g} °C")
    legend_below(figure, [*band_handles(BLUE), comfort])
    return figure
