"""The quality table: ten seeds of one default config on each problem, judged on fresh trajectories.

    python benchmarks/quality.py --out quality.jsonl            # everything, one process per core
    python benchmarks/quality.py --out quality.jsonl --table    # print the table of what is there

Each finished seed is a line of the output file; a seed that is already there is not run again, so
an interrupted table goes on where it stopped. The final policy of every seed is evaluated on the
trajectories of `ilbo.runs.results.evaluate_fresh`, as `ilbo plan` and the experiments do.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

ROWS = {  # (problem, episodes, preset): (mean at least, std at most)
    ("reservoir-20", 2000, "default"): (-2150.0, 40.0),
    ("reservoir-20", 500, "default"): (-2300.0, 60.0),
    ("hvac-6", 500, "default"): (-483_000.0, 300.0),
    ("navigation-3", 500, "default"): (-79.0, 0.3),
    ("navigation-3", 2000, "default"): (-78.6, 0.2),
    ("navigation-3", 2000, "paper"): (-82.0, float("inf")),
}
COLUMNS = (
    *("problem", "episodes", "settings", "seeds", "mean", "std", "worst seed", "best so far"),
    *("controller", "worst current / best", "target", "met"),
)
LATE = 100
"""Episodes after which the current policy should stay near the best."""


def work(problem_name: str, episodes: int, preset: str, seeds: list[int]) -> None:
    """Trains the seeds one after another and prints a JSON line for each."""
    import numpy as np

    import ilbo
    from ilbo.runs.results import evaluate_fresh

    problem = ilbo.make(problem_name)
    config = ilbo.ILBO.paper() if preset == "paper" else ilbo.ILBO()
    (controller,) = evaluate_fresh(problem, [problem.model.heuristic])
    for seed in seeds:
        plan = ilbo.plan(problem, config, seed=seed, episodes=episodes)
        final, best = evaluate_fresh(problem, [plan.policy, plan.best_policy])
        late = [r for r in plan.history[0] if r.episode >= LATE]
        line = {
            "problem": problem_name,
            "episodes": episodes,
            "preset": preset,
            "seed": seed,
            "final": final.mean,
            "best": best.mean,
            "controller": controller.mean,
            "worst_ratio": float(np.max([r.current / r.best for r in late])),
            "transitions": plan.samples.transitions,
            "model_evaluations": plan.samples.model_evaluations,
            "gradient_steps": plan.samples.gradient_steps,
            "seconds": plan.seconds,
            "compile_seconds": plan.compile_seconds,
            "fault": plan.faults[0],
        }
        print(json.dumps(line), flush=True)


def finished(path: Path) -> list[dict]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def missing(path: Path, seeds: int, block: int) -> list[tuple]:
    """Jobs (problem, episodes, preset, seeds) still to do, in blocks; the long ones alone."""
    done = {(r["problem"], r["episodes"], r["preset"], r["seed"]) for r in finished(path)}
    jobs = []
    for row in ROWS:
        left = [seed for seed in range(seeds) if (*row, seed) not in done]
        size = 1 if row[0] == "reservoir-20" and row[1] > 500 else block
        jobs += [(*row, left[i : i + size]) for i in range(0, len(left), size)]
    return jobs


def table(path: Path) -> str:
    import numpy as np

    from ilbo.experiments.study import markdown_table

    lines = []
    results = finished(path)
    for row, (at_least, at_most) in ROWS.items():
        runs = [r for r in results if (r["problem"], r["episodes"], r["preset"]) == row]
        if not runs:
            continue
        final = np.array([r["final"] for r in runs])
        std = final.std(ddof=1) if len(final) > 1 else 0.0
        met = "yes" if final.mean() >= at_least and std <= at_most else "no"
        lines.append(
            (
                *(row[0], f"{row[1]:,}", row[2], len(runs), f"{final.mean():,.2f}", f"{std:,.2f}"),
                *(f"{final.min():,.2f}", f"{np.mean([r['best'] for r in runs]):,.2f}"),
                *(f"{runs[0]['controller']:,.2f}", f"{max(r['worst_ratio'] for r in runs):.2f}"),
                *(f"{at_least:,.1f} ± {at_most:g}", met),
            )
        )
    return markdown_table(COLUMNS, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("quality.jsonl"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--block", type=int, default=5, help="seeds a process trains in turn")
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long")
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(*json.loads(options.worker))
    if not options.table:
        from cores import work_off

        jobs = missing(options.out, options.seeds, options.block)
        cores = sorted(os.sched_getaffinity(0))[: options.cores]
        work_off(__file__, jobs, options.out, cores, options.seconds)
    print(table(options.out))


if __name__ == "__main__":
    main()
