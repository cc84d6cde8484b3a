"""The compiled problems of rddlrepository, step by step beside pyRDDLGym's own simulator.

    python benchmarks/rddl_steps.py                  # run what is missing, print the table
    python benchmarks/rddl_steps.py --table          # print the table of what is there
    python benchmarks/rddl_steps.py --only HVAC/0 --out /tmp/hvac.jsonl

For every problem without observation fluents, discrete ones included, and its first three
instances: 50 steps from visited and from random states, with random actions and the same noise for
both; next state, reward, end of the episode and preconditions must agree to 1e-9, in 64 bits. All
draws of the repository can be inverted, so that equal noise gives equal draws. An instance is a
line of the output file; one that is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results" / "rddl_steps.jsonl"
INSTANCES, STEPS, TOLERANCE = 3, 50, 1e-9


def candidates() -> list[str]:
    from ilbo import rddl

    return [
        f"{name}/{number}"
        for name in sorted(rddl.repository())
        for number in rddl.instances(name)[:INSTANCES]
    ]


def examine(name: str) -> dict:
    """One line of the table."""
    import ilbo
    from ilbo import rddl
    from ilbo.rddl.parsing import parse

    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from rddl_simulation import Comparison

    line: dict = {"problem": name}
    try:
        source = rddl.locate(f"rddl:{name}", None)
        model = parse(source)
        line["real_action"] = "real" in model.action_ranges.values()
        line["observed"] = bool(model.observ_fluents)
        if line["observed"]:
            return line
        began = time.perf_counter()
        comparison = Comparison(source)
        dynamics = comparison.model.dynamics
        line |= {"state": dynamics.state.size, "action": dynamics.action.size}
        line |= {"noise": comparison.model.law.size}
        line["build_seconds"] = round(time.perf_counter() - began, 2)
    except ilbo.UserError as error:
        return line | {"compiles": False, "why": str(error)}
    found = comparison.run(STEPS, TOLERANCE)
    return line | {"compiles": True} | found | {"differ": sorted(set(found["differ"]))}


def finished(path: Path) -> dict[str, dict]:
    lines = path.read_text().splitlines() if path.exists() else []
    return {line["problem"]: line for line in map(json.loads, lines)}


def table(path: Path) -> str:
    """How many compile and agree, and a line for each that does not."""
    from ilbo.experiments.study import markdown_table

    rows = [row for row in finished(path).values() if not row.get("observed")]
    kinds = {"with a real action": True, "without": False}
    lines = []
    for words, real in kinds.items():
        chosen = [row for row in rows if row["real_action"] == real]
        compiled = [row for row in chosen if row["compiles"]]
        equal = [row for row in compiled if not row["differ"] and row["equal"]]
        names = {row["problem"].split("/")[0] for row in chosen}
        lines.append(
            [
                *(words, str(len(names)), str(len(chosen)), str(len(compiled)), str(len(equal))),
                f"{sum(row['equal'] for row in compiled):,}",
                f"{sum(row['refused'] for row in compiled):,}",
            ]
        )
    head = ["problems", "domains", "instances", "compile", "agree"]
    text = markdown_table([*head, "equal steps", "refused by the simulator"], lines)
    for row in rows:
        if not row["compiles"]:
            text += f"\n{row['problem']} does not compile: {row['why']}\n"
        elif row["differ"] or not row["equal"]:
            reason = ", ".join(row["differ"][:5]) or row.get("why", "")
            text += f"\n{row['problem']}: {row['equal']} of {STEPS} steps agree; {reason}\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--only", nargs="*", help="problems, as NAME/INSTANCE")
    parser.add_argument("--table", action="store_true", help="run nothing")
    options = parser.parse_args()
    if not options.table:
        os.environ["JAX_ENABLE_X64"] = "1"
        import jax

        done = finished(options.out)
        for name in options.only or candidates():
            if name in done:
                continue
            line = examine(name)
            with options.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(json.dumps(line), file=sys.stderr, flush=True)
            jax.clear_caches()
    print(table(options.out))


if __name__ == "__main__":
    main()
