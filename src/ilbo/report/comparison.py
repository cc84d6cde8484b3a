"""The tables that compare runs of the same problem."""

from __future__ import annotations

from collections.abc import Sequence

from ilbo.mdp.numbers import interval, number
from ilbo.mdp.ranking import rank
from ilbo.plots.outcome import draw_curves
from ilbo.registry.identity import same
from ilbo.report import parts
from ilbo.report.entry import Entry
from ilbo.report.parameters import against_parameters

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
    pieces = [
        _group(group) + against_parameters(group, f"k{i}") + _curves(group, i) + _changes(group)
        for i, group in enumerate(groups)
    ]
    return "<h2>Comparison</h2>" + "".join(pieces)


def _curves(entries: list[Entry], place: int) -> str:
    """All runs of a problem in one picture."""
    histories = {entry.name: entry.run.history for entry in entries if any(entry.run.history)}
    if len(histories) < 2:
        return ""
    caption = "Mean return of the test episodes, the same for all runs; the mean of a run's seeds."
    picture = parts.picture(draw_curves(histories), f"k{place}", "Learning curves", caption)
    return parts.card("Learning curves", picture)


def _changes(entries: list[Entry]) -> str:
    """The settings in which the runs of a problem differ."""
    if len(entries) < 2:
        return ""
    settings = [entry.run.config.to_dict() for entry in entries]
    names = dict.fromkeys(name for values in settings for name in values)
    rows = [
        [f"<code>{name}</code>", *(parts.setting(values.get(name)) for values in settings)]
        for name in names
        if any(values.get(name) != settings[0].get(name) for values in settings)
    ]
    if not rows:
        return parts.card("Settings", parts.remark("All runs have the same settings."))
    columns = ["setting", *(entry.name for entry in entries)]
    return parts.card("Settings that differ", parts.table(columns, rows))


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
