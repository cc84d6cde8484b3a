"""Trains the gallery's examples, draws what they do and writes what they earn.

    python docs/figures/gallery.py [NAME ...]

Pictures go beside this file, figures to docs/results/gallery.json.
"""

import json
import sys
from pathlib import Path

import ilbo
from ilbo.plots import trajectories

FOLDER = Path(__file__).parent
EXAMPLES = FOLDER.parents[1] / "examples"
RESULTS = FOLDER.parent / "results" / "gallery.json"
EPISODES = {
    "hourly_prices": 300,
    "inventory": 300,
    "two_tanks": 300,
    "quadcopter": 400,
    "house": 300,
    "year_of_rain": 300,
}


def show(name: str) -> dict[str, float]:
    problem = ilbo.make(f"{EXAMPLES / name}.py:problem")
    plan = ilbo.plan(problem, episodes=EPISODES[name])
    found = ilbo.compare(problem, plan.policy, "heuristic", 1, episodes=512)
    trajectories(problem, plan.policy, FOLDER / f"gallery-{name}.png", title="")
    low, high = found.ci95
    return {
        "episodes": EPISODES[name],
        "trained": found.first.mean,
        "rule": found.second.mean,
        "difference": found.difference,
        "low": low,
        "high": high,
    }


def main() -> None:
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in sys.argv[1:] or EPISODES:
        known[name] = show(name)
        print(name, known[name], flush=True)
        ordered = {key: known[key] for key in EPISODES if key in known}
        RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")


if __name__ == "__main__":
    main()
