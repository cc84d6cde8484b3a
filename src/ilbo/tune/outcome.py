"""What came of a study: the best settings against those without tuning, on fresh seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ilbo.mdp.numbers import number, precise, precise_interval
from ilbo.mdp.ranking import rank
from ilbo.plots.canvas import BLUE, GRID, MUTED, dress, new_figure
from ilbo.report import parts
from ilbo.report.page import fill
from ilbo.tune.places import Here, Place
from ilbo.tune.space import Range
from ilbo.tune.trials import Trials, counted, no_experiments

FRESH_SEED = 10_000
"""The first of the seeds, which no trial sees, that both are trained with in the end."""
ENOUGH = 10
"""Trials from which on it is said which settings matter."""


def check(
    trials: Trials, chosen: Mapping[str, Any], seeds: int, place: Place | None = None
) -> dict[str, Any]:
    """Both settings trained anew and evaluated on fresh episodes, the same for both."""
    fresh = range(FRESH_SEED, FRESH_SEED + seeds)
    configs = {"tuned": trials.settings(chosen), "untuned": trials.base}
    returns = (place or Here()).earned(trials, configs, fresh)
    ranking = rank(returns)
    places = {place.label: place for place in ranking.places}
    ahead = float(places["tuned"].mean - places["untuned"].mean)
    behind = ranking.places[1]
    low, high = behind.behind_ci95
    ci95 = (low, high) if behind.label == "untuned" else (-high, -low)
    return {
        "fresh_seeds": list(fresh),
        "tuned_mean": places["tuned"].mean,
        "untuned_mean": places["untuned"].mean,
        "difference": ahead,
        "ci95": list(ci95),
        "handed_out": "tuned" if ahead > 0 else "untuned",
    }


def sentence(result: Mapping[str, Any]) -> str:
    """The honest line."""
    if "difference" not in result:
        return "No trial was better than the settings without tuning: those are handed out."
    low, high = result["ci95"]
    verdict = (
        "the tuned settings are better."
        if low > 0
        else "the settings without tuning are better."
        if high < 0
        else "the difference may be chance."
    )
    if result["handed_out"] == "untuned":
        verdict += " Those without tuning are handed out."
    return (
        f"On {len(result['fresh_seeds'])} fresh seeds the tuned settings earn "
        f"{precise(result['tuned_mean'])}, those without tuning {precise(result['untuned_mean'])}: "
        f"difference {precise(result['difference'])}, 95 % {precise_interval(low, high)}; {verdict}"
    )


def page(study: Any, trials: Trials, result: Mapping[str, Any]) -> str:
    """The page of a study: importances, parallel coordinates, all trials."""
    every = counted(study)
    complete = [trial for trial in every if _is_complete(trial)]
    body = [parts.card("What came of it", f"<p>{parts.text(sentence(result))}</p>")]
    if len(complete) >= ENOUGH and (importances := _importances(study)):
        caption = "Share of the differences between trials that a setting explains (PED-ANOVA)."
        body.append(_card("Which settings matter", _bars(importances), "i", caption))
    if len(complete) > 1:
        caption = "A line is a trial, the darker the more it earns. Trials given up are left out."
        figure = _parallel(complete, trials.space)
        body.append(_card("Trials", figure, "p", caption))
    names = list(trials.space)
    rows = [
        [
            str(trial.number),
            number(trial.value) if _is_complete(trial) else "given up",
            *(parts.setting(_rounded(trial.params.get(name))) for name in names),
        ]
        for trial in sorted(every, key=lambda t: (not _is_complete(t), -(t.value or 0.0)))
    ]
    table = parts.table(["trial", "mean return", *names], rows, numeric=range(len(names) + 2))
    body.append(parts.card("All trials", table))
    subtitle = f"{len(every)} trials, {len(every) - len(complete)} of them given up early"
    return fill(f"Tuning: {trials.problem.name}", subtitle, "\n".join(body))


def _is_complete(trial: Any) -> bool:
    """Whether it was judged, and not given up: then its value is that of its last test."""
    return trial.state.name == "COMPLETE"


def _card(title: str, figure: Any, prefix: str, caption: str) -> str:
    return parts.card(title, parts.picture(figure, prefix, title, caption))


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _importances(study: Any) -> dict[str, float]:
    import optuna

    with no_experiments():
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    try:
        return optuna.importance.get_param_importances(study, evaluator=evaluator)
    except (ValueError, RuntimeError):  # such as where all trials are alike
        return {}


def _bars(importances: Mapping[str, float]) -> Any:
    figure = new_figure(7.0, 0.6 + 0.35 * len(importances))
    ax = figure.subplots()
    dress(ax, "", "importance")
    names = list(importances)[::-1]
    ax.barh(names, [importances[name] for name in names], color=BLUE, height=0.6)
    return figure


def _parallel(complete: list[Any], space: Mapping[str, Range]) -> Any:
    """One axis for each setting, from its lowest to its highest value, and one for the return."""
    figure = new_figure(8.4, 3.8)
    ax = figure.subplots()
    values = np.array([trial.value for trial in complete])
    span = float(values.max() - values.min()) or 1.0
    places = (values - values.min()) / span
    names = list(space)
    columns = [[_place(space[name], trial.params[name]) for trial in complete] for name in names]
    lines = np.array([*columns, list(places)]).T
    for rank_of, i in enumerate(np.argsort(places), start=1):
        good = rank_of / len(places)
        color = BLUE if good > 0.5 else MUTED
        ax.plot(range(len(names) + 1), lines[i], color=color, alpha=0.15 + 0.8 * good**2, lw=1.3)
    for x in range(len(names) + 1):
        ax.axvline(x, color=GRID, lw=1, zorder=0)
    ends = [(_end(space[name], 0), _end(space[name], -1)) for name in names]
    ends.append((f"{values.min():,.4g}", f"{values.max():,.4g}"))
    labels = [f"{low}\n{name}" for name, (low, _) in zip([*names, "return"], ends, strict=True)]
    ax.set_xticks(range(len(labels)), labels, fontsize=8, color=MUTED)
    for x, (_, high) in enumerate(ends):
        ax.text(x, 1.04, high, ha="center", fontsize=8, color=MUTED)
    ax.set_yticks([])
    for side in ("top", "right", "left", "bottom"):
        ax.spines[side].set_visible(False)
    ax.tick_params(length=0)
    ax.set_facecolor("none")
    return figure


def _place(setting: Range, value: Any) -> float:
    """Where a value lies in its range, from 0 to 1."""
    if setting.choices:
        return setting.texts.index(value) / max(1, len(setting.texts) - 1)
    curve = np.log if setting.log else float
    low, high, at = curve(setting.low), curve(setting.high), curve(value)
    return float((at - low) / (high - low))


def _end(setting: Range, end: int) -> str:
    if setting.choices:
        return parts.setting(setting.choices[end])
    return f"{(setting.low, setting.high)[end]:.3g}"
