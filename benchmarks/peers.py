"""ILBO beside JaxPlan, pyRDDLGym-jax's planner, on the same RDDL files and for the same time.

    python benchmarks/peers.py [--problems navigation-3 hvac-6 reservoir-20] [--episodes 500]
    python benchmarks/peers.py --times 4        # four times the time for the others

ILBO plans for a number of episodes; JaxPlan's deep reactive policy and planning through time then
get the wall-clock time that ILBO took, or a multiple of it, compilation included. All policies have
the same hidden layers and see inputs scaled by the same region; each is the best that its planner
tested, and is evaluated by `ilbo.evaluate` on the same fresh trajectories, clipped into the action
bounds there. JaxPlan runs with its default settings and with tuned ones. It cannot use bounds that
depend on the state (an outflow of at most the level), so it is given the widest ones.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

import ilbo
from ilbo.baselines import ThroughTime, ThroughTimeTrainer
from ilbo.experiments.scales import PAPER_PROBLEMS, TUNED
from ilbo.experiments.study import grouped, markdown_table, mean_and_spread
from ilbo.planning.loop import StopWhen, train
from ilbo.planning.planner import Planner
from ilbo.rddl.parsing import parse, quiet
from ilbo.runs.results import evaluate_fresh
from ilbo.storage.environment import environment

JAXPLAN: dict[str, dict[str, Any]] = {
    "JaxPlan, its defaults": {
        "optimizer": optax.rmsprop,
        "optimizer_kwargs": {"learning_rate": 1e-4},
        "batch_size_train": 32,
    },
    "JaxPlan, tuned": {
        "optimizer": optax.adam,
        "optimizer_kwargs": {"learning_rate": 3e-3},
        "batch_size_train": 16,
        "pgpe": None,
    },
}


def jaxplan_policy(problem, layers, settings, seed: int, seconds: float):
    """The best policy that JaxPlan tested in so many seconds, and its gradient steps."""
    from pyRDDLGym_jax.core.planner import (
        JaxBackpropPlanner,
        JaxDeepReactivePolicy,
        StaticNormalizer,
    )

    began = time.perf_counter()
    dynamics = problem.exact.dynamics
    region = [dynamics.state.unpack(bound) for bound in problem.region]
    inputs = {
        name: (np.asarray(region[0][name]), np.asarray(region[1][name])) for name in region[0]
    }
    outputs = _widest_bounds(problem)
    with quiet():
        planner = JaxBackpropPlanner(
            parse(dynamics.source),
            JaxDeepReactivePolicy(list(layers), activation=jax.nn.relu, wrap_non_bool=True),
            batch_size_test=64,
            action_bounds=outputs,
            preprocessor=StaticNormalizer(inputs),
            **settings,
        )
        left = seconds - (time.perf_counter() - began)
        found = planner.optimize(
            jax.random.PRNGKey(seed),
            train_seconds=left,
            print_summary=False,
            print_progress=False,
        )
    params, hyperparameters = found["best_params"], found["policy_hyperparams"]

    def policy(state):
        fluents = dynamics.state.unpack(state)
        key = jax.random.PRNGKey(0)
        actions = planner.plan.test_policy(key, params, hyperparameters, 0, fluents, None)
        return dynamics.action.pack(actions)

    return policy, found["iteration"] + 1


def _widest_bounds(problem) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Action bounds at the upper corner of the region, where state-dependent ones are widest."""
    action = problem.exact.dynamics.action
    low, high = (action.unpack(bound) for bound in problem.exact.bounds(problem.region[1]))
    return {name: (np.asarray(low[name]), np.asarray(high[name])) for name in low}


def through_time_policy(problem, layers, seed: int, seconds: float):
    """The best policy that planning through time tested in so many seconds, and its epochs.

    Epochs go on at the full learning rate until the time is up.
    """
    config = replace(ThroughTime(**TUNED), layers=layers, final_rate=1.0, epochs=10**6)
    trainer = ThroughTimeTrainer.of(problem, config)
    planner = Planner(trainer, (seed,), config.episodes, vectorise=False)
    began = time.perf_counter()
    plan = train(planner, [StopWhen(lambda: time.perf_counter() - began >= seconds)])
    return plan.best_policy, plan.samples.gradient_steps


def compare(
    name: str, layers: tuple[int, ...], episodes: int, seeds: int, times: float
) -> list[dict]:
    problem = ilbo.make(f"rddl:{name}")
    rows = []
    for seed in range(seeds):
        jax.clear_caches()
        config = ilbo.ILBO(layers=layers, episodes=episodes)
        plan = ilbo.plan(problem, config, seed=seed)
        policies = {"ILBO": (plan.best_policy, plan.samples.gradient_steps)}
        seconds = times * plan.seconds
        jax.clear_caches()
        policies["through time"] = through_time_policy(problem, layers, seed, seconds)
        for label, settings in JAXPLAN.items():
            jax.clear_caches()
            policies[label] = jaxplan_policy(problem, layers, settings, seed, seconds)
        for label, (policy, steps) in policies.items():
            (evaluation,) = evaluate_fresh(problem, [policy])
            rows.append(
                {
                    "problem": name,
                    "planner": label,
                    "seed": seed,
                    "seconds": round(plan.seconds if label == "ILBO" else seconds, 1),
                    "gradient_steps": int(steps),
                    "mean": evaluation.mean,
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=list(PAPER_PROBLEMS))
    parser.add_argument("--episodes", type=int, default=500, help="of ILBO")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--times", type=float, default=1.0, help="ILBO's time, for the others")
    parser.add_argument("--layers", type=int, nargs="+", default=[256, 128, 64, 32])
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    args = parser.parse_args()
    rows = []
    for name in args.problems:
        rows += compare(name, tuple(args.layers), args.episodes, args.seeds, args.times)
    content = {"environment": environment(), "rows": rows}
    if args.out:
        args.out.write_text(json.dumps(content, indent=2))
    print(tabulate(rows))


def table(path: Path) -> str:
    """The table of a file that `--out` wrote."""
    return tabulate(json.loads(path.read_text())["rows"])


def tabulate(rows: list[dict]) -> str:
    lines = [
        [
            problem,
            planner,
            f"{np.mean([row['seconds'] for row in found]):.0f}",
            f"{np.mean([row['gradient_steps'] for row in found]):,.0f}",
            mean_and_spread([row["mean"] for row in found]),
            str(len(found)),
        ]
        for (problem, planner), found in grouped(rows, "problem", "planner").items()
    ]
    return markdown_table(
        ["problem", "planner", "seconds", "gradient steps", "return", "seeds"], lines
    )


if __name__ == "__main__":
    main()
