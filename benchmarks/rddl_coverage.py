"""How each problem of rddlrepository with real-valued actions is read and planned.

    python benchmarks/rddl_coverage.py                      # run what is missing, print the table
    python benchmarks/rddl_coverage.py --table              # print the table of what is there
    python benchmarks/rddl_coverage.py --only HVAC --out /tmp/hvac.jsonl
    python benchmarks/rddl_coverage.py --beside reservoir-20   # RDDL beside the built-in problem

For the first instance of each: whether it compiles, the bounds found, whether the transition has a
density, the return of uniformly random actions, and that of ILBO's default settings after about
3,000 training steps, judged on the exact model. Each problem is a process of its own and a line of
the output file; a problem that is already there is not run again.

With `--beside`, one of the paper's problems is trained as RDDL and as built in: same settings, same
seed, a segment of the one after a segment of the other, so that both run under the same load.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "rddl_coverage.jsonl"
STEPS = 3_000
"""Training steps of the short run."""
EPISODES = 256
"""Episodes of each evaluation, on the same noise for both policies."""
LIMIT = 1_800
"""Time limit of a problem, in seconds."""


def candidates() -> list[str]:
    """The problems with a real-valued action fluent."""
    from ilbo import rddl
    from ilbo.rddl.parsing import parse

    found = []
    for name in rddl.repository():
        source = rddl.locate(f"rddl:{name}/{rddl.instances(name)[0]}", None)
        if "real" in parse(source).action_ranges.values():
            found.append(name)
    return sorted(found)


def examine(name: str) -> dict:
    """One line of the table."""
    import numpy as np

    import ilbo
    from ilbo import rddl
    from ilbo.mdp.simple import Random
    from ilbo.registry.inspection import inspect

    line: dict = {"problem": name, "instance": rddl.instances(name)[0]}
    try:
        problem = ilbo.make(f"rddl:{name}/{line['instance']}")
    except ilbo.UserError as error:
        return line | {"compiles": False, "why": str(error)}
    report = inspect(problem)
    low, high = problem.exact.bounds(problem.initial_state)
    random = ilbo.evaluate(problem, Random(problem.exact), 0, EPISODES)
    line |= {
        "compiles": True,
        "state": problem.state_size,
        "action": problem.action_size,
        "noise": report["noise_law"] if report["noise_size"] else "none",
        "bounded": int(np.sum(np.isfinite(low) & np.isfinite(high))),
        "moving_bounds": any(row["depends_on_state"] for row in report["action"]),
        "not_enforced": len(report["not_enforced"]),
        "density": report["has_density"],
        "no_density": len(report["no_density"]),
        "relaxed": report["relaxed"],
        "random": random.mean,
    }
    episodes = max(4, STEPS * ilbo.ILBO().parallel // problem.horizon)
    config = ilbo.ILBO(evaluate_every=max(1, episodes // 4))
    plan = ilbo.plan(problem, config, episodes=episodes)
    trained = ilbo.evaluate(problem, plan.best_policy, 0, EPISODES)
    return line | {
        "episodes": episodes,
        "trained": trained.mean,
        "violations": trained.violations,
        "seconds": plan.seconds - plan.compile_seconds,
        "compile_seconds": plan.compile_seconds,
        "why": plan.faults[0] or "",
    }


def beside(name: str, episodes: int) -> None:
    """Trains the built-in problem and its RDDL in turns; prints returns and times per step."""
    import statistics
    import time

    import ilbo
    from ilbo.planning.ilbo import ILBOTrainer, steps_of

    problems = [ilbo.make(name), ilbo.make(f"rddl:{name}")]
    config = ilbo.ILBO()
    trainers = [ILBOTrainer.of(problem, config, episodes) for problem in problems]
    planners = [ilbo.Planner(trainer, (0,), episodes) for trainer in trainers]
    runs = [planner.start() for planner in planners]
    times: list[list[float]] = [[], []]
    for segment in planners[0].segments_after(0):
        for i, planner in enumerate(planners):
            began = time.perf_counter()
            runs[i], *_ = planner.advance(runs[i], segment)
            times[i].append(
                (time.perf_counter() - began) / steps_of(segment, planner.problem.horizon, config)
            )
    spent = [statistics.median(each[1:]) for each in times]  # the first segment also compiles
    for planner, run, problem, seconds in zip(planners, runs, problems, spent, strict=True):
        (policy,), _ = planner.policies(run)
        result = ilbo.evaluate(problems[0], policy, 7, 1024)
        low, high = result.ci95
        print(
            f"{problem.name}: {result.mean:.0f} [{low:.0f}, {high:.0f}] after {episodes} episodes, "
            f"{1e3 * seconds:.2f} ms per step"
        )
    print(f"time per step, RDDL over built in: {spent[1] / spent[0]:.2f}")


def finished(path: Path) -> dict[str, dict]:
    lines = path.read_text().splitlines() if path.exists() else []
    return {line["problem"]: line for line in map(json.loads, lines)}


def table(path: Path) -> str:
    """The results in Markdown."""
    from ilbo.experiments.study import markdown_table

    head = ["problem", "state", "action", "noise", "bounds", "density", "random", "ILBO", "notes"]
    rows = []
    for name, r in sorted(finished(path).items()):
        if not r["compiles"]:
            rows.append([name, *["–"] * 7, r["why"]])
            continue
        bounds = f"{r['bounded']} of {r['action']}" + (", of the state" * r["moving_bounds"])
        density = "yes" if r["density"] else f"no: {r['no_density']} of {r['state']} without"
        notes = [f"{len(r['relaxed'])} discrete parts relaxed"] if r["relaxed"] else []
        notes += [f"{r['not_enforced']} constraints counted"] if r["not_enforced"] else []
        notes += [r["why"]] if r["why"] else []
        rows.append(
            [
                *(name, str(r["state"]), str(r["action"]), r["noise"], bounds, density),
                *(f"{r['random']:.5g}", f"{r['trained']:.5g}" if "trained" in r else "–"),
                "; ".join(notes),
            ]
        )
    return markdown_table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--only", nargs="*", help="names of problems")
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--beside", metavar="NAME", help="train RDDL and built-in problem in turns")
    parser.add_argument("--episodes", type=int, default=500, help="of --beside")
    parser.add_argument("--examine", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.beside:
        beside(options.beside, options.episodes)
        return
    if options.examine:
        print(json.dumps(examine(options.examine)))
        return
    if not options.table:
        done = finished(options.out)
        for name in options.only or candidates():
            if name not in done:
                run(name, options.out)
    print(table(options.out))


def run(name: str, out: Path) -> None:
    command = [sys.executable, __file__, "--examine", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        line = done.stdout.splitlines()[-1] if done.returncode == 0 else None
        why = done.stderr.strip().splitlines()[-1:] or ["failed"]
    except subprocess.TimeoutExpired:
        line, why = None, [f"given up after {LIMIT} s"]
    if line is None:
        line = json.dumps({"problem": name, "compiles": False, "why": why[0]})
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a") as file:
        file.write(line + "\n")
    print(f"{name}: done", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
