"""The league: public problems, nobody tuned for, equal seconds on one core, one judge.

    python benchmarks/league.py first               # what is missing of the first instances
    python benchmarks/league.py ipc                 # what is missing of the competition's instances
    python benchmarks/league.py rest                # the other instances of the same domains
    python benchmarks/league.py ipc --planners ilbo --seeds 1 --only UAV --cores 0
    python benchmarks/league.py first ipc --table   # both tables of what is there

`first`: the first instance of each problem of rddlrepository with a real action, 50 s each.
`rest`: the instances of these domains that are in no other table, 50 s each; nothing was chosen
on them.
`ipc`: the domains with real actions of the International Planning Competition 2023, instances 1 to
5, 120 s each. Each planner runs with one setting for all: ours with its defaults, JaxPlan
(pyRDDLGym-jax) with the config that it ships for the domain, else its default. The seconds hold
everything, compiling included, for ours from reading the files on, for JaxPlan from the parsed
problem on; replanning gets a share of them for every step of an episode, of which it has one. All
are judged by pyRDDLGym's own simulator on the same seeds, undiscounted. A result is a process,
pinned to a core, and a line of the output file; what is there is not run again.

The score is the competition's: 0 is the better of no action and random ones, 1 the best of all
planners here, clipped; the mean over instances, then over domains.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "league.jsonl"
FIRST = (
    *("Bicycle_physics/0", "CartPole_Continuous_gym/0", "Epidemic/0", "HVAC/0"),
    *("HVAC_ippc2023/0", "Intruders_Continuous/0", "MarsRover_ippc2023/0"),
    *("MountainCar_Continuous_gym/0", "MountainCar_ippc2023/1", "Navigation_Continuous/0"),
    *("Pendulum_gym/0", "PowerGen_Continuous/0", "PowerGen_ippc2023/1", "Quadcopter_physics/0"),
    *("RaceCar_ippc2023/0", "Reacher_physics/0", "Reservoir_Continuous/0", "Reservoir_ippc2023/1"),
    *("UAV_Continuous/0", "UAV_Mixed/0", "UAV_ippc2023/1", "Zombies_arcade/0"),
)
REST = (
    *("HVAC/1", "HVAC_ippc2023/6", "HVAC_ippc2023/7", "Quadcopter_physics/1"),
    *("RaceCar_ippc2023/6", "Reacher_physics/1", "Reservoir_Continuous/1", "UAV_Continuous/1"),
    *("Zombies_arcade/1", "Zombies_arcade/2", "Zombies_arcade/3"),
)
DOMAINS = ("HVAC", "MarsRover", "MountainCar", "PowerGen", "RaceCar", "Reservoir", "UAV")
TABLES: dict[str, tuple[tuple[str, ...], float]] = {
    "first": (FIRST, 50.0),
    "rest": (REST, 50.0),
    "ipc": (tuple(f"{d}_ippc2023/{i}" for d in DOMAINS for i in range(1, 6)), 120.0),
}
"""Problems and seconds of each table."""
SIMPLE = ("no action", "random")
REPLANNING = "JaxPlan replanning"
JAXPLAN = ("JaxPlan SLP", "JaxPlan DRP", REPLANNING)
PLANNERS = ("ilbo", *JAXPLAN, "through time", *SIMPLE)
EPISODES = 20
REPLANNED = 1
"""Episodes of replanning, which trains anew in each of them, for as many seconds as all others."""
LEVEL = 0.02
"""A difference below this share of (best - simple) is level, as is one of two standard errors."""


def judged(
    environment: Any,
    act: Callable[[Any, int], Any],
    reset: Callable[[], None],
    episodes: int = EPISODES,
) -> dict:
    """Undiscounted returns of an agent in pyRDDLGym's simulator."""
    import numpy as np

    returns = []
    for episode in range(episodes):
        state, _ = environment.reset(seed=episode)
        reset()
        total = 0.0
        for step in range(environment.horizon):
            state, reward, ended, cut, _ = environment.step(act(state, step))
            total += reward
            if ended or cut:
                break
        returns.append(float(total))
    error = float(np.std(returns, ddof=1) / episodes**0.5) if episodes > 1 else None
    return {
        "mean": float(np.mean(returns)),
        "error": error,
        "returns": np.round(returns, 4).tolist(),
    }


def run_ours(name: str, planner: str, seed: int, seconds: float) -> dict:
    """Plans by ilbo, or by back-propagation through time; or acts at random."""
    import ilbo
    from ilbo.adapters.pyrddlgym import PolicyAgent, environment
    from ilbo.mdp.simple import Random

    began = time.perf_counter()
    problem = ilbo.make(f"rddl:{name}")
    seconds -= time.perf_counter() - began
    said: dict[str, Any] = {}
    if planner == "ilbo":
        plan = ilbo.plan(problem, seed=seed, seconds=seconds)
        policy, said = plan.policy, {"episodes": plan.episode, "fault": plan.fault}
    elif planner == "through time":
        from ilbo.baselines import ThroughTime, ThroughTimeTrainer
        from ilbo.experiments.scales import TUNED
        from ilbo.planning.loop import train
        from ilbo.planning.planner import Planner

        config = ThroughTime(**{**TUNED, "epochs": 10**6})
        trainer = ThroughTimeTrainer.of(problem, config)
        plan = train(Planner(trainer, (seed,), config.episodes), seconds=seconds)
        policy = plan.best_policy
    else:
        policy = Random(problem.exact)
    took = time.perf_counter() - began
    agent = PolicyAgent(problem, policy, seed=seed)
    result = judged(environment(problem), lambda state, _: agent.sample_action(state), agent.reset)
    return {"planning_seconds": round(took, 1), **said, **result}


def run_jaxplan(name: str, planner: str, seed: int, seconds: float) -> dict:
    """Plans by JaxPlan with the config that it ships."""
    import jax
    import pyRDDLGym_jax.examples.configs as configs
    from pyRDDLGym.core.env import RDDLEnv
    from pyRDDLGym_jax.core.planner import (
        JaxBackpropPlanner,
        JaxOfflineController,
        JaxOnlineController,
        load_config,
    )

    from ilbo import rddl
    from ilbo.rddl.parsing import parse

    method = {"SLP": "slp", "DRP": "drp", "replanning": "replan"}[planner.split()[-1]]
    domain = name.split("/")[0]
    folder = Path(configs.__file__).parent
    file = folder / f"{domain}_{method}.cfg"
    if not file.exists():
        file = folder / f"default_{method}.cfg"
    settings, _, training = load_config(str(file))
    settings.pop("dashboard", None)
    source = rddl.locate(f"rddl:{name}", None)
    environment = RDDLEnv(parse(source), None, vectorized=True)
    began = time.perf_counter()
    jaxplan = JaxBackpropPlanner(rddl=environment.model, **settings)
    training |= {"key": jax.random.PRNGKey(seed), "print_summary": False, "print_progress": False}
    if method == "replan":
        # The time of an episode is shared by its steps; the first compiles.
        share = seconds / environment.horizon
        controller = JaxOnlineController(jaxplan, **{**training, "train_seconds": share})
    else:
        left = seconds - (time.perf_counter() - began)
        training["epochs"] = 10**7  # the clock ends it
        controller = JaxOfflineController(jaxplan, **{**training, "train_seconds": left})
    took = time.perf_counter() - began
    result = judged(
        environment,
        lambda state, _: controller.sample_action(state),
        controller.reset,
        REPLANNED if method == "replan" else EPISODES,
    )
    return {"planning_seconds": round(took, 1), "config": file.name, **result}


def run_nothing(name: str) -> dict:
    """No action: pyRDDLGym's defaults."""
    from pyRDDLGym.core.env import RDDLEnv

    from ilbo import rddl
    from ilbo.rddl.parsing import parse

    environment = RDDLEnv(parse(rddl.locate(f"rddl:{name}", None)), None)
    return judged(environment, lambda state, step: {}, lambda: None)


def run_one(table: str, name: str, planner: str, seed: int) -> dict:
    seconds = TABLES[table][1]
    began = time.perf_counter()
    if planner == "no action":
        result = run_nothing(name)
    elif planner in JAXPLAN:
        result = run_jaxplan(name, planner, seed, seconds)
    else:
        result = run_ours(name, planner, seed, seconds)
    from ilbo.storage.environment import commit, packages, processor

    line = {"table": table, "problem": name, "planner": planner, "seed": seed, "commit": commit()}
    line |= {"machine": processor(), "jax": packages().get("jax")}
    return line | result | {"seconds": round(time.perf_counter() - began, 1)}


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def key_of(row: dict) -> tuple[str, str, str, int]:
    return row["table"], row["problem"], row["planner"], row["seed"]


def run_missing(wanted: list[tuple[str, str, str, int]], out: Path, cores: list[int]) -> None:
    """Each in a process on a core of its own."""
    done = {key_of(row) for row in read(out)}
    free: Queue[int] = Queue()
    for core in cores:
        free.put(core)

    def run(case: tuple[str, str, str, int]) -> None:
        core = free.get()
        command = ["taskset", "-c", str(core), sys.executable, __file__, "--one", json.dumps(case)]
        # Nothing compiled before: a second seed pays for compiling as the first one did.
        environment = {**os.environ, "PJRT_NPROC": "1", "ILBO_CACHE": "off"}
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
        finally:
            free.put(core)
        try:
            line = json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            why = (done.stderr.strip().splitlines() or ["no output"])[-1][:200]
            line = dict(zip(("table", "problem", "planner", "seed"), case, strict=True))
            line |= {"mean": None, "why": why}
        with out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)

    with ThreadPoolExecutor(len(cores)) as pool:
        list(pool.map(run, [case for case in wanted if case not in done]))


def table_of(table: str, rows: list[dict]) -> str:
    """Raw returns, and the score of each planner on the problems that all have been run on."""
    import numpy as np

    problems = TABLES[table][0]
    means: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        if row["table"] == table and row["mean"] is not None:
            means.setdefault((row["problem"], row["planner"]), []).append(row)
    shown = [p for p in PLANNERS if p != REPLANNING and any(q == p for _, q in means)]
    lines = ["| problem | " + " | ".join(shown) + " |", "| --- |" + " --- |" * len(shown)]
    scores: dict[str, dict[str, list[float]]] = {p: {} for p in shown}
    for problem in problems:
        cells = {p: means[problem, p] for p in shown if (problem, p) in means}
        value = {p: float(np.mean([row["mean"] for row in cell])) for p, cell in cells.items()}
        if not value:
            continue
        simple = max((value[p] for p in SIMPLE if p in value), default=min(value.values()))
        best = max(value.values())
        texts = []
        for p in shown:
            if p not in value:
                texts.append("")
                continue
            spread = value[p] - simple
            score = float(np.clip(spread / (best - simple), 0, 1)) if best > simple else 0.0
            if len(value) == len(shown):  # all planners have been run
                scores[p].setdefault(problem.split("/")[0], []).append(score)
            seeds = [row["mean"] for row in cells[p]]
            text = f"{value[p]:,.1f}" if abs(value[p]) >= 10 else f"{value[p]:.2f}"
            text += f" ({min(seeds):,.1f} to {max(seeds):,.1f})" if len(seeds) > 1 else ""
            texts.append(f"**{text}**" if value[p] == best else text)
        lines.append(f"| {problem} | " + " | ".join(texts) + " |")
    mean = {
        p: np.mean([np.mean(s) for s in by.values()]) if by else np.nan for p, by in scores.items()
    }
    if len(shown) < 2:  # nobody to compare with yet
        return "\n".join(lines) + "\n"
    lines.append("| score | " + " | ".join(f"{mean[p]:.3f}" for p in shown) + " |")
    return "\n".join(lines) + "\n\n" + verdict(means, problems) + replanned(means, problems)


def replanned(means: dict[tuple[str, str], list[dict]], problems: tuple[str, ...]) -> str:
    """Replanning beside ilbo, on the first episode: returns of one are no mean to be scored."""
    import numpy as np

    lines = ["", f"| the first episode | {REPLANNING} | ilbo |", "| --- | --- | --- |"]
    for problem in problems:
        cells = [means.get((problem, p), []) for p in (REPLANNING, "ilbo")]
        # Where episodes are equal, the mean is the first; of others it was not always recorded.
        theirs, ours = (
            [row["returns"][0] if "returns" in row else row["mean"] for row in cell]
            for cell in cells
        )
        spread = max((row["error"] for row in cells[1] if "returns" not in row), default=0.0)
        spread *= EPISODES**0.5
        if theirs and ours:
            text = f"{np.mean(ours):,.2f}"
            if spread > 1e-3 * abs(np.mean(ours)) + 0.1:
                text += f" (mean of {EPISODES}; standard deviation {spread:,.0f})"
            lines.append(f"| {problem} | {np.mean(theirs):,.2f} | {text} |")
    return "\n".join([*lines, ""]) if len(lines) > 3 else ""


def verdict(means: dict[tuple[str, str], list[dict]], problems: tuple[str, ...]) -> str:
    """On how many problems ilbo is level with the better of JaxPlan's SLP and DRP, or ahead."""
    import numpy as np

    ahead, behind = 0, []
    counted = 0
    for problem in problems:
        cells = {p: means.get((problem, p)) for p in ("ilbo", *JAXPLAN[:2], *SIMPLE)}
        if not cells["ilbo"] or not (cells["JaxPlan SLP"] or cells["JaxPlan DRP"]):
            continue
        counted += 1
        value = {p: np.mean([row["mean"] for row in c]) for p, c in cells.items() if c}
        rival = max(JAXPLAN[:2], key=lambda p: value.get(p, -np.inf))
        simple = max((value[p] for p in SIMPLE if p in value), default=-np.inf)
        range_ = max(value.values()) - simple
        gap = value[rival] - value["ilbo"]
        errors = [np.mean([r["error"] for r in cells[p] or []]) for p in ("ilbo", rival)]
        level = max(LEVEL * range_, 2 * float(np.hypot(*errors)))
        if gap <= level:
            ahead += 1
        else:
            behind.append(f"{problem} (by {100 * gap / range_:.0f} %)")
    return (
        f"Level with the better of JaxPlan's SLP and DRP, or ahead of it, on {ahead} of {counted}; "
        f"behind on {', '.join(behind) or 'none'}.\n"
    )


TITLES = {
    "first": "First instance of each problem of rddlrepository with a real-valued action, 50 s:",
    "rest": "The other instances of these domains, 50 s; nothing was chosen on them:",
    "ipc": "The competition's domains with real-valued actions, 120 s:",
}


def table(data: Path) -> str:
    """Both tables of what is there, as far as there is something."""
    rows = read(data)
    parts = [
        f"{TITLES[name]}\n\n{table_of(name, rows)}"
        for name in TABLES
        if any(row["table"] == name for row in rows)
    ]
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], help="first, ipc, or both")
    parser.add_argument("--planners", nargs="+", default=list(PLANNERS), choices=PLANNERS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--only", default="", help="problems whose name holds this")
    parser.add_argument("--cores", type=int, nargs="+", default=list(range(os.cpu_count() or 1)))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print the tables and run nothing")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(run_one(*json.loads(args.one))))
        return
    if not args.table:
        wanted = [
            (name, problem, planner, seed)
            for seed in args.seeds
            for name in args.tables
            for problem in TABLES[name][0]
            for planner in args.planners
            if args.only in problem and (seed == args.seeds[0] or planner != "no action")
        ]
        run_missing(wanted, args.out, args.cores)
    print(table(args.out))


if __name__ == "__main__":
    main()
