"""The tables that compare runs of the same problem."""

from __future__ import annotations

from collections.abc import Sequence

from ilbo.mdp.numbers import interval, number
from ilbo.mdp.ranking import rank
from ilbo.registry.identity import same
from ilbo.report import parts
from ilbo.report.entry import Entry

COLUMNS = ("run", "seeds", "episodes", "mean return", "95 % interval", "behind the first")


def comparison(entries: Sequence[Entry]) -> str:
    groups: list[list[Entry]] = []
    for entry in entries:
        for group in groups:
            if same(entry.run.description, group[0].run.description):
                group.append(entry)
                break
        else:
            groups.append([entry])
    return "<h2>Comparison</h2>" + "".join(map(_group, groups))


def _group(entries: list[Entry]) -> str:
    """The runs of one problem, best first."""
    name = parts.text(entries[0].run.description["name"])
    evaluated = {entry.name: entry for entry in entries if entry.evaluations}
    rows = [
        [parts.text(entry.name), str(len(entry.run.seeds)), "", "not evaluated", "", ""]
        for entry in entries
        if not entry.evaluations
    ]
    if len(evaluated) < 2:
        alone = [
            [
                parts.text(entry.name),
                str(len(entry.run.seeds)),
                f"{entry.episode:,}",
                number(entry.returns.mean()),
                interval(*entry.interval) if entry.interval else "",
                "",
            ]
            for entry in evaluated.values()
        ]
        return parts.card(name, parts.table(COLUMNS, [*alone, *rows], numeric=(1, 2, 3, 4, 5)))
    ranking = rank({label: entry.each for label, entry in evaluated.items()})
    ranked = [
        [
            parts.text(place.label),
            str(place.seeds),
            f"{evaluated[place.label].episode:,}",
            number(place.mean),
            interval(*place.ci95),
            f"{number(place.behind)} {interval(*place.behind_ci95)}"
            if place is not ranking.places[0]
            else '<span class="best">first</span>',
        ]
        for place in ranking.places
    ]
    episodes = len(next(iter(evaluated.values())).returns)
    return parts.card(
        name,
        f"<p>{parts.text(ranking.verdict)}</p>"
        + parts.table(COLUMNS, [*ranked, *rows], numeric=(1, 2, 3, 4, 5))
        + parts.remark(
            f"Final policies on the same {episodes:,} fresh episodes, so differences are paired; "
            "intervals hold 95 %, over episodes and seeds."
        ),
    )
