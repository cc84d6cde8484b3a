"""Quality against the clock: ILBO and planning through time, tf-mdp's method, on one machine.

    PJRT_NPROC=1 python benchmarks/clock.py --out clock.jsonl [--problem reservoir-20] [--seeds 2]
    python benchmarks/clock.py --table clock.jsonl

The runs take turns, one seed after another, so that other load on the machine affects all alike.
Seconds count from the call, compilation included; in brackets, without it. Returns are those of the
current policy on the test trajectories, and at the end on 2,048 fresh ones.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import jax
import numpy as np

import ilbo
from ilbo.baselines import ThroughTime, plan_through_time
from ilbo.experiments.scales import TUNED_SETTINGS
from ilbo.experiments.statistics import episodes_to_reach
from ilbo.experiments.study import grouped, markdown_table, mean_and_spread
from ilbo.mdp.numbers import number
from ilbo.runs.results import evaluate_fresh
from ilbo.storage.environment import environment

PLANNERS = {
    "ILBO": ilbo.ILBO(evaluate_every=5),
    "through time, 600 × 16, Adam 1e-2": ThroughTime(**TUNED_SETTINGS),
    "through time, 2,500 × 64, Adam 1e-3": ThroughTime(
        epochs=2_500, batch=64, optimizer="adam", rate=1e-3, final_rate=0.05
    ),
}
SHORTFALLS = (0.2, 0.1, 0.05, 0.02)
"""Shortfalls from ILBO's last test, as shares of it: the table gives the seconds to reach each."""


def run(problem: ilbo.Problem, planner: str, seed: int) -> dict:
    jax.clear_caches()
    config = PLANNERS[planner]
    if isinstance(config, ThroughTime):
        plan = plan_through_time(problem, config, seeds=(seed,))
    else:
        plan = ilbo.plan(problem, config, seed=seed)
    (final,) = evaluate_fresh(problem, [plan.policy])
    return {
        "problem": problem.name, "planner": planner, "seed": seed, "final": final.mean,
        "seconds": [round(r.seconds, 2) for r in plan.history[0]],
        "current": [round(r.current, 2) for r in plan.history[0]],
        "episodes": plan.samples.episodes, "compile_seconds": plan.compile_seconds,
        "environment": environment(),
    }  # fmt: skip


def read(path: Path) -> dict[str, list[dict]]:
    """The runs of a file by planner."""
    runs = grouped(map(json.loads, path.read_text().splitlines()), "planner")
    return {planner: rows for (planner,), rows in runs.items()}


def table(path: Path) -> str:
    runs = read(path)
    qualities = _qualities(runs["ILBO"])
    rows = []
    for planner, found in runs.items():
        final = [r["final"] for r in found]
        reached = np.array(
            [[episodes_to_reach(r["seconds"], r["current"], q) for r in found] for q in qualities]
        )
        compiling = np.array([r["compile_seconds"] for r in found])
        seconds = zip(
            np.median(reached, axis=1), np.median(reached - compiling, axis=1), strict=True
        )
        rows.append(
            [
                planner,
                f"{found[0]['episodes']:,}",
                f"{np.mean([r['seconds'][-1] for r in found]):.0f}",
                f"{compiling.mean():.0f}",
                mean_and_spread(final),
                *(f"{a:.0f} s ({b:.0f} s)" if np.isfinite(a) else "never" for a, b in seconds),
            ]
        )
    columns = ["planner", "episodes", "seconds", "of which compiling", "final return"]
    return markdown_table([*columns, *(f"to {number(q)}" for q in qualities)], rows)


def _qualities(ours: list[dict]) -> list[float]:
    """Round returns near ILBO's last."""
    last = np.mean([r["current"][-1] for r in ours])
    return [float(f"{last - share * abs(last):.3g}") for share in SHORTFALLS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", default="reservoir-20")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("clock.jsonl"))
    parser.add_argument("--table", type=Path, help="only print the table of this file")
    options = parser.parse_args()
    if not options.table:
        problem = ilbo.make(options.problem)
        for seed in range(options.seeds):
            for planner in PLANNERS:
                found = run(problem, planner, seed)
                print(f"{planner}, seed {seed}: {found['final']:,.2f}", file=sys.stderr)
                with options.out.open("a") as out:
                    out.write(json.dumps(found) + "\n")
    print(table(options.table or options.out))


if __name__ == "__main__":
    main()
