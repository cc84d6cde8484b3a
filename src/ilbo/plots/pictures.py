"""Pictures of training and of what a policy does. Files are PNG, SVG or PDF, by their names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ilbo.plots.canvas import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ilbo.mdp.problem import Problem
    from ilbo.mdp.simulate import PolicyFunction, Trajectories
    from ilbo.planning.records import Record


PICTURE_SEED = 2_718
"""Seed of the noise that trajectories are drawn with: neither training nor tests use it."""


def learning_curve(
    history: Sequence[Sequence[Record]],
    path: str | Path,
    limit: float | None = None,
    title: str | None = None,
) -> None:
    """Draws the tests of a plan against training episodes.

    Args:
        history: The records of each seed, as in `Plan.history`.
        path: File to write.
        limit: A return that no policy can pass, drawn as a line.
        title: Title of the picture, instead of a plain one; none where it is empty.
    """
    save(draw_learning_curve(history, limit, title), path)


def trajectories(
    problem: Problem,
    policy: PolicyFunction,
    path: str | Path,
    episodes: int = 64,
    seed: int = PICTURE_SEED,
    title: str | None = None,
) -> None:
    """Simulates the policy from the problem's own start and draws what happens.

    Navigation gets a map, HVAC its rooms against the comfort band, Reservoir its levels against
    their bounds; a model with a `draw` of its own that picture; any other problem a small panel for
    each component that varies, and for each quantity of its `observe`.
    """
    save(draw_trajectories(problem, policy, episodes, seed, title), path)


def draw_learning_curve(
    history: Sequence[Sequence[Record]], limit: float | None = None, title: str | None = None
) -> Figure:
    """The figure that `learning_curve` saves."""
    from ilbo.plots import curves

    return curves.draw(history, limit, title)


def draw_metrics(history: Sequence[Sequence[Record]], title: str | None = None) -> Figure:
    """The critic's loss, the bound and both gradients against training episodes."""
    from ilbo.plots import metrics

    return metrics.draw(history, title)


def draw_trajectories(
    problem: Problem,
    policy: PolicyFunction,
    episodes: int = 64,
    seed: int = PICTURE_SEED,
    title: str | None = None,
) -> Figure:
    """The figure that `trajectories` saves."""
    from ilbo.builtin.hvac import HVAC
    from ilbo.builtin.navigation import Navigation
    from ilbo.builtin.reservoirs import Reservoir
    from ilbo.mdp.evaluate import summarise
    from ilbo.mdp.model import Model
    from ilbo.mdp.simulate import simulate
    from ilbo.plots import components, hvac, navigation, reservoir

    families = {Navigation: navigation, HVAC: hvac, Reservoir: reservoir}
    drawer = next(
        (module for kind, module in families.items() if isinstance(problem.model, kind)), components
    )
    simulated = simulate(problem, policy, seed, episodes)
    summarise(problem, simulated)  # says so where a number is not finite
    if type(problem.exact).draw is not Model.draw:
        return _drawn_by_itself(problem, simulated, title)
    return drawer.draw(problem, policy, simulated, title)


def _drawn_by_itself(problem: Problem, simulated: Trajectories, title: str | None) -> Figure:
    """The picture of a model that has a `draw` of its own."""
    from ilbo.plots.canvas import dress, heading, new_figure

    figure = new_figure(6.4, 4.0)
    heading(figure, title, problem.name)
    axes = figure.subplots()
    dress(axes, x="step")
    problem.exact.draw(axes, simulated)
    return figure
