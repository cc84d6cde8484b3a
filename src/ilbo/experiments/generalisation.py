"""New start states: one ILBO policy without retraining, tf-mdp retrained on each (figure 5, S)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ilbo.experiments.arms import Arm
from ilbo.experiments.scales import Scale
from ilbo.experiments.statistics import probability_of_improvement, spread
from ilbo.experiments.study import Study, limit_cell, markdown_table, mean_and_spread
from ilbo.mdp.numbers import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Generalisation to new start states"
SEEDS = {"smoke": 2, "small": 2, "paper": 10}
SHOWN = 1e4
"""Costs smaller than the largest by more than this factor are drawn at that limit."""
CANDIDATES, TAIL = 1000, 100
"""Start states drawn from the region; near and far ones come from this many at either end."""


def starts_of(problem: str, count: int) -> list[tuple[float, ...]]:
    """Start states of the region, the first half near the problem's own, the others far from it.

    Distances are measured in units of the region's size.
    """
    from ilbo.registry.names import make

    made = make(problem)
    low, high = (np.asarray(bound, float) for bound in made.region)
    draw = np.random.default_rng(0)
    states = draw.uniform(low, high, (CANDIDATES, made.state_size))
    away = np.linalg.norm((states - np.asarray(made.initial_state)) / (high - low), axis=1)
    order = np.argsort(away)
    near = np.sort(draw.choice(TAIL, count // 2, replace=False))
    far = CANDIDATES - TAIL + np.sort(draw.choice(TAIL, count - count // 2, replace=False))
    chosen = states[order[np.concatenate([near, far])]]
    return [tuple(float(f"{x:.5g}") for x in state) for state in chosen]


def arms(scale: Scale) -> list[Arm]:
    count = 2 if scale.name == "smoke" else 10
    chosen = []
    for problem in scale.problems:
        starts = tuple(starts_of(problem, count))
        chosen.append(scale.ilbo_arm(problem, scale.main, test_starts=starts))
        base = scale.through_time_arm(problem, scale.main)
        chosen += [
            replace(base, label=f"tf-mdp, start {i + 1}", start=start)
            for i, start in enumerate(starts)
        ]
        limit, _, hand = scale.yardsticks(problem, test_starts=starts)
        chosen += [limit, hand]
    return chosen


def _scores(study: Study, problem: str) -> list[tuple[list[float], list[float], float, float]]:
    """For each start: ILBO's returns, tf-mdp's, the limit, the hand-written controller's."""
    (ours,) = study.select("ilbo", problem=problem)
    retrained = study.select("through-time", problem=problem)
    limit = study.yardstick("hindsight", problem).starts
    hand = study.yardstick("heuristic", problem).starts
    return [
        (
            [run.starts[i] for run in study.of(ours)],
            [run.final_best for run in study.of(arm)],
            limit[i],
            hand[i],
        )
        for i, arm in enumerate(retrained)
    ]


def report(study: Study) -> str:
    rows, data, summary = [], [], []
    for problem in study.scale.problems:
        scores = _scores(study, problem)
        wins = 0
        for i, (ours, theirs, limit, hand) in enumerate(scores):
            where = "near" if i < len(scores) // 2 else "far"
            ahead = float(np.mean(ours)) > float(np.mean(theirs))
            wins += ahead
            chance = probability_of_improvement(ours, theirs)
            rows.append(
                [
                    problem,
                    f"{i + 1}, {where}",
                    mean_and_spread(ours),
                    mean_and_spread(theirs),
                    "ILBO" if ahead else "tf-mdp",
                    number(chance.value),
                    limit_cell(limit, [*ours, *theirs, hand]),
                    number(hand),
                ]
            )
            for label, values in (("ILBO", ours), ("tf-mdp retrained", theirs)):
                data += [[problem, i + 1, where, label, k, v] for k, v in enumerate(values)]
        summary.append(f"{problem}: ILBO ahead on {wins} of {len(scores)} starts.")
    study.write_table(["problem", "start", "where", "planner", "seed", "return"], data, ".csv")
    study.save_figure(_figure(study))
    columns = ["problem", "start", "ILBO, same policy", "tf-mdp, retrained", "ahead"]
    columns += ["P(ILBO better)", "hindsight limit", "hand-written"]
    return "\n\n".join(
        [
            f"![Cost from new start states]({study.name}.png)",
            "ILBO: the final policy of a training on the problem as it is. tf-mdp: the best tested "
            "policy of a training from that very start. Returns on fresh trajectories, mean ± "
            "standard deviation over runs.",
            *summary,
            markdown_table(columns, rows),
        ]
    )


def _figure(study: Study) -> Figure:
    from ilbo.experiments.drawing import LIMIT_STYLE, cost_axis, legend_entry, legend_under
    from ilbo.plots.canvas import BLUE, INK, ORANGE, dress, new_figure, thousands

    problems = study.scale.problems
    figure = new_figure(max(5.4, 4.0 * len(problems)), 3.6)
    for ax, problem in zip(
        figure.subplots(1, len(problems), squeeze=False)[0], problems, strict=True
    ):
        scores = _scores(study, problem)
        every = [-v for score in scores for v in (*score[0], *score[1], score[2])]
        least = max(every) / SHOWN
        places = np.arange(len(scores))
        for shift, column, color in ((-0.2, 0, BLUE), (0.2, 1, ORANGE)):
            costs = [np.maximum(-np.array(score[column]), least) for score in scores]
            ax.bar(
                places + shift,
                [c.mean() for c in costs],
                width=0.38,
                yerr=[spread(list(c)) for c in costs],
                color=color,
                error_kw={"ecolor": INK, "elinewidth": 0.8, "capsize": 2},
            )
        limits = np.maximum([-score[2] for score in scores], least)
        ax.hlines(limits, places - 0.42, places + 0.42, color=LIMIT_STYLE["color"], lw=1.4)
        y = "total cost" if problem == problems[0] else ""
        dress(ax, problem, "start state, near ones first", y)
        ax.set_xticks(places, [str(i + 1) for i in places])
        ax.grid(False, axis="x")
        if max(every) > 6 * min(every):
            cost_axis(ax, np.maximum(every, least))
        else:
            ax.yaxis.set_major_formatter(thousands)
    from matplotlib.patches import Patch

    handles = [
        Patch(color=BLUE, label="ILBO, the same policy for all"),
        Patch(color=ORANGE, label="tf-mdp, retrained on each"),
        legend_entry("hindsight limit", color=LIMIT_STYLE["color"], lw=1.4),
    ]
    legend_under(figure, handles)
    return figure
