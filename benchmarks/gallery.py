"""Trains the gallery's examples, draws what they do and writes what they earn.

    python benchmarks/gallery.py [NAME ...]

Pictures go to docs/figures, what the policies earn to docs/results/gallery.json.
"""

import json
import sys
from pathlib import Path

import ilbo
from ilbo.experiments.study import markdown_table
from ilbo.mdp.numbers import interval, number
from ilbo.plots import trajectories

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "gallery.json"
EPISODES = {
    "hourly_prices": 300,
    "inventory": 300,
    "two_tanks": 300,
    "quadcopter": 400,
    "house": 300,
    "year_of_rain": 300,
}


def show(name: str) -> dict[str, float]:
    problem = ilbo.make(f"{ROOT}/examples/{name}.py:problem")
    plan = ilbo.plan(problem, episodes=EPISODES[name])
    found = ilbo.compare(problem, plan.policy, "heuristic", 1, episodes=512)
    trajectories(problem, plan.policy, ROOT / "docs" / "figures" / f"gallery-{name}.png", title="")
    low, high = found.ci95
    return {
        "episodes": EPISODES[name],
        "trained": found.first.mean,
        "rule": found.second.mean,
        "difference": found.difference,
        "low": low,
        "high": high,
    }


def table(path: Path) -> str:
    """The table of the results' file."""
    columns = ("file", "episodes", "trained policy", "its rule", "difference", "95 %")
    return markdown_table(
        columns,
        [
            (
                f"`examples/{name}.py`",
                row["episodes"],
                *(number(row[key]) for key in ("trained", "rule", "difference")),
                interval(row["low"], row["high"]),
            )
            for name, row in json.loads(path.read_text()).items()
        ],
    )


def main() -> None:
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in sys.argv[1:] or EPISODES:
        known[name] = show(name)
        print(name, known[name], flush=True)
        ordered = {key: known[key] for key in EPISODES if key in known}
        RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")


if __name__ == "__main__":
    main()
