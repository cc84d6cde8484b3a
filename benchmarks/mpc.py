"""Against model-predictive control: CasADi and IPOPT, replanned at every step, on equal noise.

    python benchmarks/mpc.py --out mpc.jsonl            # what is missing, then the table
    python benchmarks/mpc.py --out mpc.jsonl --table    # print the table of what is there

Needs `pip install casadi`. The controller is certainty-equivalent: at each step it takes the noise
to come for its mean and plans the whole rest of the episode by a nonlinear program, started from
the rest of its last plan. The models are written a second time in CasADi (`twins.py`); what has no
derivative there is smoothed (within 1e-3, the levels of reservoirs within 1), and HVAC's penalty
for leaving the comfort band is one of as much for each degree. What it earns is counted on the
exact model, as for our policy, which is trained with the default settings, on the same noise.
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

sys.path.insert(0, str(Path(__file__).parent))

import ilbo
from ilbo.baselines import earned
from ilbo.baselines.open_loop import evaluation_noise
from ilbo.runs.results import fresh_key
from twins import TWINS, Twin, hydro, problem_of

LEAST_STEPS = 10_000
EPISODES = {
    "battery": 1,
    "hydro-inflows-prices": 256,
    "navigation-3": 256,
    "hvac-6": 64,
    "reservoir-20": 64,
}
"""Noise sequences that the controller is judged on."""
DRAWN = 256
"""Noise sequences; ours is judged on the same first ones."""
CHUNK = 4
"""Sequences to a line of the file."""


class Controller:
    """Plans the rest of the episode at each step, by IPOPT."""

    def __init__(self, twin: Twin):
        self.twin, self.solvers = twin, {}
        self.plan: np.ndarray | None = None

    def market(self, place: Any, time: int) -> Any:
        """The valley's place of the market to come, in the mean."""
        after = hydro.MARKET[min(time, 1)][:, 1]
        return after[0] + place * (after[1] - after[0])

    def solver(self, time: int) -> Any:
        """The program from a time on: variables are actions and the states after them."""
        import casadi as ca

        problem, twin = self.twin.problem, self.twin
        n, m, left = problem.state_size, problem.action_size, problem.horizon - time
        start = ca.MX.sym("start", n)
        us, xs = ca.MX.sym("u", m, left), ca.MX.sym("x", n, left)
        x, cost, equal, free = start, 0, [], []
        for i in range(left):
            w = ca.DM(twin.noise)
            if problem.name.startswith("hydro"):
                w = ca.vertcat(w[:2], self.market(x[4], time + i))
            moved = twin.transition(x, us[:, i], w, twin.smooth)
            equal.append(xs[:, i] - moved)
            free.append(twin.limits(x, us[:, i]))
            worth = twin.reward(x, us[:, i], xs[:, i], time + i, twin.smooth)
            cost = cost - problem.discount**i * worth
            x = xs[:, i]
        g = ca.vertcat(*equal, *free)
        count = left * n
        program = {"x": ca.vertcat(ca.vec(us), ca.vec(xs)), "p": start, "f": cost, "g": g}
        quiet = {"ipopt.print_level": 0, "print_time": 0, "ipopt.sb": "yes", "expand": True}
        solve = ca.nlpsol("plan", "ipopt", program, {**quiet, "ipopt.max_iter": 300})
        high = np.concatenate([np.zeros(count), np.full(g.shape[0] - count, np.inf)])
        return solve, high

    def __call__(self, state: np.ndarray, time: int) -> np.ndarray:
        problem = self.twin.problem
        n, m, left = problem.state_size, problem.action_size, problem.horizon - time
        if time not in self.solvers:
            self.solvers[time] = self.solver(time)
        solve, high = self.solvers[time]
        if time == 0 or self.plan is None:
            low, up = (np.asarray(b, float) for b in problem.exact.bounds(problem.initial_state))
            us, xs = np.tile((low + up) / 2, (left, 1)), np.tile(state, (left, 1))
        else:
            us, xs = self.plan[0][1:], self.plan[1][1:]
        first = np.concatenate([us.ravel(), xs.ravel()])
        found = solve(x0=first, p=state, lbg=np.zeros(len(high)), ubg=high)
        x = np.asarray(found["x"]).ravel()
        self.plan = x[: left * m].reshape(left, m), x[left * m :].reshape(left, n)
        return self.plan[0][0]


def noise_of(name: str, problem: ilbo.Problem) -> np.ndarray:
    count = DRAWN if EPISODES[name] > 1 else 1
    return np.asarray(evaluation_noise(problem, fresh_key(), count))


def controlled(name: str, first: int, out: Callable[[dict[str, Any]], None]) -> None:
    """What the controller earns from the noise sequence `first` on, and the time of its decisions,
    programs built beforehand."""
    import jax
    import jax.numpy as jnp

    twin, episodes = TWINS[name](), EPISODES[name]
    problem, control = twin.problem, Controller(twin)
    for time_ in range(problem.horizon):
        control.solvers[time_] = control.solver(time_)
    model = problem.exact

    @jax.jit
    def step(state: Any, action: Any, xi: Any) -> tuple[Any, Any]:
        action = jnp.clip(action, *model.bounds(state))
        moved = model.transition(state, action, xi)
        return moved, model.reward(state, action, moved)

    noise = noise_of(name, problem)[:episodes]
    for start in range(first, episodes, CHUNK):
        returns, spent = [], 0.0
        for xis in noise[start : start + CHUNK]:
            state, total = problem.initial_state, 0.0
            for t in range(problem.horizon):
                began = time.process_time()
                action = control(np.asarray(state, float), t)
                spent += time.process_time() - began
                state, reward = step(state, jnp.asarray(action, jnp.float32), xis[t])
                total += problem.discount**t * float(reward)
            returns.append(total)
        a_decision = 1000 * spent / (len(returns) * problem.horizon)
        out({"first": start, "returns": returns, "milliseconds": a_decision})


def trained(name: str) -> dict[str, Any]:
    """What our policy earns on the same noise, and the time of its decisions."""
    episodes, problem = EPISODES[name], problem_of(name)
    plan = ilbo.plan(problem, episodes=max(500, LEAST_STEPS // problem.horizon))
    returns = earned(problem, plan.policy, fresh_key(), len(noise_of(name, problem)))
    state = np.asarray(problem.initial_state)
    for _ in range(10):
        np.asarray(plan.policy(state))
    began = time.process_time()
    for _ in range(1000):
        np.asarray(plan.policy(state))
    spent = time.process_time() - began
    return {"returns": returns.tolist()[:episodes], "milliseconds": spent, "seconds": plan.seconds}


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(path: Path, only: list[str], whats: list[str]) -> None:
    """Appends what is missing, a few episodes at a time."""
    from ilbo.storage.environment import commit, environment, machine

    origin = {"commit": commit(), "machine": machine(environment())}
    for what in whats:
        for name in only:
            lines = [x for x in read(path) if (x["problem"], x["what"]) == (name, what)]

            def out(line: dict[str, Any], name: str = name, what: str = what) -> None:
                line = {"problem": name, "what": what} | line | origin
                with path.open("a") as file:
                    file.write(json.dumps(line) + "\n")

            done = sum(len(x["returns"]) for x in lines)
            if what == "mpc" and done < EPISODES[name]:
                controlled(name, done, out)
            elif what == "ilbo" and not done:
                out(trained(name))


def with_error(values: np.ndarray) -> str:
    from ilbo.mdp.numbers import number

    if len(values) == 1:
        return number(float(values[0]))
    return f"{number(values.mean())} ± {number(values.std(ddof=1) / len(values) ** 0.5)}"


def table(path: Path) -> str:
    from ilbo.experiments.study import markdown_table

    rows, lines = [], read(path)
    for name in EPISODES:
        theirs = [x for x in lines if (x["problem"], x["what"]) == (name, "mpc")]
        ours = [x for x in lines if (x["problem"], x["what"]) == (name, "ilbo")]
        if not theirs:
            continue
        theirs = sorted(theirs, key=lambda x: x["first"])
        they = np.array([r for x in theirs for r in x["returns"]])
        slow = f"{np.mean([x['milliseconds'] for x in theirs]):.1f}"
        we, ahead, quick, long = ("–",) * 4
        if ours:
            returns = np.array(ours[0]["returns"])[: len(they)]
            we, ahead = with_error(returns), with_error(they - returns)
            quick, long = f"{ours[0]['milliseconds']:.3f}", f"{ours[0]['seconds']:.0f}"
        rows.append((name, len(they), with_error(they), we, ahead, slow, quick, long))
    columns = ("problem", "episodes", "MPC earns", "ILBO earns", "MPC is ahead by")
    columns += ("MPC, ms of a core a decision", "ILBO, the same", "ILBO, s of training")
    return markdown_table(columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("mpc.jsonl"))
    parser.add_argument("--only", nargs="+", default=list(EPISODES), help="the problems")
    parser.add_argument("--what", nargs="+", default=["ilbo", "mpc"], choices=("mpc", "ilbo"))
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    if not options.table:
        run(options.out, options.only, options.what)
    print(table(options.out))


if __name__ == "__main__":
    main()
