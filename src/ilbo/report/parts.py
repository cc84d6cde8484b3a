"""Pieces of the report's page: tables, cards, pictures as inline SVG."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ilbo.plots.canvas import BLUE, GREEN, GRID, INK, MUTED, PAPER, RED, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THEMED = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    PAPER: "var(--card)",
    BLUE: "var(--blue)",
    GREEN: "var(--green)",
    RED: "var(--red)",
}
"""Colours of a picture that follow the page from light to dark."""


def text(value: Any) -> str:
    """The value as text that HTML shows as it is."""
    return html.escape(str(value).encode(errors="backslashreplace").decode())


def duration(seconds: float) -> str:
    """12 s, 3 min 5 s, 2 h 4 min."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def setting(value: Any) -> str:
    if isinstance(value, tuple | list):
        return text(", ".join(map(str, value)))
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return text(value if isinstance(value, str) else f"{value:,}")


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    numeric: Sequence[int] = (),
    marked: Sequence[bool] | None = None,
) -> str:
    """A table; cells are HTML. Columns in `numeric` are aligned to the right."""

    def cell(tag: str, at: int, content: str) -> str:
        kind = ' class="number"' if at in numeric else ""
        return f"<{tag}{kind}>{content}</{tag}>"

    head = ""
    if any(columns):
        head = f"<tr>{''.join(cell('th', i, text(c)) for i, c in enumerate(columns))}</tr>"
    lines = []
    for place, row in enumerate(rows):
        kind = ' class="changed"' if marked and marked[place] else ""
        cells = "".join(cell("td", i, content) for i, content in enumerate(row))
        lines.append(f"<tr{kind}>{cells}</tr>")
    return f'<div class="scroll"><table>{head}{"".join(lines)}</table></div>'


def tiles(items: Iterable[tuple[str, str, str]]) -> str:
    """Figures that stand out: name, value, note."""
    return (
        '<div class="tiles">'
        + "".join(
            f'<div class="card"><div class="tile-name">{text(name)}</div>'
            f'<div class="tile-value">{text(value)}</div>'
            f'<div class="tile-note">{text(note)}</div></div>'
            for name, value, note in items
        )
        + "</div>"
    )


def card(title: str, content: str) -> str:
    return f'<section class="card"><h3>{title}</h3>{content}</section>'


def folded(title: str, content: str) -> str:
    """A card that opens on a click."""
    return f'<details class="card"><summary>{text(title)}</summary>{content}</details>'


def warning(content: str) -> str:
    return f'<p class="card warning">{content}</p>'


def remark(content: str) -> str:
    return f'<p class="muted">{text(content)}</p>'


def picture(figure: Figure, prefix: str, label: str, caption: str) -> str:
    """The figure as inline SVG: scales with the page and follows its colours.

    Args:
        figure: What to show.
        prefix: Put before the picture's ids, which must be unique within the page.
        label: What a screen reader says.
        caption: The line below.
    """
    buffer = io.BytesIO()
    save(figure, buffer, format="svg")
    svg = buffer.getvalue().decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\b(id="|url\(#|href="#)', rf"\g<1>{prefix}-", svg)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    widest = f"max-width: {110 * figure.get_figwidth():.0f}px"
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{text(label)}" style="{widest}"', 1)
    svg = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), svg)
    for color, variable in THEMED.items():
        svg = svg.replace(color, variable)
    return (
        f'<figure><div class="scroll">{svg}</div><figcaption>{text(caption)}</figcaption></figure>'
    )
