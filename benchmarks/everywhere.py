"""One policy for all starts, and for any number of components.

    python benchmarks/everywhere.py --problems navigation-3 hvac-6 reservoir-20 --seeds 3 --out a.jsonl
    python benchmarks/everywhere.py --sizes 20 100 300 1000 --out b.jsonl
    python benchmarks/everywhere.py --sizes 100 --on 20 300 1000 --out b.jsonl
    python benchmarks/everywhere.py --table a.jsonl b.jsonl

With `--problems`, policies of `ILBO.everywhere()` on the ten new starts of `ilbo reproduce
generalisation`, beside what it measured for tf-mdp retrained from each of them. With `--sizes`,
policies that share what they know on generated chains of so many reservoirs, beside the hand-written
controller; `--on`, the same policies used on chains of another size. A line of JSON for each policy.
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path

import ilbo
from ilbo.experiments.generalisation import starts_of
from ilbo.experiments.statistics import spread
from ilbo.experiments.study import markdown_table
from ilbo.mdp.evaluate import evaluate
from ilbo.planning.ilbo import steps_of
from ilbo.runs.results import evaluate_fresh, fresh_key
from ilbo.storage.environment import environment, machine

MEASURED = Path(__file__).parents[1] / "docs/results/generalisation.md"
COUNT = 10
SIZES_EPISODES = 500


def retrained(problem: str) -> list[float]:
    """What tf-mdp earns from each of the starts, retrained on it."""
    lines = [line for line in MEASURED.read_text().splitlines() if line.startswith("|")]
    head, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
    column = next(i for i, name in enumerate(head) if name.startswith("tf-mdp"))
    return [_number(cells[column]) for cells in rows if cells[0] == problem]


def _number(cell: str) -> float:
    return float(re.sub("[,\u202f]", "", cell.split("±")[0].replace("−", "-")))


def everywhere(name: str, seeds: int, episodes: int | None):
    """A line for each seed: what its policy earns from the own start and from the others."""
    problem, config = ilbo.make(name), ilbo.ILBO.everywhere()
    plan = ilbo.plan(problem, config, seeds=seeds, episodes=episodes)
    for seed, policy in zip(plan.seeds, plan.policies, strict=True):
        earned = [
            evaluate(problem, policy, fresh_key(), 2048, list(start)).mean
            for start in starts_of(name, COUNT)
        ]
        yield {
            "problem": name, "seed": seed, "own": evaluate_fresh(problem, [policy])[0].mean,
            "starts": earned, **_cost(plan),
        }  # fmt: skip


def chain(size: int, episodes: int, others: list[int]):
    """A line for a chain of this size, and one for each other that its policy is used on."""
    problem = ilbo.reservoir(size)
    plan = ilbo.plan(problem, ilbo.ILBO(policy="shared", shared_critic=True), episodes=episodes)
    yield {"trained on": size, "size": size, **_beside(problem, plan.policy), **_cost(plan)}
    for other in others:
        there = ilbo.reservoir(other)
        yield {"trained on": size, "size": other, **_beside(there, plan.policy.on(there))}


def _beside(problem: ilbo.Problem, policy) -> dict[str, float]:
    ours, simple = evaluate_fresh(problem, [policy, problem.model.heuristic], 1024)
    return {"own": ours.mean, "controller": simple.mean}


def _cost(plan: ilbo.Plan) -> dict:
    episodes = plan.history[0][-1].episode
    steps = steps_of(episodes, plan.problem.horizon, plan.config)
    training = plan.seconds - plan.compile_seconds
    return {
        "episodes": episodes, "step_us": training / steps * 1e6, "seconds": plan.seconds,
        "compile_s": plan.compile_seconds, "device": machine(environment()),
    }  # fmt: skip


def of_starts(results: list[dict]) -> str:
    """The count for each problem, and the table of its starts."""
    rows, counts = [], []
    for name in dict.fromkeys(r["problem"] for r in results):
        seeds = [r for r in results if r["problem"] == name]
        theirs = retrained(name)
        ahead = [sum(a > b for a, b in zip(r["starts"], theirs, strict=True)) for r in seeds]
        counts.append(f"{name}: ahead on {', '.join(map(str, ahead))} of {len(theirs)} starts.")
        own = [r["own"] for r in seeds]
        rows.append((name, "own", _shown(own), "", ""))
        for i, other in enumerate(theirs):
            ours = [r["starts"][i] for r in seeds]
            rows.append(
                (name, str(i + 1), _shown(ours), f"{other:,.2f}", f"{sum(x > other for x in ours)}")
            )
    table = markdown_table(("problem", "start", "one policy", "retrained", "seeds ahead"), rows)
    return "\n\n".join([*counts, table])


def of_sizes(results: list[dict]) -> str:
    rows = [
        (
            *(str(r["trained on"]), str(r["size"]), f"{r['own']:,.0f}", f"{r['controller']:,.0f}"),
            f"{100 * (1 - r['own'] / r['controller']):.1f} %",
            *(f"{r[key]:,.0f}" if key in r else "" for key in ("step_us", "compile_s", "seconds")),
        )
        for r in results
    ]
    columns = ("trained on", "used on", "policy", "controller", "less cost", "µs a step")
    return markdown_table((*columns, "compiling, s", "in all, s"), rows)


def _shown(values: list[float]) -> str:
    mean = sum(values) / len(values)
    return f"{mean:,.2f}" + (f" ± {spread(values):,.2f}" if len(values) > 1 else "")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--episodes", type=int)
    parser.add_argument("--sizes", nargs="*", type=int, default=[])
    parser.add_argument("--on", nargs="*", type=int, default=[])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", nargs="*", type=Path, default=[])
    options = parser.parse_args()
    for path in options.table:
        results = [json.loads(line) for line in path.read_text().splitlines()]
        print(of_sizes(results) if "size" in results[0] else of_starts(results), end="\n\n")
    for name in options.problems:
        write(everywhere(name, options.seeds, options.episodes), options.out)
    for size in options.sizes:
        write(chain(size, options.episodes or SIZES_EPISODES, options.on), options.out)


def write(results, path: Path | None) -> None:
    began = time.perf_counter()
    for result in results:
        line = json.dumps({**result, "after_s": round(time.perf_counter() - began)})
        print(line, flush=True)
        if path:
            with path.open("a") as out:
                out.write(line + "\n")


if __name__ == "__main__":
    main()
