"""Which of several policies is better, judged on equal noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ilbo.mdp.bootstrap import drawn, interval, resample
from ilbo.mdp.numbers import precise, precise_interval
from ilbo.mdp.objective import Mean, Objective, objective_of


def too_low(limit: float, returns: Iterable[float]) -> bool:
    """Whether a policy earns more than what is called a limit, both on the same noise.

    The rounding of sums in 32 bits is allowed for.
    """
    return any(earned > limit + 1e-6 * abs(limit) for earned in returns)


@dataclass(frozen=True)
class Place:
    """One contender: the mean over its episodes and training seeds."""

    label: str
    seeds: int
    mean: float
    ci95: tuple[float, float]
    behind: float
    """How far its mean is below that of the first."""
    behind_ci95: tuple[float, float]


@dataclass(frozen=True)
class Ranking:
    places: list[Place]
    """The best first."""
    verdict: str


def rank(
    returns: Mapping[str, Sequence[Float[np.ndarray, " episodes"]]],
    objective: str | Objective = "mean",
) -> Ranking:
    """Ranks contenders by their mean return, or by another objective of their returns.

    Args:
        returns: For each contender one array [episodes] a training seed; episode i has the same
            noise for all, so differences are paired.
        objective: Such as "cvar:0.1"; of several seeds, the mean of theirs.

    Intervals are 95 % bootstrap intervals; of several seeds, seeds are resampled as well as
    episodes, since another training would give other policies.
    """
    tables = {label: np.stack(rows) for label, rows in returns.items()}
    goal = objective_of(objective)
    values = {
        label: float(np.mean([goal.value(row) for row in table])) for label, table in tables.items()
    }
    order = sorted(tables, key=lambda label: -values[label])
    resampled = _resample(tables, goal)
    first = order[0]
    places = [
        Place(
            label=label,
            seeds=len(tables[label]),
            mean=values[label],
            ci95=interval(resampled[label]),
            behind=values[first] - values[label],
            behind_ci95=interval(resampled[first] - resampled[label]),
        )
        for label in order
    ]
    same = np.array_equal(tables[first], tables[order[1]])
    return Ranking(places, _verdict(places, same))


def _resample(
    tables: Mapping[str, Float[np.ndarray, "_ episodes"]], goal: Objective
) -> dict[str, Float[np.ndarray, " resamples"]]:
    """Bootstrap objectives [resamples] of each table, with the same episodes drawn for all."""

    def means(episodes: np.ndarray, *seeds: np.ndarray) -> np.ndarray:
        every = zip(tables.values(), seeds, strict=True)
        found = [(values(episodes, table), w) for table, w in every]
        return np.stack([np.sum(value * w, axis=1) for value, w in found], axis=1)

    def values(weights: np.ndarray, table: np.ndarray) -> np.ndarray:
        """[resamples, seeds]"""
        if isinstance(goal, Mean):
            return weights @ table.T
        return np.array([[goal.value(one[row]) for one in table] for row in drawn(weights)])

    episodes = next(iter(tables.values())).shape[1]
    columns = resample(means, episodes, *map(len, tables.values())).T
    return dict(zip(tables, columns, strict=True))


def _verdict(places: list[Place], same: bool) -> str:
    first, second = places[:2]
    lead = f"{precise(second.behind)} (95 % {precise_interval(*second.behind_ci95)})"
    among = "" if len(places) == 2 else f", the best of {len(places)},"
    if same:
        return f"{first.label} and {second.label} earn exactly the same in every episode."
    if second.behind_ci95[0] > 0:
        return f"{first.label}{among} is better than {second.label} by {lead}."
    return (
        f"No clear winner: {first.label} leads {second.label} by {lead}, "
        "which may be chance; more episodes or seeds would tell."
    )
