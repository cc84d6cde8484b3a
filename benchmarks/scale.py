"""How time per step and memory grow: with seeds, reservoirs, hidden width and parallel episodes.

    python benchmarks/scale.py --seeds 1 10 100 [--out scale.jsonl]
    python benchmarks/scale.py --reservoirs 10 100 1000
    python benchmarks/scale.py --widths 64 256 1024 --parallel 1 4 16
    python benchmarks/scale.py --whole 10 --problems navigation-3 hvac-6 reservoir-20
    python benchmarks/scale.py --table scale.jsonl

One line of JSON for each point, with the device. A step of several seeds is one step of each of
them. Memory is that of the device, or of the process on a CPU. `--whole` times whole plans of so
many seeds instead, 500 episodes each, and judges their final policies on fresh trajectories.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import jax
import numpy as np

import ilbo
from ilbo.experiments.statistics import spread
from ilbo.experiments.study import markdown_table
from ilbo.planning.ilbo import ILBOTrainer, steps_of
from ilbo.planning.planner import Planner
from ilbo.runs.results import evaluate_fresh
from ilbo.storage.environment import environment, machine

WHOLE_EPISODES = 500


def measure(problem: ilbo.Problem, config: ilbo.ILBO, seeds: int, repeats: int) -> dict:
    """Microseconds of a step of all seeds, compile time and peak memory."""
    trainer = ILBOTrainer.of(problem, config, 2_000)
    planner = Planner(trainer, tuple(range(seeds)), 2_000)
    runs = planner.start()
    episodes = config.evaluate_every
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        runs, *_, best = planner.advance(runs, episodes)
        jax.block_until_ready(best)
        times.append(time.perf_counter() - began)
    steady = float(np.median(times[1:]))
    steps = steps_of(episodes, problem.horizon, config)
    stats = jax.devices()[0].memory_stats() or {}
    peak = stats.get("peak_bytes_in_use", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    return {
        "problem": problem.name, "seeds": seeds, "layers": list(config.layers),
        "parallel": config.parallel, "step_us": steady / steps * 1e6,
        "compile_s": times[0] - steady, "peak_mib": peak / 2**20,
        "device": machine(environment()),
    }  # fmt: skip


def whole(name: str, seeds: int, episodes: int) -> dict:
    """Seconds of a plan of several seeds, and how good its policies are."""
    problem = ilbo.make(name)
    plan = ilbo.plan(problem, seeds=seeds, episodes=episodes)
    means = [result.mean for result in evaluate_fresh(problem, plan.policies)]
    return {
        "problem": name, "seeds": seeds, "episodes": episodes,
        "products": jax.config.jax_default_matmul_precision or "default", "total_s": plan.seconds,
        "compile_s": plan.compile_seconds, "mean": float(np.mean(means)),
        "std": spread(means),
        "device": machine(environment()),
    }  # fmt: skip


def points(options: argparse.Namespace):
    """(what is varied, problem, changes of the settings, seeds)."""
    for count in options.seeds:
        for name in options.problems:
            yield "seeds", ilbo.make(name), {}, count
    for count in options.reservoirs:
        yield "reservoirs", ilbo.reservoir(count, seed=0), {}, 1
    for width in options.widths:
        yield "widths", ilbo.make(options.problems[-1]), {"layers": (width,) * 2}, 1
    for count in options.parallel:
        yield "parallel", ilbo.make(options.problems[-1]), {"parallel": count}, 1


def write(result: dict, path: Path | None) -> None:
    line = json.dumps(result)
    print(line, flush=True)
    if path:
        with path.open("a") as out:
            out.write(line + "\n")


def table(path: Path) -> str:
    results = [json.loads(line) for line in path.read_text().splitlines()]
    return of_plans(results) if "total_s" in results[0] else of_steps(results)


def of_plans(results: list[dict]) -> str:
    columns = (
        *("problem", "seeds", "episodes", "products", "seconds", "of these compiling"),
        *("mean", "std", "device"),
    )
    rows = [
        (
            *(r["problem"], r["seeds"], r["episodes"], r["products"], f"{r['total_s']:.0f}"),
            *(f"{r['compile_s']:.0f}", f"{r['mean']:,.2f}", f"{r['std']:.2f}", r["device"]),
        )
        for r in results
    ]
    return markdown_table(columns, rows)


def of_steps(results: list[dict]) -> str:
    columns = (
        *("problem", "seeds", "layers", "parallel", "µs per step", "µs per step and seed"),
        *("compile s", "peak MiB", "device"),
    )
    rows = [
        (
            *(r["problem"], r["seeds"], r["layers"], r["parallel"], f"{r['step_us']:,.0f}"),
            *(f"{r['step_us'] / r['seeds']:,.1f}", f"{r['compile_s']:.1f}"),
            *(f"{r['peak_mib']:,.0f}", r["device"]),
        )
        for r in results
    ]
    return markdown_table(columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="*", default=["reservoir-20"])
    for name in ("seeds", "reservoirs", "widths", "parallel"):
        parser.add_argument(f"--{name}", nargs="*", type=int, default=[])
    parser.add_argument("--whole", type=int, help="time whole plans of so many seeds")
    parser.add_argument("--episodes", type=int, default=5, help="of a timed call")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--critic-store", type=int, default=100_000, help="transitions held")
    parser.add_argument("--out", type=Path, help="append the lines here as well")
    parser.add_argument("--table", type=Path, help="only print the table of this file")
    options = parser.parse_args()
    if options.table:
        print(table(options.table))
        return
    if options.whole:
        for name in options.problems:
            write(whole(name, options.whole, WHOLE_EPISODES), options.out)
        return
    for varied, problem, changes, seeds in points(options):
        config = ilbo.ILBO(
            evaluate_every=options.episodes, critic_store=options.critic_store, **changes
        )
        found = measure(problem, config, seeds, options.repeats)
        write({"varied": varied, **found}, options.out)


if __name__ == "__main__":
    main()
