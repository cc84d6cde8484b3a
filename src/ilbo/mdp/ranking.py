"""Which of several policies is better, judged on equal noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ilbo.mdp.bootstrap import interval, resample
from ilbo.mdp.numbers import precise, precise_interval


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


def rank(returns: Mapping[str, Sequence[Float[np.ndarray, " episodes"]]]) -> Ranking:
    """Ranks contenders by their mean return.

    Args:
        returns: For each contender one array [episodes] a training seed; episode i has the same
            noise for all, so differences are paired.

    Intervals are 95 % bootstrap intervals; of several seeds, seeds are resampled as well as
    episodes, since another training would give other policies.
    """
    tables = {label: np.stack(rows) for label, rows in returns.items()}
    order = sorted(tables, key=lambda label: -tables[label].mean())
    resampled = _resample(tables)
    first = order[0]
    places = [
        Place(
            label=label,
            seeds=len(tables[label]),
            mean=float(tables[label].mean()),
            ci95=interval(resampled[label]),
            behind=float(tables[first].mean() - tables[label].mean()),
            behind_ci95=interval(resampled[first] - resampled[label]),
        )
        for label in order
    ]
    same = np.array_equal(tables[first], tables[order[1]])
    return Ranking(places, _verdict(places, same))


def _resample(
    tables: Mapping[str, Float[np.ndarray, "_ episodes"]],
) -> dict[str, Float[np.ndarray, " resamples"]]:
    """Bootstrap means [resamples] of each table, with the same episodes drawn for all."""

    def means(episodes: np.ndarray, *seeds: np.ndarray) -> np.ndarray:
        every = zip(tables.values(), seeds, strict=True)
        return np.stack([np.sum((episodes @ table.T) * w, axis=1) for table, w in every], axis=1)

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
