"""How far from the optimum: default policies on problems whose optimum is known.

    python benchmarks/optima.py --out optima.jsonl              # what is missing, then the table
    python benchmarks/optima.py --out optima.jsonl --seeds 10   # ten training seeds of each
    python benchmarks/optima.py --out optima.jsonl --only lqg   # problems with such names
    python benchmarks/optima.py --out optima.jsonl --table      # print the table of what is there
    python benchmarks/optima.py --out optima.jsonl --sees bound # the bounds of `ilbo.bound` instead
    python benchmarks/optima.py --out optima.jsonl --picture docs/figures/optima.png

The problems are those of examples/known. Each line of the output file is one result: the optimum of
a problem, with where it comes from, or one training seed. A line that is there is not run again.
Settings are the default ones; where the horizon is the problem's own, policies that see the time
left are trained as well. Ours and the best policy are judged on the same fresh episodes. Bounds are
those of the best policy, where one is known and the horizon is the problem's own.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import ilbo
from ilbo.baselines import earned, optimum
from ilbo.runs.results import fresh_key
from known import Known, Truth, battery, hydro, linear, money, pendulum, stocks

EPISODES = 2048
"""Judged on; eight times as many where there is no best policy to compare with on equal noise."""


def navigation() -> Known:
    problem = ilbo.make("navigation-3")

    def truth() -> Truth:
        found = optimum(problem, (41, 61, 121), box=(-0.5, 10.5), noises=4, actions=5)
        return Truth(found.value, "dynamic programming", found.policy, found.error)

    return Known(problem, truth)


PROBLEMS: dict[str, Callable[[], Known]] = {
    "lqg-2": lambda: linear.lqg(2),
    "lqg-10": lambda: linear.lqg(10),
    "lqg-50": lambda: linear.lqg(50),
    "lqg-change": linear.change,
    "cake": money.cake,
    "merton": money.merton,
    "stock": stocks.stock,
    "lead-time": stocks.lead_time,
    "battery": battery.battery,
    "hydro": lambda: hydro.hydro(rains=False, trades=False),
    "hydro-inflows": lambda: hydro.hydro(rains=True, trades=False),
    "hydro-prices": lambda: hydro.hydro(rains=False, trades=True),
    "hydro-inflows-prices": lambda: hydro.hydro(rains=True, trades=True),
    "navigation-3": navigation,
    "pendulum": pendulum.pendulum,
}
LEAST_STEPS = 10_000
"""Training takes the default of 500 episodes, or more where these are short: so many steps."""
SEES = ("state", "time-left")


def judged(known: Known, policy: Any, paired: bool) -> dict[str, float]:
    """What a policy earns on fresh episodes."""
    episodes = EPISODES if paired else 8 * EPISODES
    returns = earned(known.judge, policy, fresh_key(), episodes)
    error = float(returns.std(ddof=1) / episodes**0.5)
    return {"earned": float(returns.mean()), "standard_error": error}


def exact(name: str, known: Known) -> dict[str, Any]:
    """The optimum, and what its policy earns."""
    began = time.time()
    truth = known.truth()
    line = {"problem": name, "what": "optimum", "from": truth.source}
    line |= {"value": truth.value, "error": truth.error}
    if truth.policy is not None:
        line |= judged(known, truth.policy, paired=True)
    return line | {"seconds": time.time() - began}


def trained(name: str, known: Known, sees: str, seed: int, paired: bool) -> dict[str, Any]:
    """One training with the default settings."""
    config = {} if sees == "state" else {"policy": sees}
    episodes = max(500, LEAST_STEPS // known.problem.horizon)
    plan = ilbo.plan(known.problem, config, seed=seed, episodes=episodes)
    line = {"problem": name, "what": sees, "seed": seed, "episodes": plan.episode}
    return line | judged(known, plan.policy, paired) | {"seconds": plan.seconds}


def bounded(name: str, known: Known) -> dict[str, Any]:
    """What `ilbo.bound` says of the best policy: it must not lie below the optimum."""
    began = time.time()
    found = ilbo.bound(known.problem, known.truth().policy, 0)
    line = {"problem": name, "what": "bound", "value": found.mean, "gap": found.gap}
    line |= {"standard_error": found.standard_error, "charges": found.charges}
    return line | {"seconds": time.time() - began}


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(path: Path, seeds: int, only: str, sees: list[str]) -> None:
    """Appends what is missing: the optima first, then seed after seed."""
    names = [name for name in PROBLEMS if only in name]
    jobs: list[tuple[str, str, int | None]] = [(name, "optimum", None) for name in names]
    jobs += [(name, "bound", None) for name in names if "bound" in sees]
    kinds = [what for what in sees if what != "bound"]
    jobs += [(name, what, seed) for seed in range(seeds) for what in kinds for name in names]
    for name, what, seed in jobs:
        lines = read(path)
        done = {(line["problem"], line["what"], line.get("seed")) for line in lines}
        known = PROBLEMS[name]() if (name, what, seed) not in done else None
        if known is None or (what in ("time-left", "bound") and known.judged is not None):
            continue
        if what == "optimum":
            line = exact(name, known)
        elif what == "bound":
            known_best = next(x for x in lines if (x["problem"], x["what"]) == (name, "optimum"))
            if "earned" not in known_best:
                continue
            line = bounded(name, known)
        else:
            truth = next(x for x in lines if (x["problem"], x["what"]) == (name, "optimum"))
            assert seed is not None
            line = trained(name, known, what, seed, "earned" in truth)
        with path.open("a") as out:
            out.write(json.dumps(line) + "\n")


def distances(lines: list[dict[str, Any]], name: str, what: str) -> np.ndarray:
    """Per cent of the optimum that each seed is below it; on equal noise where that is known."""
    truth = next(x for x in lines if (x["problem"], x["what"]) == (name, "optimum"))
    runs = [x["earned"] for x in lines if (x["problem"], x["what"]) == (name, what)]
    return 100 * (truth.get("earned", truth["value"]) - np.array(runs)) / abs(truth["value"])


def shown(away: np.ndarray) -> str:
    """The mean, with a 95 % interval over the seeds."""
    if not len(away):
        return "–"
    if len(away) == 1:
        return f"{away[0]:.2f} %"
    from scipy.stats import t

    half = t.ppf(0.975, len(away) - 1) * away.std(ddof=1) / len(away) ** 0.5
    return f"{away.mean():.2f} ± {half:.2f} %"


def table(path: Path) -> str:
    from ilbo.experiments.study import markdown_table
    from ilbo.mdp.numbers import number

    rows, lines = [], read(path)
    for name in PROBLEMS:
        truth = [x for x in lines if (x["problem"], x["what"]) == (name, "optimum")]
        runs = [x for x in lines if (x["problem"], x["what"]) == (name, "state")]
        if not truth or not runs:
            continue
        timed = distances(lines, name, "time-left")
        value = number(truth[0]["value"])
        error = truth[0]["error"]
        rows.append(
            (
                *(name, truth[0]["from"], f"{value} ± {number(error)}" if error else value),
                *(len(runs), number(float(np.mean([x["earned"] for x in runs])))),
                *(shown(distances(lines, name, "state")), shown(timed)),
                *(f"{runs[0]['episodes']:,}", f"{np.mean([x['seconds'] for x in runs]):.0f}"),
            )
        )
    columns = ("problem", "optimum from", "optimum", "seeds", "ILBO earns")
    columns += ("below the optimum", "the same, seeing the time left", "episodes", "seconds")
    return markdown_table(columns, rows)


def bounds(path: Path) -> str:
    """The table of the bounds."""
    from ilbo.experiments.study import markdown_table
    from ilbo.mdp.numbers import number

    lines = read(path)
    best = {x["problem"]: x["value"] for x in lines if x["what"] == "optimum"}
    rows = []
    for x in (line for line in lines if line["what"] == "bound"):
        known = best[x["problem"]]
        figures = map(number, (known, x["value"], x["standard_error"]))
        share = f"{100 * x['gap'] / abs(known):.3f} %"
        rows.append((x["problem"], *figures, share, f"{x['seconds']:.0f}"))
    columns = ("problem", "optimum", "bound", "standard error", "its gap", "seconds")
    return markdown_table(columns, rows)


def picture(path: Path, to: Path) -> None:
    """Distance against seconds of training, a point for each problem."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lines = read(path)
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name in PROBLEMS:
        seconds = [x["seconds"] for x in lines if (x["problem"], x["what"]) == (name, "state")]
        if seconds:
            away = max(float(distances(lines, name, "state").mean()), 0.003)
            axes.plot(np.median(seconds), away, "o", color="C0")
            axes.annotate(name, (np.median(seconds), away), (4, 3), textcoords="offset points")
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="seconds of training, one seed")
    axes.margins(0.15)
    axes.set_ylabel("% below the optimum")
    figure.savefig(to, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("optima.jsonl"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", default="", help="problems whose name holds this")
    parser.add_argument("--sees", nargs="+", choices=(*SEES, "bound"), default=list(SEES))
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--picture", type=Path, help="draw what is there")
    options = parser.parse_args()
    if options.picture:
        picture(options.out, options.picture)
    elif not options.table:
        run(options.out, options.seeds, options.only, options.sees)
    print(bounds(options.out) if options.sees == ["bound"] else table(options.out))


if __name__ == "__main__":
    main()
