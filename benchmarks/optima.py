"""How far from the optimum: default policies on problems whose optimum is known.

    python benchmarks/optima.py --out optima.jsonl              # what is missing, then the table
    python benchmarks/optima.py --out optima.jsonl --seeds 10   # ten training seeds of each
    python benchmarks/optima.py --out optima.jsonl --table      # print the table of what is there

Each line of the output file is one result: the optimum of a problem, with where it comes from, or
one training seed. A line that is there is not run again. Settings are the default ones; the
policies of both are judged on the same 2,048 fresh episodes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ilbo
from ilbo.baselines import earned, optimum
from ilbo.runs.results import fresh_key

EPISODES = 2048
PROBLEMS: dict[str, tuple[Callable[[], ilbo.Problem], dict[str, Any], int]] = {
    # name: (problem, arguments of `optimum`, training episodes)
    "navigation-3": (
        lambda: ilbo.make("navigation-3"),
        {"grids": (41, 61, 121), "box": (-0.5, 10.5), "noises": 4, "actions": 5},
        500,
    ),
}


def exact(name: str) -> dict[str, Any]:
    """The optimum, with the time seen and without, and what its policies earn."""
    make, arguments, _ = PROBLEMS[name]
    problem, began = make(), time.time()
    found = optimum(problem, **arguments)
    best = earned(problem, found.policy, fresh_key(), EPISODES)
    stationary = earned(problem, found.stationary, fresh_key(), EPISODES)
    return {
        "problem": name,
        "what": "optimum",
        "from": "dynamic programming on a grid",
        "value": found.value,
        "error": found.error,
        "grids": found.values,
        "earned": float(best.mean()),
        "standard_error": float(best.std(ddof=1) / EPISODES**0.5),
        "stationary_value": found.stationary_value,
        "stationary_earned": float(stationary.mean()),
        "seconds": time.time() - began,
    }


def trained(name: str, seed: int) -> dict[str, Any]:
    """One training with the default settings."""
    make, _, episodes = PROBLEMS[name]
    problem = make()
    plan = ilbo.plan(problem, seed=seed, episodes=episodes)
    returns = earned(problem, plan.policy, fresh_key(), EPISODES)
    return {
        "problem": name,
        "what": "policy",
        "seed": seed,
        "episodes": episodes,
        "earned": float(returns.mean()),
        "standard_error": float(returns.std(ddof=1) / EPISODES**0.5),
        "seconds": plan.seconds,
    }


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(path: Path, seeds: int) -> None:
    """Appends what is missing."""
    done = {(line["problem"], line["what"], line.get("seed")) for line in read(path)}
    for name in PROBLEMS:
        jobs: list[tuple[str, int | None]] = [("policy", seed) for seed in range(seeds)]
        for what, seed in [*jobs, ("optimum", None)]:
            if (name, what, seed) not in done:
                line = exact(name) if seed is None else trained(name, seed)
                with path.open("a") as out:
                    out.write(json.dumps(line) + "\n")


def table(path: Path) -> str:
    from ilbo.experiments.study import markdown_table
    from ilbo.mdp.numbers import number

    rows, lines = [], read(path)
    for name in PROBLEMS:
        known = [line for line in lines if (line["problem"], line["what"]) == (name, "optimum")]
        runs = [line for line in lines if (line["problem"], line["what"]) == (name, "policy")]
        if not known or not runs:
            continue
        best, means = known[0], np.array([run["earned"] for run in runs])
        away = 100 * (best["earned"] - means) / abs(best["earned"])
        still = 100 * (best["stationary_earned"] - means) / abs(best["stationary_earned"])
        rows.append(
            (
                *(name, best["from"]),
                f"{number(best['value'])} ± {number(best['error'])}",
                *(number(best["earned"]), number(best["stationary_earned"]), len(runs)),
                *(number(float(means.mean())), f"{away.mean():.2f} %", f"{still.mean():.2f} %"),
                *(f"{runs[0]['episodes']:,}", f"{np.mean([run['seconds'] for run in runs]):.0f}"),
            )
        )
    columns = ("problem", "optimum from", "optimum", "its policy earns", "without the time")
    columns += ("seeds", "ILBO earns", "below the optimum", "below that without the time")
    return markdown_table((*columns, "episodes", "seconds"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("optima.jsonl"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    if not options.table:
        run(options.out, options.seeds)
    print(table(options.out))


if __name__ == "__main__":
    main()
