"""How time a step and memory grow: with seeds, reservoirs, hidden width and parallel episodes.

    python benchmarks/scale.py --seeds 1 10 100 [--out scale.jsonl]
    python benchmarks/scale.py --reservoirs 10 100 1000
    python benchmarks/scale.py --widths 64 256 1024 --parallel 1 4 16
    python benchmarks/scale.py --table scale.jsonl

One line of JSON for each point, with the device. A step of several seeds is one step of each of
them. Memory is that of the device, or of the process on a CPU.
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
from ilbo.experiments.study import markdown_table
from ilbo.planner import Planner


def measure(problem: ilbo.Problem, config: ilbo.ILBO, seeds: int, repeats: int) -> dict:
    """Microseconds of a step of all seeds, compile time and peak memory."""
    planner = Planner(problem, config, tuple(range(seeds)), 2_000)
    runs = planner.start()
    episodes = config.evaluate_every
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        runs, *_, best = planner.advance(runs, episodes)
        jax.block_until_ready(best)
        times.append(time.perf_counter() - began)
    steady = float(np.median(times[1:]))
    stats = jax.devices()[0].memory_stats() or {}
    peak = stats.get("peak_bytes_in_use", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    return {
        "problem": problem.name, "seeds": seeds, "layers": list(config.layers),
        "parallel": config.parallel, "step_us": steady / planner.steps(episodes) * 1e6,
        "compile_s": times[0] - steady, "peak_mib": peak / 2**20,
        "device": jax.devices()[0].device_kind,
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


def table(path: Path) -> str:
    columns = (
        *("problem", "seeds", "layers", "parallel", "µs a step", "µs a step and seed"),
        *("compile s", "peak MiB", "device"),
    )
    results = [json.loads(line) for line in path.read_text().splitlines()]
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
    parser.add_argument("--episodes", type=int, default=5, help="of a timed call")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--critic-store", type=int, default=100_000, help="transitions held")
    parser.add_argument("--out", type=Path, help="append the lines here as well")
    parser.add_argument("--table", type=Path, help="only print the table of this file")
    options = parser.parse_args()
    if options.table:
        print(table(options.table))
        return
    for varied, problem, changes, seeds in points(options):
        config = ilbo.ILBO(
            evaluate_every=options.episodes, critic_store=options.critic_store, **changes
        )
        found = measure(problem, config, seeds, options.repeats)
        line = json.dumps({"varied": varied, **found})
        print(line, flush=True)
        if options.out:
            with options.out.open("a") as out:
                out.write(line + "\n")


if __name__ == "__main__":
    main()
