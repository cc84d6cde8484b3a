"""Beyond the mean: what policies trained for risk, for uncertain models and under limits earn.

    python benchmarks/beyond.py --out beyond.jsonl            # everything
    python benchmarks/beyond.py --out beyond.jsonl --table    # print what is there
    python benchmarks/beyond.py --out beyond.jsonl --only limits:energy --seeds 10

Each objective on each problem is trained with several seeds, and every final policy is evaluated on
the same fresh episodes. Risk: each against the policy trained for the mean with the same seed,
paired. Uncertain models: each under several values of the parameter, on equal noise. Limits: beside
policies that are charged a penalty for what is limited, at ten sizes. A line of the output file is
one policy; what is there is not run again.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from pathlib import Path
from typing import Any

RISK = {  # problem: (episodes, objectives)
    "reservoir-20": (500, ("mean", "cvar:0.1", "entropic:0.004", "mean-std:1")),
    "battery": (300, ("mean", "cvar:0.1", "entropic:0.005", "mean-std:1")),
}
ROBUST = {  # problem: (episodes, parameter, values tried); plain is trained at the usual value
    "battery": (300, "loss", (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)),
}
LIMITS: dict[str, tuple[str, int, str, float | None, dict[str, Any]]] = {
    # name: (problem, episodes, limit; with a share, of what the free policy spends; settings)
    "flood": ("reservoir-20", 500, "P(above > 0) <= 0.05", None, {}),
    "freeboard": ("reservoir-20", 500, "P(above > -40) <= 0.05", None, {}),
    # A policy that does not see the time cannot stop heating before the end.
    "energy": ("hvac-6", 500, "E(energy) <= {}", 0.8, {"policy": "time-left"}),
}
PENALTIES = {  # on what is limited: ten sizes, each three times the last
    "flood": [0.1 * 3.0**i for i in range(10)],
    "freeboard": [0.1 * 3.0**i for i in range(10)],
    "energy": [3.0**i for i in range(10)],
}
LIMIT_EPISODES = 2048
HELD, LAST = 20.25, 3  # of the rule by hand: degrees, and steps without heat at the end
EPISODES = 4096
KINDS = ("plain", "mean", "cvar:0.1", "worst")


@functools.cache  # a model read anew would be compiled anew
def named(name: str) -> Any:
    import ilbo

    if name == "battery":
        file = Path(__file__).parents[1] / "examples" / "battery.py"
        return ilbo.make(f"{file}:problem")
    return ilbo.make(name)


def uncertain(name: str, parameter: str, values: tuple[float, ...]) -> Any:
    import ilbo

    problem = named(name)
    return problem.with_uncertain({parameter: ilbo.Uniform(values[0], values[-1])})


def risk(name: str, seeds: list[int], out: Path) -> None:
    """Policies for each objective, and how they differ from those for the mean."""
    import numpy as np

    from ilbo.mdp.evaluate import paired
    from ilbo.mdp.objective import objective_of

    episodes, objectives = RISK[name]
    for objective in objectives:
        todo = missing(out, "risk", name, objective, seeds)
        untrained = [seed for seed in todo if not returns_file(out, name, objective, seed).exists()]
        for seed in untrained:
            plan, took = trained(named(name), objective, episodes, [seed])
            keep(out, name, objective, plan, took)
        for seed in todo:
            earned, plain = (
                np.load(returns_file(out, name, goal, seed)) for goal in (objective, "mean")
            )
            line = {
                **head("risk", name, objective, seed, episodes),
                "mean": float(earned.mean()),
                "std": float(earned.std(ddof=1)),
                "value": float(objective_of(objective).value(earned)),
                "cvar10": float(objective_of("cvar:0.1").value(earned)),
            }
            for what in dict.fromkeys((objective, "mean", "cvar:0.1")):
                line[f"gain {what}"] = paired(what, earned, plain)
            write(out, line)


def returns_file(out: Path, name: str, objective: str, seed: int) -> Path:
    """Returns on the fresh episodes, kept to be compared: all objectives have the same noise."""
    return out.parent / f"{out.stem}-returns" / f"{name}-{objective.replace(':', '-')}-{seed}.npy"


def keep(out: Path, name: str, objective: str, plan: Any, took: float) -> None:
    import numpy as np

    from ilbo.runs.results import evaluate_fresh

    for seed, e in zip(
        plan.seeds, evaluate_fresh(plan.problem, plan.policies, EPISODES), strict=True
    ):
        path = returns_file(out, name, objective, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, e.discounted_returns)
        print(f"{name} {objective} seed {seed}: {e.mean:.1f} in {took:.0f} s", file=sys.stderr)


def robust(name: str, seeds: list[int], out: Path) -> None:
    """Returns against the parameter, of policies trained at its usual value and for its range."""
    from ilbo.mdp.bootstrap import bootstrap
    from ilbo.runs.results import evaluate_fresh

    episodes, parameter, values = ROBUST[name]
    problem, plain = named(name), {}
    wide = uncertain(name, parameter, values)
    for kind in KINDS:
        todo = missing(out, "robust", name, kind, seeds)
        if not todo and kind != "plain":
            continue
        known = kind == "plain"
        goal, where = ("mean", problem) if known else (kind, wide)
        plan, _ = trained(where, goal, episodes, seeds if known else todo)
        at = {value: problem.with_parameters({parameter: value}) for value in values}
        found = {v: evaluate_fresh(p, plan.policies, EPISODES) for v, p in at.items()}
        for i, seed in enumerate(plan.seeds):
            earned = {v: found[v][i].discounted_returns for v in values}
            if known:
                plain[seed] = earned
            if seed not in todo:
                continue
            gains = {v: earned[v] - plain[seed][v] for v in values}
            line = {
                **head("robust", name, kind, seed, episodes),
                "parameter": parameter,
                "values": list(values),
                "means": [float(earned[v].mean()) for v in values],
                "gains": [[float(gains[v].mean()), bootstrap(gains[v])] for v in values],
            }
            write(out, line)


def limits(name: str, seeds: list[int], out: Path, penalties: list[float], few: list[int]) -> None:
    """Policies under a limit, beside free ones and those that are charged penalties."""
    problem_name, _, text, share, _ = LIMITS[name]
    problem = named(problem_name)
    charged(name, problem, 0.0, seeds, out)
    if share is not None:
        free = [line for line in read(out) if line["objective"] == "penalty 0"]
        spent = [line["spent"] for line in free if line["problem"] == name]
        text = text.format(f"{share * sum(spent) / len(spent):.1f}")
    limited(name, problem.with_limits([text]), seeds, out)
    if name == "energy" and missing(out, "limits", name, "by hand", [0]):
        line = limit_line(name, problem.with_limits([text]), [holding(problem)])
        write(out, {**head("limits", name, "by hand", 0, 0), **line})
    for penalty in penalties:
        charged(name, problem, penalty, few, out)


def limited(name: str, problem: Any, seeds: list[int], out: Path) -> None:
    for seed in missing(out, "limits", name, "limit", seeds):
        plan, took = trained(problem, "mean", LIMITS[name][1], [seed], **LIMITS[name][4])
        write(out, trained_line(name, "limit", problem, plan, seed, took))


def holding(problem: Any) -> Any:
    """A rule by hand for hvac-6: as warm as need be, and no heat in the last steps."""
    import jax.numpy as jnp

    def act(state: Any, time: Any) -> Any:
        air = problem.model.air_for(HELD, state)
        return jnp.where(time < problem.horizon - LAST, air, 0.0)

    return act


@functools.cache  # a class made anew would be compiled anew
def charged_model() -> Any:
    """A model that is charged a penalty on what is limited: on the cost, or on how far it is above
    its level."""
    import jax.numpy as jnp

    import ilbo

    class Charged(ilbo.Model):
        model: Any
        weight: Any
        limit: Any

        @property
        def law(self) -> Any:
            return self.model.law

        def transition(self, state: Any, action: Any, noise: Any) -> Any:
            return self.model.transition(state, action, noise)

        def reward(self, state: Any, action: Any, next_state: Any) -> Any:
            cost = self.model.costs(state, action, next_state)[self.limit.cost]
            if self.limit.of_chance:
                cost = jnp.maximum(cost - self.limit.at_most, 0.0)
            return self.model.reward(state, action, next_state) - self.weight * cost

        def bounds(self, state: Any) -> Any:
            return self.model.bounds(state)

    return Charged


def charged(name: str, problem: Any, penalty: float, seeds: list[int], out: Path) -> None:
    """Policies that are charged a penalty in the place of a limit."""
    import jax.numpy as jnp

    import ilbo
    from ilbo.mdp.limits import limit_of

    limit = limit_of(LIMITS[name][2].format(0))
    model = charged_model()(problem.model, jnp.asarray(penalty), limit)
    priced = ilbo.Problem(
        model,
        name=f"{problem.name} charged",
        initial_state=problem.initial_state,
        horizon=problem.horizon,
        region=problem.region,
        discount=problem.discount,
        domain=problem.domain,
        state_names=problem.state_names,
        action_names=problem.action_names,
    )
    kind = f"penalty {penalty:g}"
    for seed in missing(out, "limits", name, kind, seeds):
        # As under a limit, all episodes start in the problem's own start.
        settings = {"own_start": 1.0, **LIMITS[name][4]}
        plan, took = trained(priced, "mean", LIMITS[name][1], [seed], **settings)
        write(out, trained_line(name, kind, problem, plan, seed, took))


def trained_line(
    name: str, kind: str, problem: Any, plan: Any, seed: int, took: float
) -> dict[str, Any]:
    return {
        **head("limits", name, kind, seed, LIMITS[name][1]),
        **limit_line(name, problem, plan.policies),
        "unkept": [x for x in plan.unkept if x],
        "seconds": round(took, 1),
    }


def limit_line(name: str, problem: Any, policies: list[Any]) -> dict[str, Any]:
    from ilbo.mdp.limits import limit_of
    from ilbo.runs.results import as_figures, evaluate_fresh

    (e,) = evaluate_fresh(problem, policies, LIMIT_EPISODES)
    text = LIMITS[name][2]
    limit = limit_of(text.format(0))
    (spent,) = (x for x in e.costs if x.cost == limit.cost)
    if not problem.limits and limit.of_chance:
        (e,) = evaluate_fresh(problem.with_limits([text]), policies, LIMIT_EPISODES)
    return {
        "episodes": LIMIT_EPISODES,
        "mean": e.mean,
        "ci95": list(e.ci95),
        "spent": spent.mean,
        "spent_ci95": list(spent.ci95),
        "limit": [as_figures(x) for x in e.limits],
    }


def measured(line: dict[str, Any]) -> tuple[float, float]:
    """What is limited, and the upper end of its interval."""
    if line["limit"]:
        return line["limit"][0]["value"], line["limit"][0]["ci95"][1]
    return line["spent"], line["spent_ci95"][1]


def trained(
    problem: Any, objective: str, episodes: int, seeds: list[int], **settings: Any
) -> tuple[Any, float]:
    import ilbo

    began = time.perf_counter()
    config = ilbo.ILBO(objective=objective, **settings)
    return ilbo.plan(problem, config, seeds=seeds, episodes=episodes), time.perf_counter() - began


def head(part: str, name: str, objective: str, seed: int, episodes: int) -> dict[str, Any]:
    figures = {"part": part, "problem": name, "objective": objective, "seed": seed}
    return {**figures, "training_episodes": episodes, "episodes": EPISODES}


def missing(out: Path, part: str, name: str, objective: str, seeds: list[int]) -> list[int]:
    wanted = (part, name, objective)
    there = {
        line["seed"]
        for line in read(out)
        if (line["part"], line["problem"], line["objective"]) == wanted
    }
    return [seed for seed in seeds if seed not in there]


def read(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def write(out: Path, line: dict[str, Any]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(line, file=sys.stderr, flush=True)


def of_part(path: Path, part: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The lines of a part by problem and by what was trained for, those for the mean first."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in read(path):
        if line["part"] == part:
            groups.setdefault((line["problem"], line["objective"]), []).append(line)
    return dict(sorted(groups.items(), key=lambda item: (item[0][0], _rank(item[0][1]))))


def _rank(objective: str) -> tuple[int, float]:
    kind, _, size = objective.partition(" ")
    order = ("plain", "mean", "by", "limit", "penalty")
    return order.index(kind) if kind in order else len(order), float(
        size
    ) if kind == "penalty" else 0


def risk_table(path: Path) -> str:
    """Means over seeds; in brackets, of how many seeds the paired interval excludes 0."""
    import numpy as np

    from ilbo.experiments.study import markdown_table, mean_and_spread

    def gain(found: list[dict[str, Any]], what: str) -> str:
        each = [line[f"gain {what}"] for line in found]
        sure = sum(low > 0 or high < 0 for _, (low, high) in each)
        return f"{np.mean([mean for mean, _ in each]):+,.1f} ({sure} of {len(each)})"

    rows = []
    for (name, objective), found in of_part(path, "risk").items():
        whats = [] if objective == "mean" else [objective, "cvar:0.1", "mean"]
        figures = (mean_and_spread([x[key] for x in found]) for key in ("mean", "cvar10"))
        gains = [gain(found, what) for what in whats] or [""] * 3
        rows.append([name, objective, str(len(found)), *figures, *gains])
    columns = ["problem", "trained for", "seeds", "mean", "CVaR 0.1", "gain in what it is for"]
    return markdown_table([*columns, "in CVaR 0.1", "in the mean"], rows)


def robust_table(path: Path) -> str:
    """Mean returns under each value of the parameter; in brackets the gain over the plain policy,
    and of how many seeds its interval excludes 0."""
    import numpy as np

    from ilbo.experiments.study import markdown_table

    rows, columns = [], []
    for (name, objective), found in of_part(path, "robust").items():
        columns = [f"{name}: trained for", *map(str, found[0]["values"])]
        means = np.mean([x["means"] for x in found], axis=0)
        gains = np.array([[g[0] for g in x["gains"]] for x in found])
        sure = np.array([[g[1][0] > 0 or g[1][1] < 0 for g in x["gains"]] for x in found])
        cells = [
            f"{m:,.1f}" + ("" if objective == "plain" else f" ({g:+.1f}; {int(s)} of {len(found)})")
            for m, g, s in zip(means, gains.mean(axis=0), sure.sum(axis=0), strict=True)
        ]
        rows.append([objective, *cells])
    return markdown_table(columns, rows)


def limits_table(path: Path) -> str:
    """Free policies, penalties and the limit; of each, in how many seeds the upper end of the
    interval keeps the limit."""
    import numpy as np

    from ilbo.experiments.study import markdown_table

    groups, rows = of_part(path, "limits"), []
    for (name, kind), found in groups.items():
        stated = groups.get((name, "limit"), found)[0]["limit"]
        values, highs = zip(*map(measured, found), strict=True)
        allowed = stated[0]["allowed"] if stated else float("nan")
        kept = sum(high <= allowed for high in highs)
        text = f"{name}: {stated[0]['limit']}" if stated else name
        mean = f"{np.mean([line['mean'] for line in found]):,.1f}"
        figures = [f"{np.mean(values):.4g}", f"{kept} of {len(found)}"]
        rows.append([text, kind, str(len(found)), mean, *figures])
    columns = ["limit", "trained", "seeds", "mean", "what is limited", "kept in"]
    return markdown_table(columns, rows)


TABLES = risk_table, robust_table, limits_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="such as risk:battery")
    parser.add_argument("--penalty-seeds", type=int, help="of each penalty; as many as of the rest")
    parser.add_argument("--penalties", type=int, default=10, help="how many of them")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        print("\n\n".join(make(options.out) for make in TABLES))
        return
    seeds = list(range(options.seeds))
    for part, each, work in (("risk", RISK, risk), ("robust", ROBUST, robust)):
        for name in each:
            if not options.only or f"{part}:{name}" in options.only:
                work(name, seeds, options.out)
    few = seeds if options.penalty_seeds is None else list(range(options.penalty_seeds))
    for name in LIMITS:
        if not options.only or f"limits:{name}" in options.only:
            limits(name, seeds, options.out, PENALTIES[name][: options.penalties], few)


if __name__ == "__main__":
    main()
