"""The paper's claims, one by one, as measured: its method and ours against tf-mdp."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ilbo.experiments import generalisation, grid, learning_curves, stability
from ilbo.experiments.arms import Arm, Result
from ilbo.experiments.scales import OURS, PAPER, TF_MDP, Scale
from ilbo.experiments.statistics import largest_drop, reach, spread
from ilbo.experiments.study import Study, markdown_table, mean_and_spread
from ilbo.mdp.numbers import number

if TYPE_CHECKING:
    from types import ModuleType

TITLE = "The paper's claims"
SEEDS = {"smoke": 2, "small": 2, "paper": 10}
SHOWN_IN: tuple[ModuleType, ...] = (learning_curves, stability, grid, generalisation)
METHODS = PAPER, OURS
PUBLISHED = {
    ("navigation-3", "1 layer"): "−102.2 ± 1.0",
    ("navigation-3", "4 layers"): "−80.0 ± 0.8",
    ("hvac-6", "1 layer"): "−715,872 ± 9,806",
    ("hvac-6", "4 layers"): "−691,739 ± 26,060",
    ("reservoir-20", "1 layer"): "−7,385 ± 8,001",
    ("reservoir-20", "4 layers"): "−12,891 ± 8,876",
}
"""Of tf-mdp: the best batch mean of each run, in the results that its authors published."""

Cell = tuple[str, bool] | None
"""What was measured, and whether the claim holds by it; None where it was not run."""


def arms(scale: Scale) -> list[Arm]:
    """Those of the experiments that the claims rest on."""
    every = [arm for module in SHOWN_IN for arm in module.arms(scale)]
    return list({arm.key: arm for arm in every}.values())


def report(study: Study) -> str:
    sections = (_efficiency, _quality, _variance, _stability, _settings, _generalisation)
    return "\n\n".join(part for section in sections for part in section(study))


def _part(study: Study, module: ModuleType) -> Study:
    """The runs as another experiment sees them."""
    return replace(study, arms=module.arms(study.scale))


def _runs(part: Study, label: str, problem: str, architecture: str) -> list[Result]:
    """Those of an arm; none where it is not run."""
    wanted = (label, problem, architecture)
    return [
        run
        for arm in part.arms
        if (arm.label, arm.problem, part.architecture(arm)) == wanted
        for run in part.of(arm)
    ]


def _table(
    study: Study,
    columns: list[str],
    row: Callable[[str, str], tuple[list[str], list[Cell]]],
    problems: tuple[str, ...] | None = None,
) -> str:
    """A row for each problem and architecture: what tf-mdp does, and both methods."""
    rows = []
    for problem, architecture in itertools.product(
        problems or study.scale.problems, study.scale.architectures
    ):
        theirs, ours = row(problem, architecture)
        rows.append([problem, architecture, *theirs, *_flat(ours)])
    return markdown_table(["problem", "architecture", *columns, *_method_columns()], rows)


def _flat(cells: list[Cell]) -> list[str]:
    both = [(cell[0], "yes" if cell[1] else "**no**") if cell else ("", "") for cell in cells]
    return [word for words in both for word in words]


def _method_columns() -> list[str]:
    return [word for method in METHODS for word in (method, "holds")]


def _efficiency(study: Study) -> list[str]:
    part = _part(study, learning_curves)

    def row(problem: str, architecture: str) -> tuple[list[str], list[Cell]]:
        theirs, *ours = _every(part, problem, architecture)
        quality = float(np.mean([run.best[-1] for run in theirs]))
        spent = theirs[0].samples["episodes"]

        def cell(runs: list[Result]) -> Cell:
            there = reach([(run.episodes, run.best) for run in runs], quality).median
            if not np.isfinite(there):
                return "never", False
            return f"{there:,.0f}, {spent / there:,.1f} times fewer", there < spent

        return [number(quality), f"{spent:,}"], [cell(runs) if runs else None for runs in ours]

    return [
        "## Sample efficiency",
        "*ILBO reaches better plans with far fewer episodes than tf-mdp.* Episodes until half of "
        "the runs have reached tf-mdp's mean at its end, best policies so far on test "
        "trajectories.",
        _table(part, ["tf-mdp's end", "tf-mdp's episodes"], row),
    ]


def _every(part: Study, problem: str, architecture: str) -> list[list[Result]]:
    """The runs of tf-mdp and of both methods."""
    return [_runs(part, label, problem, architecture) for label in (TF_MDP, *METHODS)]


def _finals(runs: list[Result]) -> list[float]:
    return [run.final for run in runs]


def _quality(study: Study) -> list[str]:
    part = _part(study, learning_curves)

    def row(problem: str, architecture: str) -> tuple[list[str], list[Cell]]:
        theirs, *ours = map(_finals, _every(part, problem, architecture))
        cells = [
            (mean_and_spread(own), float(np.mean(own)) > float(np.mean(theirs))) if own else None
            for own in ours
        ]
        return [PUBLISHED.get((problem, architecture), ""), mean_and_spread(theirs)], cells

    return [
        "## Quality",
        "*ILBO ends with better plans.* The final policy of every run on fresh trajectories, mean "
        "± standard deviation over runs, against our version of tf-mdp. As published: best batch "
        "means in the results of tf-mdp's authors.",
        _table(part, ["tf-mdp as published", "tf-mdp"], row),
    ]


def _variance(study: Study) -> list[str]:
    part = _part(study, learning_curves)

    def row(problem: str, architecture: str) -> tuple[list[str], list[Cell]]:
        theirs, *ours = map(_finals, _every(part, problem, architecture))
        least = spread(theirs)
        return [number(least)], [
            (number(spread(own)), spread(own) < least) if own else None for own in ours
        ]

    return [
        "## Variance",
        "*ILBO's plans differ less from run to run.* Standard deviation over runs of the final "
        "policies.",
        _table(part, ["tf-mdp"], row),
    ]


def _stability(study: Study) -> list[str]:
    part = _part(study, stability)

    def drop(runs: list[Result]) -> float:
        return float(np.mean([largest_drop(stability.late_tests(run)) for run in runs]))

    def row(problem: str, architecture: str) -> tuple[list[str], list[Cell]]:
        theirs, *ours = _every(part, problem, architecture)
        least = drop(theirs)
        return [number(least)], [
            (number(drop(own)), drop(own) < least) if own else None for own in ours
        ]

    return [
        "## Stability",
        "*The policy of the moment does not degrade late in training.* How far a test falls below "
        "the best one before it in the second half of training, mean over runs of the largest. "
        "ILBO's tests are of the policy selected by then: a newer one takes its place where it "
        "earns more on replayed noise.",
        _table(part, ["tf-mdp"], row, (part.scale.stability_problem,)),
    ]


def _settings(study: Study) -> list[str]:
    part = _part(study, grid)
    cells = grid.cells_of(part)
    rows = []
    for problem in part.scale.problems:
        here = [cell for cell in cells if cell[0].problem == problem]
        means = {arm.label: float(np.mean(costs)) for arm, epochs, costs in here if not epochs}
        others = {
            f"{epochs} × {arm.settings['batch']}": float(np.mean(costs))
            for arm, epochs, costs in here
            if epochs and arm.settings["batch"] not in part.scale.small_batches
        }
        counts = [sum(means[method] < cost for cost in others.values()) for method in METHODS]
        verdicts: list[Cell] = [
            (f"{number(means[method])}, less than {count} of {len(others)}", count == len(others))
            for method, count in zip(METHODS, counts, strict=True)
        ]
        best = min(others, key=lambda setting: others[setting])
        rows.append([problem, f"{number(others[best])} ({best})", *_flat(verdicts)])
    columns = ["problem", "tf-mdp's least (epochs × batch)", *_method_columns()]
    return [
        "## Settings of tf-mdp",
        "*ILBO costs less than tf-mdp whatever its epochs and batches.* Mean cost of the best "
        f"policies so far, over the published grid, {part.scale.main}.",
        markdown_table(columns, rows),
    ]


def _generalisation(study: Study) -> list[str]:
    part = _part(study, generalisation)
    rows = []
    for problem in part.scale.problems:
        places = generalisation.places_of(part, problem)
        cells: list[Cell] = []
        for method in METHODS:
            count = sum(place.is_ahead(method) for place in places)
            cells.append((f"{count} of {len(places)}", count > len(places) / 2))
        rows.append([problem, *_flat(cells)])
    return [
        "## Generalisation",
        "*One policy does better from new start states than tf-mdp retrained on each of them.* In "
        "the paper on 10 of 10 starts of hvac-6 and on 8 of 10 of reservoir-20. Starts where the "
        f"mean return is higher; it holds if that is most of them ({part.scale.main}).",
        markdown_table(["problem", *_method_columns()], rows),
    ]
