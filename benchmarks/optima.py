"""How far from the optimum: default policies on problems whose optimum is known.

    python benchmarks/optima.py --out optima.jsonl              # what is missing, then the table
    python benchmarks/optima.py --out optima.jsonl --seeds 10   # ten training seeds of each
    python benchmarks/optima.py --out optima.jsonl --only lqg-2 cake       # of these problems
    python benchmarks/optima.py --out optima.jsonl --table      # print the table of what is there
    python benchmarks/optima.py --out optima.jsonl --what bound # the bounds of `ilbo.bound` instead
    python benchmarks/optima.py --out optima.jsonl --picture docs/figures/optima.png

The problems are those of examples/known. Each line of the output file is one result: the optimum of
a problem, with where it comes from, one training seed, or a bound. A line that is there is not run
again. Work is done by a process for each core; one that trains several seeds compiles once.
Settings are the default ones; where the horizon is the problem's own, policies that see the time
left are trained as well. Ours and the best policy are judged on the same fresh episodes. Bounds are
those of the best policy where it can be written down, else of ours of seed 0.
"""

from __future__ import annotations

import argparse
import json
import os
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


def navigation() -> Known:
    problem = ilbo.make("navigation-3")

    def truth() -> Truth:
        found = optimum(problem, (41, 61, 121), box=(-0.5, 10.5), noises=4, actions=5)
        return Truth(found.value, "dynamic programming", found.policy, found.error)

    return Known(problem, truth, episodes=2048)  # the policy of the grid takes its time


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
"""What policies see."""
GRIDS = ("lead-time", "navigation-3", "pendulum")
"""Whose best policy takes minutes to find."""
WHATS = ("optimum", *SEES, "bound")


def judged(known: Known, policy: Any) -> dict[str, float]:
    """What a policy earns on fresh episodes."""
    returns = earned(known.judge, policy, fresh_key(), known.episodes)
    error = float(returns.std(ddof=1) / known.episodes**0.5)
    return {"earned": float(returns.mean()), "standard_error": error}


def exact(known: Known) -> dict[str, Any]:
    """The optimum, and what its policy earns."""
    began = time.time()
    truth = known.truth()
    line = {"from": truth.source, "value": truth.value, "error": truth.error}
    if truth.policy is not None:
        line |= judged(known, truth.policy)
    return line | {"seconds": time.time() - began}


def trained(known: Known, sees: str, seed: int) -> dict[str, Any]:
    """One training with the default settings."""
    plan = planned(known, sees, seed)
    line = {"episodes": plan.episode, "fault": plan.fault}
    times = {"seconds": plan.seconds, "compile_seconds": plan.compile_seconds}
    return line | judged(known, plan.policy) | times


def planned(known: Known, sees: str, seed: int) -> Any:
    config = {} if sees == "state" else {"policy": sees}
    episodes = max(500, LEAST_STEPS // known.problem.horizon)
    return ilbo.plan(known.problem, config, seed=seed, episodes=episodes)


def bounded(name: str, known: Known) -> dict[str, Any]:
    """What `ilbo.bound` says of the best policy, or of ours: it must not lie below the optimum."""
    best = None if name in GRIDS else known.truth().policy
    policy = planned(known, "state", 0).policy if best is None else best
    began = time.process_time()  # what one core would take alone
    found = ilbo.bound(known.judge, policy, 0)
    line = {"value": found.mean, "gap": found.gap, "standard_error": found.standard_error}
    line |= {"charges": found.charges, "last_gain": found.last_gain, "sentence": found.sentence}
    return line | {"seconds": time.process_time() - began}


def work(name: str, what: str, seeds: list[int]) -> None:
    """Prints a JSON line for each result of a job."""
    from ilbo.storage.environment import commit, environment, machine

    known = PROBLEMS[name]()
    origin = {
        "commit": commit() or os.environ.get("ILBO_COMMIT"),
        "machine": machine(environment()),
    }
    for seed in seeds or [None]:
        line = {"problem": name, "what": what}
        if what == "optimum":
            line |= exact(known)
        elif what == "bound":
            line |= bounded(name, known)
        else:
            line |= {"seed": seed} | trained(known, what, seed)
        print(json.dumps(line | origin), flush=True)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def missing(path: Path, seeds: int, names: list[str], whats: list[str], block: int) -> list[Any]:
    """Jobs (problem, what, seeds) still to do: the first block of seeds of all comes first."""
    done = {(line["problem"], line["what"], line.get("seed")) for line in read(path)}
    jobs: list[Any] = []
    for first in range(0, seeds, block):
        for what in whats:
            for name in names:
                if what in SEES:
                    wanted = range(first, min(first + block, seeds))
                    left = [seed for seed in wanted if (name, what, seed) not in done]
                    endless = PROBLEMS[name]().judged is not None
                    if left and not (what == "time-left" and endless):
                        jobs.append((name, what, left))
                elif first == 0 and (name, what, None) not in done:
                    jobs.append((name, what, []))
    return jobs


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
        away, timed = distances(lines, name, "state"), distances(lines, name, "time-left")
        value, error = number(truth[0]["value"]), truth[0]["error"]
        rows.append(
            (
                *(name, truth[0]["from"], f"{value} ± {number(error)}" if error else value),
                *(len(runs), number(float(np.mean([x["earned"] for x in runs])))),
                *(shown(away), f"{away.max():.2f} %", shown(timed)),
                *(f"{runs[0]['episodes']:,}", f"{np.median([x['seconds'] for x in runs]):.0f}"),
            )
        )
    columns = ("problem", "optimum from", "optimum", "seeds", "ILBO earns")
    columns += ("below the optimum", "worst seed", "seeing the time left", "episodes", "seconds")
    return markdown_table(columns, rows)


def bounds(path: Path) -> str:
    """The table of the bounds."""
    from ilbo.experiments.study import markdown_table
    from ilbo.mdp.numbers import number

    lines = read(path)
    best = {x["problem"]: x["value"] for x in lines if x["what"] == "optimum"}
    found = {x["problem"]: x for x in lines if x["what"] == "bound"}
    rows = []
    for name in (name for name in PROBLEMS if name in found and name in best):
        x, known = found[name], best[name]
        above = f"{number(round(100 * (x['value'] - known) / abs(known), 2) + 0.0)} %"
        error = f"{100 * x['standard_error'] / abs(known):.2f} %"
        figures = number(known), number(x["value"]), above, error
        said = x["sentence"].split(" (")[0].split(": none")[0].replace("-", "−")
        rows.append((name, *figures, said, f"{x['seconds']:.0f}"))
    columns = ("problem", "optimum", "bound", "above the optimum", "its standard error")
    return markdown_table((*columns, "what is said", "seconds of a core"), rows)


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
            below = name in ("hydro-inflows", "hydro-prices", "pendulum")  # beside another one
            offset = (4, -9) if below else (4, 3)
            place = np.median(seconds), away
            axes.annotate(name, place, offset, textcoords="offset points", fontsize=8)
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.set(yscale="log", xlim=(0, None), xlabel="seconds of training, one seed")
    axes.margins(0.15)
    axes.set_ylabel("% below the optimum")
    figure.savefig(to, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("optima.jsonl"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--block", type=int, default=5, help="seeds a process trains in turn")
    parser.add_argument("--only", nargs="+", default=list(PROBLEMS), help="the problems")
    parser.add_argument("--what", nargs="+", choices=WHATS, default=list(WHATS[:3]))
    parser.add_argument("--cores", help="as 0,1; all if none are given")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long")
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--picture", type=Path, help="draw what is there")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(*json.loads(options.worker))
    if options.picture:
        picture(options.out, options.picture)
    elif not options.table:
        from cores import work_off

        jobs = missing(options.out, options.seeds, options.only, options.what, options.block)
        every = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        cores = [int(core) for core in (options.cores or every).split(",")]
        work_off(__file__, jobs, options.out, cores, options.seconds)
    print(bounds(options.out) if options.what == ["bound"] else table(options.out))


if __name__ == "__main__":
    main()
