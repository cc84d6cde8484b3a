"""Against model-predictive control: CasADi and IPOPT, replanned at every step, on equal noise.

    python benchmarks/mpc.py --out mpc.jsonl            # what is missing, then the table
    python benchmarks/mpc.py --out mpc.jsonl --table    # print the table of what is there

Needs `pip install casadi`. The controller is certainty-equivalent: at each step it takes the noise
to come for its mean and plans the whole rest of the episode by a nonlinear program, started from
the rest of its last plan. The models are written a second time in CasADi; what has no derivative
there is smoothed (within 1e-3, the levels of reservoirs within 1), and HVAC's penalty for leaving
the comfort band is one of as much for each degree. What it earns is counted on the exact model, as
for our policy, which is trained with the default settings, on the same noise.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import ilbo
from ilbo.baselines import earned
from ilbo.baselines.open_loop import evaluation_noise
from ilbo.builtin import hvac as hv
from ilbo.builtin import reservoirs as rs
from ilbo.runs.results import fresh_key
from known import battery, hydro

LEAST_STEPS = 10_000


@dataclass(frozen=True)
class Twin:
    """A model in CasADi: functions of symbols or numbers; `e` is how far kinks are smoothed."""

    problem: ilbo.Problem
    transition: Callable[..., Any]
    """(x, u, w, e) → x'."""
    reward: Callable[..., Any]
    """(x, u, x', time, e) → r."""
    limits: Callable[..., Any]
    """(x, u) → what must not be below 0."""
    noise: np.ndarray
    """The mean of the noise."""
    jumps: Callable[..., Any] | None = None
    """The exact reward, where `reward` replaces a jump."""
    smooth: float = 1e-3
    """How far kinks are smoothed in planning."""


def above(x: Any, e: float) -> Any:
    """max(x, 0)."""
    import casadi as ca

    return ca.fmax(x, 0) if e == 0 else (x + ca.sqrt(x**2 + e**2)) / 2


def least(x: Any, y: Any, e: float) -> Any:
    return x - above(x - y, e)


def navigation() -> Twin:
    import casadi as ca

    problem = problem_of("navigation-3")
    model = problem.model
    centers, decays = np.asarray(model.centers, float), np.asarray(model.decays, float)
    goal, spread = np.asarray(model.goal, float), np.sqrt(np.asarray(model.move_variance, float))

    def norm(x: Any, e: float) -> Any:
        return ca.sqrt(ca.sumsqr(x) + e**2)

    def transition(x: Any, u: Any, w: Any, e: float) -> Any:
        left = 1.0
        for center, decay in zip(centers, decays, strict=True):
            left = left * (2 / (1 + ca.exp(-decay * norm(x - center, e))) - 1)
        return x + left * u + spread * w

    def reward(x: Any, u: Any, moved: Any, time: int, e: float) -> Any:
        return -norm(goal - x, e)

    def limits(x: Any, u: Any) -> Any:
        return ca.vertcat(1 - u, 1 + u)

    return Twin(problem, transition, reward, limits, np.zeros(2))


def hvac() -> Twin:
    import casadi as ca

    problem = problem_of("hvac-6")
    model, n = problem.model, problem.state_size
    adjacent = np.asarray(model.adjacent, float)
    outside, hall = np.asarray(model.outside, float), np.asarray(model.hall, float)

    def transition(x: Any, u: Any, w: Any, e: float) -> Any:
        outer = hv.OUTSIDE_MEAN + hv.OUTSIDE_VARIANCE**0.5 * w[:n]
        inner = hv.HALL_MEAN + hv.HALL_VARIANCE**0.5 * w[n:]
        leak = (adjacent @ x - adjacent.sum(axis=1) * x) / hv.R_WALL
        leak = leak + n * outside * (outer - x) / hv.R_OUTSIDE + n * hall * (inner - x) / hv.R_HALL
        return x + hv.TIME_DELTA / hv.CAP * (u * hv.CAP_AIR * (hv.TEMP_AIR - x) + leak)

    def cost(x: Any, u: Any, e: float) -> Any:
        return u * hv.COST_AIR + 10 * ca.sqrt((hv.TEMP_MIDDLE - x) ** 2 + e**2)

    def reward(x: Any, u: Any, moved: Any, time: int, e: float) -> Any:
        away = above(hv.TEMP_LOW - x, e) + above(x - hv.TEMP_UP, e)
        return -ca.sum1(cost(x, u, e) + hv.PENALTY * away)

    def exact(x: Any, u: Any, moved: Any, time: int, e: float) -> Any:
        away = ca.logic_or(x < hv.TEMP_LOW, x > hv.TEMP_UP)
        return -ca.sum1(cost(x, u, 0.0) + hv.PENALTY * away)

    def limits(x: Any, u: Any) -> Any:
        return ca.vertcat(u, hv.AIR_MAX - u)

    return Twin(problem, transition, reward, limits, np.zeros(2 * n), exact)


def reservoir() -> Twin:
    import casadi as ca

    problem = problem_of("reservoir-20")
    model = problem.model
    scale, capacity, lower, upper = (
        np.asarray(x, float) for x in (model.rain_scale, model.capacity, model.lower, model.upper)
    )

    def transition(x: Any, u: Any, w: Any, e: float) -> Any:
        leaving = u + above(x - u - capacity, e)
        evaporated = rs.EVAPORATION * (x / capacity) ** 2 * x
        inflow = ca.vertcat(0, leaving[:-1])
        return above(x + scale * w - evaporated - leaving + inflow, e)

    def reward(x: Any, u: Any, moved: Any, time: int, e: float) -> Any:
        below, over = above(lower - moved, e), above(moved - upper, e)
        return ca.sum1(rs.LOW_PENALTY * below + rs.HIGH_PENALTY * over)

    def limits(x: Any, u: Any) -> Any:
        return ca.vertcat(u, x - u)

    mean = np.asarray(model.law.shape, float)
    # Levels are hundreds. IPOPT runs out of iterations where kinks are as sharp as elsewhere.
    return Twin(problem, transition, reward, limits, mean, smooth=1.0)


def the_battery() -> Twin:
    import casadi as ca

    def transition(x: Any, u: Any, w: Any, e: float) -> Any:
        kept = battery.KEPT
        return ca.vertcat(x[0] - (kept * u[0] + (1 - kept) * above(u[0], e)), x[1] + 1)

    def reward(x: Any, u: Any, moved: Any, time: int, e: float) -> Any:
        return float(battery.PRICES[time]) * u[0]

    def limits(x: Any, u: Any) -> Any:
        room = (battery.CAPACITY - x[0]) / battery.KEPT
        return ca.vertcat(battery.POWER - u[0], battery.POWER + u[0], u[0] + room, x[0] - u[0])

    return Twin(problem_of("battery"), transition, reward, limits, np.zeros(0))


def valley() -> Twin:
    import casadi as ca

    problem = problem_of("hydro-inflows-prices")
    slopes = np.diff(hydro.POWER) / np.diff(hydro.FLOW)
    lines = [(s, p - s * f) for s, p, f in zip(slopes, hydro.POWER, hydro.FLOW, strict=False)]

    def power(flow: Any, e: float) -> Any:
        found = [slope * flow + level for slope, level in lines]
        return least(least(found[0], found[1], e), found[2], e)

    def transition(x: Any, u: Any, w: Any, e: float) -> Any:
        upper = least(x[0] - u[0] + x[2], hydro.FULL, e)
        lower = least(x[1] - u[1] + u[0] + x[3], hydro.FULL, e)
        return ca.vertcat(upper, lower, w[0], w[1], w[2], x[5] + 1)

    def reward(x: Any, u: Any, moved: Any, time: int, e: float) -> Any:
        one, other = hydro.PRICES[time].tolist()
        spilled = above(x[1] - u[1] + u[0] - hydro.FULL, e)
        price = one + x[4] * (other - one)
        return price * (power(u[0], e) + power(u[1], e)) - hydro.SPILLING * spilled

    def limits(x: Any, u: Any) -> Any:
        most = hydro.FLOW[-1]
        return ca.vertcat(u, most - u, x[0] + x[2] - u[0], x[1] + x[3] + u[0] - u[1])

    return Twin(problem, transition, reward, limits, np.append(hydro.INFLOWS.mean(axis=0), 0.0))


TWINS: dict[str, tuple[Callable[[], Twin], int]] = {
    # name: (model, noise sequences that the controller is judged on)
    "battery": (the_battery, 1),
    "hydro-inflows-prices": (valley, 256),
    "navigation-3": (navigation, 256),
    "hvac-6": (hvac, 64),
    "reservoir-20": (reservoir, 64),
}
OF_THE_SUITE = {
    "battery": battery.battery,
    "hydro-inflows-prices": lambda: hydro.hydro(rains=True, trades=True),
}
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


def problem_of(name: str) -> ilbo.Problem:
    return OF_THE_SUITE[name]().problem if name in OF_THE_SUITE else ilbo.make(name)


def noise_of(name: str, problem: ilbo.Problem) -> np.ndarray:
    count = DRAWN if TWINS[name][1] > 1 else 1
    return np.asarray(evaluation_noise(problem, fresh_key(), count))


def controlled(name: str, first: int, out: Callable[[dict[str, Any]], None]) -> None:
    """What the controller earns from the noise sequence `first` on, and the time of its decisions,
    programs built beforehand."""
    import jax
    import jax.numpy as jnp

    make, episodes = TWINS[name]
    twin = make()
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
    episodes, problem = TWINS[name][1], problem_of(name)
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
            if what == "mpc" and done < TWINS[name][1]:
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
    for name in TWINS:
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
    parser.add_argument("--only", nargs="+", default=list(TWINS), help="the problems")
    parser.add_argument("--what", nargs="+", default=["ilbo", "mpc"], choices=("mpc", "ilbo"))
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    if not options.table:
        run(options.out, options.only, options.what)
    print(table(options.out))


if __name__ == "__main__":
    main()
