"""What the page says about one run."""

from __future__ import annotations

import numpy as np

from ilbo import plots
from ilbo.mdp.numbers import interval, number
from ilbo.mdp.ranking import too_low
from ilbo.mdp.simulate import simulate
from ilbo.mdp.yardstick import WORDS, Yardstick
from ilbo.planning.records import Samples
from ilbo.plots.outcome import draw_outcome
from ilbo.plots.pictures import PICTURE_SEED
from ilbo.report import parts
from ilbo.report.entry import Entry
from ilbo.report.parameters import against_parameters
from ilbo.runs import settings
from ilbo.runs.saved import SavedRun


def section(entry: Entry, place: int, several: bool) -> str:
    run = entry.run
    pieces = []
    if several:
        pieces.append(f"<h2>{parts.text(entry.name)}</h2>")
    if run.result is None:
        pieces.append(
            parts.warning(
                "This run has not finished. Go on with it by "
                f"<code>ilbo plan --resume {parts.text(run.on_command_line)}</code>."
            )
        )
    pieces.append(_tiles(entry))
    if entry.yardsticks:
        pieces.append(parts.card("Against simple policies", _yardsticks(entry)))
    if any(evaluation.broken for evaluation in entry.evaluations):
        pieces.append(parts.card("Constraints broken", _broken(entry)))
    if any(evaluation.limits for evaluation in entry.evaluations):
        pieces.append(parts.card("Limits", _limits(entry)))
    if len(run.seeds) > 1 and entry.evaluations:
        pieces.append(parts.card("Seeds", _seeds(entry)))
    if not several:
        pieces.append(against_parameters([entry], f"p{place}"))
    pieces += _pictures(entry, f"p{place}")
    if (samples := entry.samples) is not None:
        pieces.append(parts.card("What it took", _samples(entry, samples)))
    pieces.append(parts.folded("Settings", _settings(run)))
    pieces.append(parts.folded("Made with", _environment(run)))
    return "\n".join(pieces)


def _tiles(entry: Entry) -> str:
    run, result = entry.run, entry.run.result or {}
    tiles = []
    if entry.evaluations:
        mean = number(entry.returns.mean())
        episodes = f"{entry.evaluations[0].episodes:,} fresh episodes"
        note = f"95 % {interval(*entry.interval)}" if entry.interval else episodes
        tiles.append(("mean return", mean, note))
        seeds = [evaluation.mean for evaluation in entry.evaluations]
        broken = float(np.mean([evaluation.violations for evaluation in entry.evaluations]))
        if len(seeds) > 1:
            spread = number(float(np.std(seeds, ddof=1)))
            tiles.append(("spread of the seeds", f"± {spread}", f"{len(seeds)} seeds"))
        if broken:
            tiles.append(("constraints broken", number(broken), "an episode, in the mean"))
    if "objective_value" in result:
        value = number(result["objective_value"])
        tiles.append(("planned for", value, parts.text(str(result.get("objective")))))
    if "best_mean" in result:
        tiles.append(("best tested policy", number(result["best_mean"]), "mean return"))
    if entry.limit is not None:
        tiles.append(("hindsight limit", number(entry.limit), _of_limit(entry)))
    if entry.bound is not None:
        best, error = number(entry.bound.mean), number(entry.bound.standard_error)
        tiles.append(("best possible", f"≤ {best} ± {error}", entry.bound.distance))
    if entry.episode:
        seconds = result.get("seconds", max(tests[-1].seconds for tests in run.history if tests))
        total = f"of {run.config.episodes:,} episodes"
        tiles.append(("training", f"{entry.episode:,}", total))
        tiles.append(("time", parts.duration(seconds), "compiling included"))
    return parts.tiles(tiles)


def _yardsticks(entry: Entry) -> str:
    """How the policy does against the problem's controller and the best of the simple policies."""
    rows = [
        [
            WORDS[one.policy],
            number(one.mean),
            f"{number(one.difference)} {interval(*one.ci95) if one.ci95 else ''}",
            _verdict(one),
        ]
        for one in entry.yardsticks
    ]
    columns = ["", "its mean return", "the policy minus it, 95 %", "the policy is"]
    return parts.table(columns, rows, numeric=(1, 2)) + parts.remark(
        "Discounted returns on the same fresh trajectories. Of the middle of the bounds, "
        "the action nearest to 0 and random actions, the best is shown."
    )


def _broken(entry: Entry) -> str:
    """Each constraint that the policies broke, how often, and where first."""
    rows = [
        [str(seed), parts.text(broken.sentence)]
        for seed, evaluation in zip(entry.run.seeds, entry.evaluations, strict=False)
        for broken in evaluation.broken
    ]
    return parts.table(["seed", "constraint"], rows)


def _limits(entry: Entry) -> str:
    """How each policy keeps the limits of the problem, and what its episodes cost."""
    pairs = list(zip(entry.run.seeds, entry.evaluations, strict=False))
    kept = [[str(seed), parts.text(one.sentence)] for seed, e in pairs for one in e.limits]
    spent = [
        [str(seed), parts.text(one.cost), f"{number(one.mean)} {interval(*one.ci95)}"]
        for seed, e in pairs
        for one in e.costs
    ]
    return parts.table(["seed", "limit"], kept) + parts.table(
        ["seed", "cost", "in an episode, 95 %"], spent, numeric=(2,)
    )


def _verdict(yardstick: Yardstick) -> str:
    low, high = yardstick.ci95 or (-np.inf, np.inf)
    return "better" if low > 0 else "worse" if high < 0 else "not clearly better or worse"


def _outcome(entry: Entry, prefix: str) -> str:
    """The distribution of returns, and the reward over time."""
    assert entry.problem is not None
    policy, first = entry.policies[0], entry.evaluations[0]
    simulated = simulate(entry.problem, policy, PICTURE_SEED, 64)
    returns = {"the policy": first.discounted_returns}
    returns |= {WORDS[name]: other for name, other in entry.others.items()}
    whose = f" of seed {entry.run.seeds[0]}" if len(entry.run.seeds) > 1 else ""
    tail = ", ".join(f"{q:.0%} {number(x)}" for q, x in first.quantiles().items())
    figure = draw_outcome(returns, np.asarray(simulated.rewards), title="")
    caption = (
        f"Returns of {first.episodes:,} fresh episodes of the final policy{whose}: quantiles "
        f"{tail}; the worst tenth earns {number(first.cvar(0.1))} in the mean. Rewards of 64 "
        "episodes: median, half of them, nine in ten."
    )
    return parts.card("What it earns", parts.picture(figure, f"{prefix}o", "Returns", caption))


def _of_limit(entry: Entry) -> str:
    """What the limit is; a limit that a policy passes is an error, and said to be one."""
    assert entry.limit is not None
    if too_low(entry.limit, (float(returns.mean()) for returns in entry.each)):
        return "too low: a policy earns more, so it has not converged"
    return "perfect information"


def _seeds(entry: Entry) -> str:
    best = (entry.run.result or {}).get("best_means")
    rows = [
        [
            str(seed),
            number(evaluation.mean),
            interval(*evaluation.ci95),
            number(evaluation.std),
            *([number(best[i])] if best else []),
        ]
        for i, (seed, evaluation) in enumerate(zip(entry.run.seeds, entry.evaluations, strict=True))
    ]
    columns = ["seed", "mean return", "95 % interval", "std of an episode"]
    return parts.table([*columns, *(["best tested"] if best else [])], rows, numeric=(1, 2, 3, 4))


def _pictures(entry: Entry, prefix: str) -> list[str]:
    run = entry.run
    if not any(run.history):
        return [parts.warning("There is no test in this run yet, so there is nothing to draw.")]
    name = run.description["name"]
    pieces = [
        parts.card(
            "Learning curve",
            parts.picture(
                plots.draw_learning_curve(run.history, entry.limit, title=""),
                f"{prefix}c",
                f"Learning curve on {name}",
                f"{_tested(run)} of {run.config.test_episodes} test episodes, the same at every "
                "test.",
            ),
        )
    ]
    if entry.problem is not None:
        pieces.append(_outcome(entry, prefix))
        whose = f" of seed {run.seeds[0]}" if len(run.seeds) > 1 else ""
        pieces.append(
            parts.card(
                "What the policy does",
                parts.picture(
                    plots.draw_trajectories(entry.problem, entry.policies[0], title=""),
                    f"{prefix}t",
                    f"Trajectories on {name}",
                    f"64 episodes of the final policy{whose} from the problem's own start.",
                ),
            )
        )
    else:
        pieces.append(
            parts.warning(
                "The problem is a model of your own, so its trajectories are drawn where it is "
                "named: <code>ilbo report --problem FILE.py:NAME</code>, or in Python "
                "<code>ilbo.Run(..., problem=...).report()</code>."
            )
        )
    pieces.append(
        parts.folded(
            "Training from the inside",
            parts.picture(
                plots.draw_metrics(run.history, title=""),
                f"{prefix}m",
                f"Metrics of training on {name}",
                "Means over the training between two tests.",
            ),
        )
    )
    return pieces


def _tested(run: SavedRun) -> str:
    """What is shown of the tests: what was planned for."""
    goal = str(run.config.objective)
    return "Mean return" if goal == "mean" else f"The objective {goal} of the returns"


def _samples(entry: Entry, samples: Samples) -> str:
    rows = [
        ("episodes", samples.episodes),
        ("transitions: steps of training episodes", samples.transitions),
        ("further model evaluations", samples.model_evaluations),
        ("random draws", samples.random_draws),
        ("gradient steps, policy and critic together", samples.gradient_steps),
        ("steps of test episodes, which training does not see", samples.test_transitions),
    ]
    each = "each seed" if len(entry.run.seeds) > 1 else ""
    return parts.table(["", each], [[name, f"{count:,}"] for name, count in rows], numeric=(1,))


def _settings(run: SavedRun) -> str:
    default = settings.usual(run.config)
    own = run.config.settled().to_dict()
    rows = [
        [f"<code>{name}</code>", parts.setting(value), parts.setting(default.get(name))]
        for name, value in own.items()
    ]
    changed = [own[name] != default.get(name) for name in own]
    note = "Marked: other than the default." if any(changed) else "All as by default."
    return parts.table(["setting", "this run", "default"], rows, marked=changed) + parts.remark(
        note
    )


def _environment(run: SavedRun) -> str:
    meta = run.meta
    packages = ", ".join(f"{name} {version}" for name, version in meta.get("packages", {}).items())
    rows: list[tuple[str, object]] = [
        ("folder", str(run.path)),
        ("started", meta.get("created")),
        ("ilbo", f"{meta.get('ilbo')}, commit {meta.get('commit') or 'unknown'}"),
        ("Python", meta.get("python")),
        ("packages", packages),
        ("platform", meta.get("platform")),
        ("device", meta.get("device")),
        ("command", " ".join(map(str, meta.get("command") or []))),
    ]
    return parts.table(["", ""], [[name, parts.text(value or "")] for name, value in rows])
