"""What each departure of the preset from the paper's settings is worth: it, and it without each.

    python benchmarks/preset.py --out docs/results/preset.jsonl          # runs what is missing
    python benchmarks/preset.py --out docs/results/preset.jsonl --table  # prints the table only

A fifth of the paper's episodes, so that it takes an hour on a core; at the paper's scale the preset
is run by `ilbo reproduce`. A line of the file is one run.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ilbo.experiments.arms import Arm, perform
from ilbo.experiments.scales import PAPER_PROBLEMS
from ilbo.experiments.study import markdown_table, mean_and_spread
from ilbo.planning.config import ILBO
from ilbo.planning.estimators.score import Score

EPISODES = 1_000
STORED = Score(draws=1, next_states="stored", baseline="value")
WITHOUT: dict[str, dict[str, Any]] = {
    "the preset": {},
    "the one stored next state": {"estimator": STORED},
    "all starts in the feasible states": {"own_start": 0.0},
    "constant learning rates": {"final_rate": 1.0},
    "always the newest policy": {"guard": 0},
    "the plain slope of outputs at a bound": {"inward": 0.0},
    "gradients of any length": {"clip": 0.0},
}


def arm(problem: str, name: str) -> Arm:
    settings = ILBO.paper(episodes=EPISODES, evaluate_every=25, **WITHOUT[name])
    plain = {**settings.to_dict(), "estimator": settings.estimator}
    return Arm(name, problem, "ilbo", plain)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def work(path: Path, seeds: int) -> None:
    for name in WITHOUT:
        for problem in PAPER_PROBLEMS:
            done = {
                run["seed"]
                for run in read(path)
                if (run["settings"], run["problem"]) == (name, problem)
            }
            missing = [seed for seed in range(seeds) if seed not in done]
            for run in perform(arm(problem, name), missing) if missing else []:
                line = {"settings": name, "problem": problem, "seed": run.seed, "final": run.final}
                line |= {"best": run.final_best, "episodes": run.samples["episodes"]}
                where = {key: run.environment[key] for key in ("device", "commit")}
                with path.open("a") as file:
                    file.write(json.dumps(line | where) + "\n")


def table(path: Path) -> str:
    """A line for each departure that is taken back."""
    runs = read(path)
    lines = []
    for name in WITHOUT:
        finals = [
            [run["final"] for run in runs if (run["settings"], run["problem"]) == (name, problem)]
            for problem in PAPER_PROBLEMS
        ]
        cells = [mean_and_spread(some) if some else "" for some in finals]
        lines.append([name, str(max(map(len, finals))), *cells])
    return markdown_table(["with", "seeds", *PAPER_PROBLEMS], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if not options.table:
        work(options.out, options.seeds)
    print(table(options.out))


if __name__ == "__main__":
    main()
