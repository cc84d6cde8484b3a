"""How much faster compiled, batched episodes are than a plain NumPy loop over single ones.

    python benchmarks/rollout.py [--problem reservoir-20] [--episodes 4096]

Both simulate whole episodes under the midpoint policy with noise drawn from the problem's law. The
loop is the plain version of `tests/support/reference.py`. Compilation is shown and not counted.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import jax
import numpy as np

import ilbo
from ilbo.mdp.simple import Midpoint
from ilbo.mdp.simulate import simulate

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from reference import reference


def numpy_episodes(problem: ilbo.Problem, step, draw: np.random.Generator, count: int) -> list:
    """Returns of single episodes under the midpoint policy, in plain NumPy."""
    law = problem.model.law
    shape = np.asarray(law.shape) if isinstance(law, ilbo.Gamma) else None
    low, high = (np.asarray(b) for b in problem.model.bounds(problem.initial_state))
    start = np.asarray(problem.initial_state, float)
    up_to_level = problem.name.startswith("reservoir")
    returns = []
    for _ in range(count):
        state, total = start, 0.0
        for _ in range(problem.horizon):
            noise = draw.standard_normal(law.size) if shape is None else draw.standard_gamma(shape)
            action = state / 2 if up_to_level else (low + high) / 2
            state, reward = step(state, action, noise)
            total += reward
        returns.append(total)
    return returns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", default="reservoir-20", choices=ilbo.problems())
    parser.add_argument("--episodes", type=int, default=4096)
    parser.add_argument("--loop-episodes", type=int, default=30, help="episodes of a repeat")
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()

    problem = ilbo.make(args.problem)
    policy = Midpoint(problem.model)

    def batch(seed: int) -> np.ndarray:
        trajectories = simulate(problem, policy, seed, args.episodes)
        return np.asarray(jax.block_until_ready(trajectories).rewards).sum(axis=1)

    started = time.perf_counter()
    batch(0)
    compiling = time.perf_counter() - started

    step = reference(args.problem).step
    draw = np.random.default_rng(0)
    loop_times, batch_times, loop_returns, batch_returns = [], [], [], []
    for seed in range(args.repeats):  # in turns, so that both run under the same load
        started = time.perf_counter()
        loop_returns += numpy_episodes(problem, step, draw, args.loop_episodes)
        loop_times.append((time.perf_counter() - started) / args.loop_episodes)
        started = time.perf_counter()
        batch_returns.append(batch(seed))
        batch_times.append((time.perf_counter() - started) / args.episodes)

    loop, compiled = np.median(loop_times), np.median(batch_times)
    print(f"{problem.name}, midpoint policy, {problem.horizon} steps an episode")
    print(f"NumPy loop over single episodes  {loop * 1e6:10.1f} µs per episode")
    print(
        f"ilbo, {args.episodes} episodes at once     {compiled * 1e6:10.1f} µs per episode"
        f"  (first call {compiling:.1f} s)"
    )
    for name, returns in (("NumPy", loop_returns), ("ilbo", np.concatenate(batch_returns))):
        error = np.std(returns) / np.sqrt(len(returns))
        print(f"mean return, {name:5}  {np.mean(returns):.1f} ± {error:.1f}")
    print(f"ratio {loop / compiled:.0f}")


if __name__ == "__main__":
    main()
