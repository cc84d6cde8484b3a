"""Return against training episodes: the paper's ILBO, ours and tf-mdp's method (figure 2)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from ilbo.experiments.arms import Arm
from ilbo.experiments.scales import OURS, PAPER, Scale
from ilbo.experiments.statistics import mean, probability_of_improvement, reach, spread
from ilbo.experiments.study import Study, markdown_table, mean_and_spread
from ilbo.mdp.numbers import number
from ilbo.mdp.ranking import too_low

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Learning curves"
SEEDS = {"smoke": 2, "small": 2, "paper": 10}


def arms(scale: Scale) -> list[Arm]:
    learners = [
        arm
        for problem in scale.problems
        for architecture in scale.architectures
        for arm in scale.learners(problem, architecture)
    ]
    tuned = [scale.tuned_arm(problem, scale.main) for problem in scale.problems]
    yardsticks = [arm for problem in scale.problems for arm in scale.yardsticks(problem)]
    return learners + tuned + yardsticks


def report(study: Study) -> str:
    study.write_curves()
    study.save_figure(_figure(study))
    return "\n\n".join(
        [
            f"![Return against training episodes]({study.name}.png)",
            "Best policy so far on the test trajectories, mean and standard deviation over runs.",
            "## At the end of training",
            _ends(study),
            "Best so far: on the test trajectories, as published. Final policy: on fresh ones, "
            "with a 95 % bootstrap interval over runs. Mean ± standard deviation over runs. The "
            "gap is to the hindsight limit (perfect information), which no policy can exceed.",
            f"`{PAPER}` is the paper's method and settings with each expectation over next states "
            f"taken over several draws of the model; `{OURS}` is our default.",
            "## ILBO against tf-mdp",
            _duels(study),
            "Factor: tf-mdp's episodes over ILBO's to reach tf-mdp's mean at its end (best so "
            "far). Ahead: probability that a run of ILBO ends better than one of tf-mdp.",
            "## Yardsticks",
            yardstick_table(study),
            "## What a run consumes",
            sample_table(study),
        ]
    )


def _learners(study: Study, problem: str) -> list[Arm]:
    return study.select("ilbo", "through-time", problem=problem)


def _shown(study: Study, problem: str, architecture: str) -> list[Arm]:
    """The learners of one architecture."""
    return [a for a in _learners(study, problem) if study.architecture(a) == architecture]


def _ends(study: Study) -> str:
    rows = []
    for problem in study.scale.problems:
        limit = study.yardstick("hindsight", problem).final
        for arm in _learners(study, problem):
            runs = study.of(arm)
            final = [run.final for run in runs]
            rows.append(
                [
                    problem,
                    f"{arm.label}, {study.architecture(arm)}",
                    f"{runs[0].samples['episodes']:,}",
                    mean_and_spread([run.best[-1] for run in runs]),
                    mean_and_spread(final),
                    mean(final).interval,
                    number(limit - float(np.mean(final))),
                    f"{runs[0].seconds:.0f} on {study.device(arm)}",
                ]
            )
    columns = ["problem", "planner", "episodes", "best so far", "final policy"]
    columns += ["95 %", "gap to limit", f"seconds, {_together(study)}"]
    return markdown_table(columns, rows)


def _together(study: Study) -> str:
    together = max(run.together for arm in study.arms for run in study.of(arm))
    return "a run" if together == 1 else f"up to {together} runs side by side"


def _duels(study: Study) -> str:
    rows = []
    for problem, architecture in itertools.product(study.scale.problems, study.scale.architectures):
        here = _shown(study, problem, architecture)
        ours, theirs = ([a for a in here if a.planner == p] for p in ("ilbo", "through-time"))
        for first, second in itertools.product(ours, theirs):
            names = f"{first.label}, {architecture}", second.label
            rows.append([problem, *names, *_duel(study, first, second)])
    columns = ["problem", "planner", "against", "its mean at the end", "is there after"]
    columns += ["factor", "ahead", "spread, ILBO : it"]
    return markdown_table(columns, rows)


def _duel(study: Study, ours: Arm, theirs: Arm) -> list[str]:
    opponents = [run.best[-1] for run in study.of(theirs)]
    own = [run.best[-1] for run in study.of(ours)]
    quality = float(np.mean(opponents))
    there = reach([(run.episodes, run.best) for run in study.of(ours)], quality)
    spent = study.of(theirs)[0].samples["episodes"]
    chance = probability_of_improvement(own, opponents)
    reached = f"{there.median:,.0f} episodes" if np.isfinite(there.median) else "never"
    return [
        number(quality),
        f"{reached} ({there.reached} of {there.runs} runs)",
        f"{spent / there.median:,.0f}" if np.isfinite(there.median) else "none",
        str(chance),
        f"{number(spread(own))} : {number(spread(opponents))}",
    ]


def yardstick_table(study: Study) -> str:
    """Returns of the baselines without training on fresh trajectories, with standard errors."""
    rows = []
    for problem in study.scale.problems:
        cells = [study.yardstick(p, problem) for p in ("hindsight", "straight-line", "heuristic")]
        limit, *others = (f"{number(run.final)} ± {number(run.standard_error)}" for run in cells)
        earned = [run.final for run in cells[1:]]
        earned += [run.final for arm in _learners(study, problem) for run in study.of(arm)]
        if too_low(cells[0].final, earned):
            limit += ", too low: a policy earns more"
        rows.append([problem, limit, *others])
    columns = ["problem", "hindsight limit", "straight-line plan", "hand-written controller"]
    return markdown_table(columns, rows)


def sample_table(study: Study) -> str:
    """Everything that one run of each learner consumes."""
    names = ("episodes", "transitions", "model_evaluations", "random_draws", "gradient_steps")
    rows = {}
    for arm in study.select("ilbo", "through-time"):
        counts = [f"{study.of(arm)[0].samples[name]:,}" for name in names]
        rows[arm.problem, arm.label] = [arm.problem, arm.label, *counts]
    columns = ["problem", "planner", *(name.replace("_", " ") for name in names)]
    return markdown_table(columns, rows.values())


def _figure(study: Study) -> Figure:
    from ilbo.experiments.drawing import (
        COLORS,
        HAND_STYLE,
        LIMIT_STYLE,
        common_grid,
        episodes_axis,
        legend_entry,
        legend_under,
        mean_with_band,
        reward_axis,
    )
    from ilbo.plots.canvas import dress, new_figure

    problems, architectures = study.scale.problems, list(study.scale.architectures)
    figure = new_figure(max(5.4, 3.9 * len(problems)), 3.4 * len(architectures))
    panels = figure.subplots(len(architectures), len(problems), squeeze=False)
    handles = {}
    for (row, architecture), (column, problem) in itertools.product(
        enumerate(architectures), enumerate(problems)
    ):
        ax, seen = panels[row, column], []
        for arm in _shown(study, problem, architecture):
            episodes, values = common_grid(study.of(arm), "best")
            look = {"color": COLORS[arm.label], "lw": 1.7}
            mean_with_band(ax, episodes, values, **look)
            handles[arm.label] = legend_entry(arm.label, **look)
            seen += [values.mean(axis=0).min(), values.mean(axis=0).max()]
        for planner, look in (("hindsight", LIMIT_STYLE), ("heuristic", HAND_STYLE)):
            level = study.yardstick(planner, problem).final
            label = "hindsight limit" if planner == "hindsight" else "hand-written controller"
            ax.axhline(-level, **look)
            handles[label] = legend_entry(label, **look)
            seen.append(level)
        y = "total reward" if column == 0 else ""
        dress(ax, f"{problem}, {architecture}", "training episodes", y)
        episodes_axis(ax)
        reward_axis(ax, seen)
    legend_under(figure, list(handles.values()))
    return figure
