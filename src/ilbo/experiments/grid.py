"""Total cost at the end for tf-mdp's epochs and batches, against ILBO (figure 3)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ilbo.experiments.arms import Arm
from ilbo.experiments.scales import OURS, PAPER, TF_MDP, TUNED, Scale
from ilbo.experiments.statistics import mean, probability_of_improvement, spread
from ilbo.experiments.study import Study, markdown_table, mean_and_spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Epochs and batches of tf-mdp"
SEEDS = {"smoke": 2, "small": 2, "paper": 10}

Cell = tuple[Arm, int, list[float]]
"""Arm, epochs (0 for ILBO) and the cost of each run's best policy after that many."""


def arms(scale: Scale) -> list[Arm]:
    """A run of the most epochs passes through all shorter ones, since nothing in it depends on how
    long it will be; so there is one arm for each batch."""
    chosen = []
    for problem in scale.problems:
        *ours, base = scale.learners(problem, scale.main)
        chosen += ours
        for batch in scale.grid_batches:
            changes = {"epochs": max(scale.grid_epochs), "batch": batch}
            chosen.append(_with(base, f"batch {batch}", changes))
        tuned = scale.tuned_arm(problem, scale.main)
        for batch in scale.small_batches:
            changes = {"epochs": scale.small_batch_epochs, "batch": batch}
            chosen.append(_with(tuned, f"tuned, batch {batch}", changes))
    return chosen


def _with(arm: Arm, label: str, changes: dict[str, Any]) -> Arm:
    return replace(arm, label=label, settings={**arm.settings, **changes})


def cells_of(study: Study) -> list[Cell]:
    cells = []
    for arm in study.arms:
        runs = study.of(arm)
        batch = arm.settings.get("batch", 0)
        if arm.planner == "ilbo":
            epochs = [0]
        elif batch in study.scale.small_batches:
            epochs = [study.scale.small_batch_epochs]
        else:
            epochs = list(study.scale.grid_epochs)
        for count in epochs:
            until = count * batch or runs[0].episodes[-1]
            cells.append((arm, count, [-run.best_at(until) for run in runs]))
    return cells


def report(study: Study) -> str:
    cells = cells_of(study)
    study.write_table(
        ["problem", "layers", "planner", "epochs", "batch", "seed", "cost"],
        [
            [
                arm.problem,
                "x".join(map(str, arm.layers)),
                arm.label if arm.planner == "ilbo" else TF_MDP,
                count or "",
                arm.settings.get("batch", ""),
                seed,
                cost,
            ]
            for arm, count, costs in cells
            for seed, cost in enumerate(costs)
        ],
        ".csv",
    )
    study.save_figure(_figure(study, cells))
    rows = []
    ours: dict[str, list[float]] = {}
    for arm, count, costs in cells:
        is_ilbo = arm.planner == "ilbo"
        if is_ilbo:
            ours[arm.label] = costs
        chances = [
            probability_of_improvement([-c for c in own], [-c for c in costs])
            for own in ours.values()
        ]
        episodes = count * arm.settings.get("batch", 0) or study.of(arm)[0].episodes[-1]
        rows.append(
            [
                arm.problem,
                study.architecture(arm),
                arm.label if is_ilbo else f"tf-mdp, {count} epochs, {arm.label}",
                f"{episodes:,}",
                mean_and_spread(costs),
                mean(costs).interval,
                *([""] * 2 if is_ilbo else map(str, chances)),
            ]
        )
    columns = ["problem", "architecture", "planner", "episodes", "cost", "95 %"]
    columns += [f"{label} ahead" for label in ours]
    return "\n\n".join(
        [
            f"![Cost at the end]({study.name}.png)",
            "Cost, minus the total reward, of the best policy so far at the end; mean ± standard "
            "deviation over runs, lower is better. Ahead: probability that a run of ILBO ends "
            "better than one of this row. `tuned` is Adam with a decaying learning rate and small "
            "batches, beyond the published grid.",
            markdown_table(columns, rows),
        ]
    )


def _figure(study: Study, cells: list[Cell]) -> Figure:
    from ilbo.experiments.drawing import COLORS, cost_axis, legend_under
    from ilbo.plots.canvas import INK, dress, new_figure

    problems = study.scale.problems
    architectures = list(dict.fromkeys(study.architecture(arm) for arm, _, _ in cells))
    figure = new_figure(max(5.4, 4.0 * len(problems)), 3.6 * len(architectures))
    panels = figure.subplots(len(architectures), len(problems), squeeze=False)
    shades = dict(zip(study.scale.grid_batches, (0.35, 0.65, 1.0), strict=False))
    for architecture, row in zip(architectures, panels, strict=True):
        for problem, ax in zip(problems, row, strict=True):
            here = [
                cell
                for cell in cells
                if cell[0].problem == problem and study.architecture(cell[0]) == architecture
            ]
            names = []
            for place, (arm, count, costs) in enumerate(here):
                batch = arm.settings.get("batch", 0)
                tuned = batch in study.scale.small_batches
                color = COLORS.get(arm.label, COLORS[TUNED if tuned else TF_MDP])
                ax.bar(
                    place,
                    np.mean(costs),
                    yerr=spread(costs),
                    color=color,
                    alpha=shades.get(batch, 1.0),
                    error_kw={"ecolor": INK, "elinewidth": 0.8, "capsize": 2},
                )
                names.append(arm.label if arm.planner == "ilbo" else f"{count}×{batch}")
            dress(
                ax, f"{problem}, {architecture}", "", "total cost" if problem == problems[0] else ""
            )
            ax.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=7)
            ax.grid(False, axis="x")
            edges = [float(np.mean(costs) + spread(costs)) for _, _, costs in here]
            cost_axis(ax, [*edges, *(min(costs) for _, _, costs in here)])
    from matplotlib.patches import Patch

    handles = [
        *(Patch(color=COLORS[label], label=label) for label in (PAPER, OURS)),
        Patch(color=COLORS[TF_MDP], label="tf-mdp, epochs × batch (darker: larger batch)"),
        Patch(color=COLORS[TUNED], label="tf-mdp, tuned, small batches"),
    ]
    legend_under(figure, handles)
    return figure
