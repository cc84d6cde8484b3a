"""New start states: one ILBO policy without retraining, tf-mdp retrained on each (figure 5, S)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ilbo.experiments.arms import Arm
from ilbo.experiments.scales import TF_MDP, Scale
from ilbo.experiments.starts import starts_of
from ilbo.experiments.statistics import probability_of_improvement, spread
from ilbo.experiments.study import Study, limit_cell, markdown_table, mean_and_spread
from ilbo.mdp.numbers import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Generalisation to new start states"
SEEDS = {"smoke": 2, "small": 2, "paper": 10}
SHOWN = 1e4
"""Costs smaller than the largest by more than this factor are drawn at that limit."""


def arms(scale: Scale) -> list[Arm]:
    chosen = []
    for problem in scale.problems:
        chosen += [scale.paper_arm(problem, scale.main), scale.our_arm(problem, scale.main)]
        base = scale.through_time_arm(problem, scale.main)
        for i, start in enumerate(starts_of(problem, scale.new_starts)):
            limit, _, hand = scale.yardsticks(problem, start)
            here = replace(base, start=start), limit, hand
            chosen += [replace(arm, label=f"{arm.label}, start {i + 1}") for arm in here]
    return chosen


class Place(NamedTuple):
    """What is earned from one new start."""

    ours: dict[str, list[float]]
    """Returns of the final policies of ILBO, by the label of the arm."""
    theirs: list[float]
    """Returns of tf-mdp, retrained."""
    limit: float
    hand: float

    def is_ahead(self, label: str) -> bool:
        """Whether this policy of ILBO earns more than tf-mdp retrained, both in the mean."""
        return bool(np.mean(self.ours[label]) > np.mean(self.theirs))

    @property
    def ahead(self) -> str:
        """Whose mean is the highest."""
        means = {label: np.mean(values) for label, values in self.every.items()}
        return max(means, key=lambda label: means[label])

    @property
    def every(self) -> dict[str, list[float]]:
        return {**self.ours, TF_MDP: self.theirs}


def places_of(study: Study, problem: str) -> list[Place]:
    ours = study.select("ilbo", problem=problem)
    others = (
        study.select(planner, problem=problem)
        for planner in ("through-time", "hindsight", "heuristic")
    )
    return [
        Place(
            {arm.label: [run.starts[i] for run in study.of(arm)] for arm in ours},
            [run.final_best for run in study.of(retrained)],
            study.of(limit)[0].final,
            study.of(hand)[0].final,
        )
        for i, (retrained, limit, hand) in enumerate(zip(*others, strict=True))
    ]


def report(study: Study) -> str:
    rows, data, summary = [], [], []
    labels = list(dict.fromkeys(arm.label for arm in study.select("ilbo")))
    for problem in study.scale.problems:
        places = places_of(study, problem)
        for i, place in enumerate(places):
            where = "near" if i < len(places) // 2 else "far"
            earned = [value for values in place.every.values() for value in values]
            rows.append(
                [
                    problem,
                    f"{i + 1}, {where}",
                    *map(mean_and_spread, place.every.values()),
                    place.ahead,
                    *(
                        number(probability_of_improvement(values, place.theirs).value)
                        for values in place.ours.values()
                    ),
                    limit_cell(place.limit, [*earned, place.hand]),
                    number(place.hand),
                ]
            )
            for label, values in place.every.items():
                data += [[problem, i + 1, where, label, k, v] for k, v in enumerate(values)]
        wins = {label: sum(place.is_ahead(label) for place in places) for label in labels}
        ahead = ", ".join(f"{label} on {count} of {len(places)}" for label, count in wins.items())
        summary.append(f"{problem}, starts where it is ahead of retrained tf-mdp: {ahead}.")
    study.write_table(["problem", "start", "where", "planner", "seed", "return"], data, ".csv")
    study.save_figure(_figure(study))
    columns = ["problem", "start", *labels, "tf-mdp, retrained", "ahead"]
    columns += [*(f"P({label} better)" for label in labels), "hindsight limit", "hand-written"]
    return "\n\n".join(
        [
            f"![Cost from new start states]({study.name}.png)",
            "ILBO: the final policy of a training on the problem as it is. tf-mdp: the best tested "
            "policy of a training from that very start. Returns on fresh trajectories, mean ± "
            "standard deviation over runs; P: how likely a run is better than one of tf-mdp.",
            *summary,
            markdown_table(columns, rows),
        ]
    )


def _figure(study: Study) -> Figure:
    from matplotlib.patches import Patch

    from ilbo.experiments.drawing import (
        COLORS,
        LIMIT_STYLE,
        cost_axis,
        legend_entry,
        legend_under,
    )
    from ilbo.plots.canvas import INK, dress, new_figure, thousands

    problems = study.scale.problems
    figure = new_figure(max(5.4, 4.0 * len(problems)), 3.6)
    for ax, problem in zip(
        figure.subplots(1, len(problems), squeeze=False)[0], problems, strict=True
    ):
        places = places_of(study, problem)
        every = [-v for place in places for values in place.every.values() for v in values]
        every += [-place.limit for place in places]
        least = max(every) / SHOWN
        x = np.arange(len(places))
        labels = list(places[0].every)
        width = 0.84 / len(labels)
        for k, label in enumerate(labels):
            costs = [np.maximum(-np.array(place.every[label]), least) for place in places]
            ax.bar(
                x + width * (k - (len(labels) - 1) / 2),
                [c.mean() for c in costs],
                width=0.95 * width,
                yerr=[spread(list(c)) for c in costs],
                color=COLORS[label],
                error_kw={"ecolor": INK, "elinewidth": 0.8, "capsize": 1.5},
            )
        limits = np.maximum([-place.limit for place in places], least)
        ax.hlines(limits, x - 0.44, x + 0.44, color=LIMIT_STYLE["color"], lw=1.4)
        y = "total cost" if problem == problems[0] else ""
        dress(ax, problem, "start state, near ones first", y)
        ax.set_xticks(x, [str(i + 1) for i in x])
        ax.grid(False, axis="x")
        if max(every) > 6 * min(every):
            cost_axis(ax, np.maximum(every, least))
        else:
            ax.yaxis.set_major_formatter(thousands)
    handles = [
        Patch(color=COLORS[label], label=f"{label}, {how}")
        for label in labels
        for how in ["retrained on each" if label == TF_MDP else "the same policy for all"]
    ]
    legend_under(
        figure, [*handles, legend_entry("hindsight limit", color=LIMIT_STYLE["color"], lw=1.4)]
    )
    return figure
