"""What policies earn under other values of the parameters that a problem is uncertain about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ilbo.mdp.numbers import number
from ilbo.mdp.problem import Problem
from ilbo.plots.outcome import draw_against
from ilbo.report import parts
from ilbo.report.entry import Entry
from ilbo.runs.results import evaluate_fresh

POINTS = 9
EPISODES = 512
MOST = 4
"""Parameters that are shown."""


def against_parameters(entries: Sequence[Entry], prefix: str) -> str:
    """A card for each uncertain parameter of one number; nothing where there is none."""
    entries = [entry for entry in entries if entry.problem is not None and entry.policies]
    wide = [entry.problem for entry in entries if entry.problem and entry.problem.uncertain]
    if not wide or wide[0] is None or wide[0].uncertain is None:
        return ""
    uncertain = wide[0].uncertain
    alone = [
        name for name, law in zip(uncertain.names, uncertain.laws, strict=True) if law.size == 1
    ]
    cards = [_card(entries, wide[0], name, f"{prefix}u{i}") for i, name in enumerate(alone[:MOST])]
    return "".join(cards)


def _card(entries: Sequence[Entry], problem: Problem, name: str, prefix: str) -> str:
    uncertain = problem.uncertain
    assert uncertain is not None
    place = uncertain.labels.index(name)
    values = np.linspace(float(uncertain.low[place]), float(uncertain.high[place]), POINTS)
    means = {
        entry.name: [_mean(entry, problem, name, value) for value in values] for entry in entries
    }
    rows = [
        [number(value), *(number(each[i]) for each in means.values())]
        for i, value in enumerate(values.tolist())
    ]
    caption = (
        f"Mean return of {EPISODES} episodes, the same for all, with {name} set to the value; the "
        "mean of a run's seeds."
    )
    picture = parts.picture(
        draw_against(values, means, name), prefix, f"Returns by {name}", caption
    )
    table = parts.table([name, *means], rows, numeric=tuple(range(1, len(means) + 1)))
    return parts.card(f"Return against {parts.text(name)}", picture + table)


def _mean(entry: Entry, problem: Problem, name: str, value: float) -> float:
    at = problem.with_parameters({name: value})
    return float(np.mean([e.mean for e in evaluate_fresh(at, entry.policies, EPISODES)]))
