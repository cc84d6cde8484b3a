"""Our ablation: estimators of the bound's gradient, their baselines, and depth of expansion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ilbo.experiments.arms import Arm
from ilbo.experiments.scales import Scale
from ilbo.experiments.statistics import largest_drop, mean, probability_of_improvement
from ilbo.experiments.study import Study, markdown_table, mean_and_spread
from ilbo.mdp.numbers import number
from ilbo.planning.config import ILBO
from ilbo.planning.estimators.score import Score

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Estimators of the bound's gradient"
SEEDS = {"smoke": 2, "small": 2, "paper": 10}
EPISODES = {"smoke": 4, "small": 150, "paper": 1_000}
DRAWS = 8
"""Next states drawn by the score estimator; with one, its variance is too high to learn."""


def variants(scale: Scale) -> dict[str, dict[str, Any]]:
    """Settings that differ from the defaults, by label; the defaults come first."""
    smoke = scale.name == "smoke"
    # One state for each sample, and as many samples as the default counts states.
    states = ILBO().policy_batch * ILBO().window
    single = {"window": 1, "policy_batch": 4 if smoke else states}
    score = {**single, "depth": 1, "estimator": "score", "draws": 2 if smoke else DRAWS}
    chosen: dict[str, dict[str, Any]] = {"default": {}}
    for baseline, name in (("none", "none"), ("value", "V(s)"), ("leave-one-out", "leave-one-out")):
        chosen[f"score, baseline {name}"] = {**score, "baseline": baseline}
    chosen["critic"] = {**single, "depth": 1, "estimator": "critic"}
    for depth in scale.depths:
        chosen[f"pathwise, depth {depth}"] = {**single, "depth": depth}
    return chosen


def arms(scale: Scale) -> list[Arm]:
    episodes = EPISODES[scale.name]
    base = {
        "layers": list(scale.architectures[scale.main]),
        **scale.ours,
        "episodes": episodes,
        "evaluate_every": max(1, episodes // 20),
    }
    tests = {name: base[name] for name in ("layers", "episodes", "evaluate_every")}
    stored = Score(draws=1, next_states="stored", baseline="value")
    papers = {
        "the paper's": ILBO.paper(**{**scale.paper, **tests}),
        "the paper's, one stored sample": ILBO.paper(**{**scale.paper, **tests}, estimator=stored),
    }
    return [
        Arm(label, problem, "ilbo", settings, fresh=scale.fresh)
        for problem in scale.problems
        for label, settings in [
            *((label, {**base, **changes}) for label, changes in variants(scale).items()),
            *((label, config.to_dict()) for label, config in papers.items()),
        ]
    ]


def report(study: Study) -> str:
    study.write_curves()
    study.save_figure(_figure(study))
    rows = []
    for problem in study.scale.problems:
        chosen = study.select("ilbo", problem=problem)
        reference = [run.final for run in study.of(chosen[0])]
        for arm in chosen:
            runs = study.of(arm)
            final = [run.final for run in runs]
            chance = probability_of_improvement(final, reference).value
            rows.append(
                [
                    problem,
                    arm.label,
                    mean_and_spread(final),
                    mean(final).interval,
                    mean_and_spread([run.best[-1] for run in runs]),
                    number(float(np.mean([largest_drop(run.current) for run in runs]))),
                    number(chance) if arm is not chosen[0] else "",
                    f"{runs[0].samples['model_evaluations']:,}",
                ]
            )
    columns = ["problem", "estimator", "final policy", "95 %", "best so far", "largest drop"]
    columns += ["P(better than default)", "model evaluations"]
    default = study.select("ilbo")[0].settings
    return "\n\n".join(
        [
            f"![Return by estimator]({study.name}.png)",
            f"After {default['episodes']:,} episodes. Final policy on fresh trajectories, best so "
            "far on the test trajectories; mean ± standard deviation over runs. All but the "
            "default count one state a sample, with as many samples as the default counts states; "
            "the score estimator draws several next states. The last two rows are the paper's "
            "settings, with several draws of each next state and with the stored one alone.",
            markdown_table(columns, rows),
        ]
    )


def _figure(study: Study) -> Figure:
    from ilbo.experiments.drawing import CYCLE, common_grid, legend_entry, legend_under, reward_axis
    from ilbo.plots.canvas import dress, new_figure

    problems = study.scale.problems
    figure = new_figure(max(5.4, 3.9 * len(problems)), 4.2)
    handles = {}
    for ax, problem in zip(
        figure.subplots(1, len(problems), squeeze=False)[0], problems, strict=True
    ):
        seen = []
        for i, arm in enumerate(study.select("ilbo", problem=problem)):
            episodes, values = common_grid(study.of(arm), "current")
            dashes = (0, (4, 2)) if i >= len(CYCLE) else "-"
            look: dict[str, Any] = {
                "color": CYCLE[i % len(CYCLE)],
                "lw": 2.2 if i == 0 else 1.2,
                "ls": dashes,
            }
            middle = values.mean(axis=0)
            ax.plot(episodes, -middle, **look)
            handles[arm.label] = legend_entry(arm.label, **look)
            seen += [middle.min(), middle.max()]
        dress(ax, problem, "training episodes", "total reward" if problem == problems[0] else "")
        reward_axis(ax, seen)
    legend_under(figure, list(handles.values()))
    return figure
