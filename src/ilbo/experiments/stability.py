"""Return of the current policy through training, and its largest drop (figure 4)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from ilbo.experiments.arms import Arm, Result
from ilbo.experiments.scales import OURS, PAPER, TF_MDP, TUNED, Scale
from ilbo.experiments.statistics import largest_drop, mean, probability_of_improvement
from ilbo.experiments.study import Study, markdown_table, mean_and_spread
from ilbo.mdp.numbers import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Stability of training"
SEEDS = {"smoke": 2, "small": 4, "paper": 10}
LATE = 0.5
"""Share of training after which drops count as late ones."""


def arms(scale: Scale) -> list[Arm]:
    problem = scale.stability_problem
    learners = [
        arm for architecture in scale.architectures for arm in scale.learners(problem, architecture)
    ]
    return [*learners, scale.tuned_arm(problem, scale.main)]


def late_tests(run: Result) -> list[float]:
    """Returns of the tests in the second half of training."""
    end = run.episodes[-1]
    tests = zip(run.episodes, run.current, strict=True)
    return [value for episode, value in tests if episode >= LATE * end]


def report(study: Study) -> str:
    study.write_curves()
    study.save_figure(_figure(study))
    rows = []
    for arm in study.arms:
        runs = study.of(arm)
        drops = [largest_drop(run.current) for run in runs]
        late = [largest_drop(late_tests(run)) for run in runs]
        rows.append(
            [
                f"{arm.label}, {study.architecture(arm)}",
                mean_and_spread([run.current[-1] for run in runs]),
                number(float(np.mean(drops))),
                mean(drops).interval,
                number(max(drops)),
                number(float(np.mean(late))),
                number(max(late)),
            ]
        )
    columns = ["planner", "last test", "largest drop, mean", "95 %", "worst run"]
    columns += ["in the second half, mean", "worst run"]
    each = [
        [
            f"{arm.label}, {study.architecture(arm)}",
            str(run.seed),
            number(largest_drop(run.current)),
        ]
        for arm in study.arms
        for run in study.of(arm)
    ]
    return "\n\n".join(
        [
            f"![Return of the current policy]({study.name}.png)",
            f"The current policy on {study.arms[0].problem}, one line per run. A drop is how far "
            "the return of a test lies below the best test before it.",
            markdown_table(columns, rows),
            _comparison(study),
            "## Largest drop of each run",
            markdown_table(["planner", "seed", "largest drop"], each),
        ]
    )


def _comparison(study: Study) -> str:
    main = [arm for arm in study.arms if study.architecture(arm) == study.scale.main]
    drops = {arm.label: [-largest_drop(late_tests(run)) for run in study.of(arm)] for arm in main}
    ours, theirs = ([a for a in main if a.planner == p] for p in ("ilbo", "through-time"))
    rows = [
        [
            first.label,
            second.label,
            str(probability_of_improvement(drops[first.label], drops[second.label])),
        ]
        for first, second in itertools.product(ours, theirs)
    ]
    sentence = (
        "How likely the largest drop in the second half of a run of the first is smaller than that "
        f"of a run of the second, {study.scale.main}:"
    )
    columns = ["planner", "against", "probability"]
    return f"{sentence}\n\n{markdown_table(columns, rows)}"


def _figure(study: Study) -> Figure:
    from ilbo.experiments.drawing import COLORS, reward_axis
    from ilbo.plots.canvas import dress, new_figure

    columns = {PAPER: 0, OURS: 1, TF_MDP: 2, TUNED: 2}
    architectures = study.scale.architectures
    figure = new_figure(11.7, 3.4 * len(architectures))
    panels = figure.subplots(len(architectures), 3, squeeze=False, sharey="row")
    for row, architecture in zip(panels, architectures, strict=True):
        chosen = [arm for arm in study.arms if study.architecture(arm) == architecture]
        seen = [value for arm in chosen for run in study.of(arm) for value in run.current]
        for arm in chosen:
            ax = row[columns[arm.label]]
            for i, run in enumerate(study.of(arm)):
                share = np.array(run.episodes) / run.episodes[-1] * 100
                episodes = f"{run.episodes[-1]:,} episodes"
                label = f"{arm.label}, {episodes}" if i == 0 else None
                ax.plot(
                    share, -np.array(run.current), color=COLORS[arm.label], lw=0.9, alpha=0.75,
                    label=label,
                )  # fmt: skip
        for ax, name in zip(row, (PAPER, OURS, TF_MDP), strict=True):
            dress(
                ax,
                f"{study.arms[0].problem}, {name}, {architecture}",
                "share of training, %",
                "total reward" if name == PAPER else "",
            )
            reward_axis(ax, seen)
            ax.legend(frameon=False, fontsize=8, loc="lower right")
    return figure
