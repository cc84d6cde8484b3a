"""The paper's preset at the paper's scale: ten seeds, 5,000 episodes, both architectures.

    python benchmarks/preset.py --out docs/results/preset.jsonl          # runs what is missing
    python benchmarks/preset.py --out docs/results/preset.jsonl --table  # prints the table only

Beside it, with four layers, our default and tf-mdp's method. On an accelerator ten seeds run in one
program, of five minutes or so.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

from ilbo.experiments.arms import Arm, Result, perform
from ilbo.experiments.claims import PUBLISHED
from ilbo.experiments.scales import OURS, PAPER, SCALES, TF_MDP
from ilbo.experiments.statistics import reach
from ilbo.experiments.study import markdown_table, mean_and_spread
from ilbo.mdp.numbers import number

SCALE = SCALES["paper"]
SEEDS = range(10)


def arms() -> list[Arm]:
    """The preset first, then our default and tf-mdp, these with four layers."""
    papers = [
        SCALE.paper_arm(*each) for each in itertools.product(SCALE.problems, SCALE.architectures)
    ]
    others = [
        make(problem, SCALE.main)
        for make in (SCALE.our_arm, SCALE.through_time_arm)
        for problem in SCALE.problems
    ]
    return [*papers, *others]


def row(arm: Arm, run: Result) -> dict[str, Any]:
    return {
        "planner": arm.label,
        "problem": arm.problem,
        "layers": list(arm.layers),
        "seed": run.seed,
        "final": run.final,
        "episodes": run.samples["episodes"],
        "tests": list(run.episodes),
        "best": [round(value, 2) for value in run.best],
        "seconds": round(run.seconds),
        "device": run.environment["device"],
        "commit": run.environment["commit"],
    }


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(path: Path) -> str:
    """A line for each problem and architecture, from the runs of the file."""
    runs = read(path)

    def of(planner: str, problem: str, layers: tuple[int, ...]) -> list[dict[str, Any]]:
        wanted = (planner, problem, list(layers))
        return [run for run in runs if (run["planner"], run["problem"], run["layers"]) == wanted]

    def earned(some: list[dict[str, Any]]) -> str:
        return mean_and_spread([run["final"] for run in some]) if some else ""

    lines = []
    for problem, (name, layers) in itertools.product(SCALE.problems, SCALE.architectures.items()):
        ours = of(PAPER, problem, layers)
        theirs = of(TF_MDP, problem, layers)
        sooner = ""
        if theirs and ours:
            quality = float(np.mean([run["best"][-1] for run in theirs]))
            there = reach([(run["tests"], run["best"]) for run in ours], quality).median
            sooner = f"{there:,.0f}" if np.isfinite(there) else "never"
        worst = number(min(run["final"] for run in ours)) if ours else ""
        published = PUBLISHED[problem, name]
        others = earned(theirs), sooner, earned(of(OURS, problem, layers))
        lines.append([problem, name, earned(ours), worst, published, *others])
    columns = ["problem", "architecture", "the paper's ILBO", "worst seed", "tf-mdp as published"]
    columns += ["tf-mdp here", "ILBO is there after", "our default"]
    return markdown_table(columns, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    for arm in [] if options.table else arms():
        have = {
            (run["planner"], run["problem"], tuple(run["layers"]), run["seed"])
            for run in read(options.out)
        }
        missing = [s for s in SEEDS if (arm.label, arm.problem, arm.layers, s) not in have]
        for run in perform(arm, missing) if missing else []:
            with options.out.open("a") as file:
                file.write(json.dumps(row(arm, run)) + "\n")
    print(table(options.out))


if __name__ == "__main__":
    main()
