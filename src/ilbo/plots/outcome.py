"""What a policy earns: the distribution of its returns, and the reward over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ilbo.plots.canvas import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    RED,
    band,
    dress,
    heading,
    legend_below,
    new_figure,
    quantiles,
)
from ilbo.plots.curves import mean_of, tested

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ilbo.planning.records import Record

COLORS = (BLUE, ORANGE, GREEN, RED, PURPLE)
BINS = 40


def draw_outcome(
    returns: Mapping[str, Float[np.ndarray, " episodes"]],
    rewards: Float[np.ndarray, "simulated horizon"],
    title: str | None = None,
) -> Figure:
    """Histograms of returns, and quantiles over episodes of the reward at each step.

    Args:
        returns: Of each policy, by its label; the first is filled, the others are lines.
        rewards: Of the first policy's episodes.
        title: Title of the picture, instead of a plain one; none where it is empty.
    """
    figure = new_figure(8.4, 3.3)
    heading(figure, title, "What the policy earns")
    left, right = figure.subplots(1, 2)
    dress(left, "distribution of returns", "return of an episode", "share of the episodes")
    every = np.concatenate(list(returns.values()))
    edges = np.histogram_bin_edges(every, BINS)
    for i, (label, values) in enumerate(returns.items()):
        weights = np.full(len(values), 1 / len(values))
        kind = "stepfilled" if i == 0 else "step"
        style = {"alpha": 0.45} if i == 0 else {"linewidth": 1.3}
        color = COLORS[i % len(COLORS)]
        left.hist(values, edges, weights=weights, histtype=kind, color=color, label=label, **style)
    dress(right, "reward at each step", "step", "reward")
    levels = quantiles(rewards[..., None])[..., 0]
    band(right, np.arange(levels.shape[1]), levels, BLUE, drawstyle="steps-post")
    right.set_xlim(0, levels.shape[1])
    legend_below(figure, left.get_legend_handles_labels()[0])
    return figure


def draw_curves(histories: Mapping[str, Sequence[Sequence[Record]]]) -> Figure:
    """The learning curves of several runs over each other, the mean of each one's seeds."""
    figure = new_figure(8.4, 3.5)
    ax = figure.subplots()
    dress(ax, "", "training episodes", "mean return of a test")
    for i, (label, history) in enumerate(histories.items()):
        line = (0, (4, 2)) if i >= len(COLORS) else "-"
        ax.plot(
            *mean_of(tested(history), "current"), color=COLORS[i % len(COLORS)], ls=line, lw=1.5,
            label=label,
        )  # fmt: skip
    ax.margins(x=0.02)
    legend_below(figure, ax.get_legend_handles_labels()[0])
    return figure


def draw_against(
    values: Float[np.ndarray, " points"], means: Mapping[str, Sequence[float]], name: str
) -> Figure:
    """Mean returns of several policies against a parameter of the model."""
    figure = new_figure(8.4, 3.3)
    ax = figure.subplots()
    dress(ax, "", name, "mean return")
    for i, (label, line) in enumerate(means.items()):
        style = (0, (4, 2)) if i >= len(COLORS) else "-"
        ax.plot(values, line, color=COLORS[i % len(COLORS)], ls=style, lw=1.5, label=label)
    ax.margins(x=0.02)
    legend_below(figure, ax.get_legend_handles_labels()[0])
    return figure
