"""What the experiments' figures share: how planners look, and axes of rewards over magnitudes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from ilbo.experiments.arms import Result
from ilbo.experiments.scales import OURS, PAPER, TF_MDP, TUNED
from ilbo.plots.canvas import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, RED, thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

COLORS = {PAPER: PURPLE, OURS: BLUE, TF_MDP: ORANGE, TUNED: GREEN}
CYCLE = (BLUE, ORANGE, GREEN, RED, PURPLE, INK, "#56b4e9", "#8c6d1f", MUTED)
LIMIT_STYLE: dict[str, Any] = {"color": RED, "lw": 1.2, "ls": (0, (1, 1.5))}
HAND_STYLE: dict[str, Any] = {"color": MUTED, "lw": 1.0, "ls": (0, (5, 3))}


def common_grid(
    runs: Sequence[Result], field: str
) -> tuple[Int[np.ndarray, " t"], Float[np.ndarray, "runs t"]]:
    """Episodes and the values of a field, as far as all runs were tested."""
    shortest = min(len(run.episodes) for run in runs)
    values = np.array([getattr(run, field)[:shortest] for run in runs], float)
    return np.array(runs[0].episodes[:shortest]), values


def reward_axis(ax: Axes, rewards: Sequence[float]) -> None:
    """A logarithmic axis of negative rewards, better ones higher.

    Values must be drawn as costs, minus the reward; ticks show rewards.
    """
    cost_axis(ax, -np.asarray(rewards))
    ax.invert_yaxis()
    ax.yaxis.set_major_formatter(lambda cost, _: thousands(-cost))


def cost_axis(ax: Axes, costs: Sequence[float] | Float[np.ndarray, " n"]) -> None:
    """A logarithmic axis of costs with ticks at round numbers."""
    low, high = float(np.min(costs)) / 1.15, float(np.max(costs)) * 1.15
    ax.set_yscale("log")
    ax.set_ylim(low, high)
    ax.minorticks_off()
    ax.set_yticks(round_ticks(low, high))
    ax.yaxis.set_major_formatter(thousands)


def episodes_axis(ax: Axes) -> None:
    """A logarithmic axis of training episodes."""
    ax.set_xscale("log")
    low, high = ax.get_xlim()
    ax.minorticks_off()
    ax.set_xticks(round_ticks(low, high))
    ax.xaxis.set_major_formatter(thousands)


def round_ticks(low: float, high: float, most: int = 7) -> list[float]:
    """At most so many round numbers between two positive ones, evenly spread over magnitudes.

    >>> round_ticks(70.0, 260.0)
    [70.0, 100.0, 150.0, 200.0]
    """
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ladders = [
        (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0),
        (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0),
        (1.0, 2.0, 5.0),
        (1.0, 3.0),
        (1.0,),
    ]
    for ladder in ladders:
        ticks = [step * 10.0**k for k in decades for step in ladder]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= most:
            break
    return ticks


def legend_under(figure: Figure, handles: list) -> None:
    """One legend for all panels, under them, as wide as the figure allows."""
    longest = max(len(handle.get_label()) for handle in handles)
    columns = max(1, min(len(handles), int(figure.get_figwidth() / (0.075 * longest + 0.5))))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handlelength=1.8,
        columnspacing=1.4,
    )


def mean_with_band(
    ax: Axes, x: Int[np.ndarray, " t"], values: Float[np.ndarray, "runs t"], **line: Any
) -> None:
    """Mean cost over runs and one standard deviation on each side."""
    middle = values.mean(axis=0)
    spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
    label = line.pop("label", None)
    ax.plot(x, -middle, label=label, **line)
    # A cost must stay positive on a logarithmic axis, whatever the spread.
    least = -values.max(axis=0)
    ax.fill_between(
        x,
        np.maximum(-middle - spread, least * 0.98),
        -middle + spread,
        color=line["color"],
        alpha=0.15,
        linewidth=0,
    )


def legend_entry(label: str, **line: Any) -> Line2D:
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **line)
