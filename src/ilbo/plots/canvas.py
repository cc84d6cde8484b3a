"""What all pictures share: colours, figures without global state, axes, bands, files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from ilbo.errors import UserError

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID, PAPER = "#23272e", "#6a717b", "#e4e7eb", "#ffffff"
"""Text, axes and remarks, grid lines, background; a report replaces them where it is dark."""

BLUE, ORANGE, GREEN, RED, PURPLE = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7"
"""Data: the palette of Okabe and Ito, told apart by colour-blind readers too."""

FORMATS = (".png", ".svg", ".pdf")
BANDS = (0.05, 0.25, 0.5, 0.75, 0.95)
BAND_LABELS = ("median", "half of the episodes", "nine in ten")


def new_figure(width: float, height: float, layout: str | None = "constrained") -> Figure:
    """An empty figure, in inches, that belongs to no window and no global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout, facecolor=PAPER)  # type: ignore[arg-type]


def heading(figure: Figure, title: str | None, default: str) -> None:
    """The title; the default where it is None, none where it is empty."""
    if title == "":
        return
    place: dict[str, Any] = {"x": 0.01, "ha": "left"}
    if not figure.get_layout_engine():
        place |= {"y": 1 - 0.08 / figure.get_figheight(), "va": "top"}
    place |= {"fontsize": 11, "fontweight": "bold", "color": INK, "parse_math": False}
    figure.suptitle(default if title is None else title, **place)


def dress(ax: Axes, title: str = "", x: str = "", y: str = "") -> None:
    """A plain panel: light grid, no box, small text."""
    from matplotlib.ticker import MaxNLocator

    ax.set_facecolor("none")
    ax.grid(True, color=GRID, linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(MUTED)
        ax.spines[side].set_linewidth(0.6)
    ax.tick_params(which="both", colors=MUTED, labelsize=8, width=0.6, length=2.5)
    ax.yaxis.set_major_formatter(thousands)
    if x in ("step", "training episodes"):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    if title:
        ax.set_title(title, fontsize=9, color=INK, loc="left", pad=4, parse_math=False)
    ax.set_xlabel(x, fontsize=8.5, color=MUTED, parse_math=False)
    ax.set_ylabel(y, fontsize=8.5, color=MUTED, parse_math=False)


def thousands(value: float, _position: object = None) -> str:
    """A tick: 1,234 or 1,234.5 or −0.25, with a true minus sign."""
    digits = f"{round(value, 6):,}".removesuffix(".0") if abs(value) >= 100 else f"{value:.6g}"
    return digits.replace("-", "−")


def quantiles(
    values: Float[np.ndarray, "episodes steps k"],
    alive: Bool[np.ndarray, "episodes steps"] | None = None,
) -> Float[np.ndarray, "5 steps k"]:
    """The quantiles `BANDS` over episodes.

    Steps of ended episodes (those not alive) do not count; where all have ended, NaN.
    """
    if alive is None:
        return np.quantile(values, BANDS, axis=0)
    last = int(np.flatnonzero(alive.any(axis=0)).max(initial=-1)) + 1
    running = np.where(alive[:, :last, None], values[:, :last], np.nan)
    result = np.full((len(BANDS), *values.shape[1:]), np.nan)
    result[:, :last] = np.nanquantile(running, BANDS, axis=0)
    return result


def band(
    ax: Axes,
    steps: Int[np.ndarray, " steps"],
    levels: Float[np.ndarray, "5 steps"],
    color: str,
    **style: Any,
) -> None:
    """Median, quartiles and 5 to 95 % of one component."""
    low, lower, median, upper, high = levels
    step = style.get("drawstyle", "").replace("steps-", "") or None
    ax.fill_between(steps, low, high, color=color, alpha=0.16, linewidth=0, step=step)
    ax.fill_between(steps, lower, upper, color=color, alpha=0.28, linewidth=0, step=step)
    ax.plot(steps, median, color=color, linewidth=1.4, **style)


def band_handles(color: str) -> list[Artist]:
    """Legend entries for `band`."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    return [
        Line2D([], [], color=color, linewidth=1.4, label=BAND_LABELS[0]),
        Patch(color=color, alpha=0.4, linewidth=0, label=BAND_LABELS[1]),
        Patch(color=color, alpha=0.16, linewidth=0, label=BAND_LABELS[2]),
    ]


def legend_below(figure: Figure, handles: list) -> None:
    """One legend for all panels, under them."""
    width = figure.get_figwidth()
    columns = max(1, min(len(handles), int(width / 1.25)))
    figure.legend(
        handles=handles,
        loc="outside lower center" if figure.get_layout_engine() else "lower center",
        ncols=columns,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handlelength=1.6,
        columnspacing=1.6,
    )


def save(figure: Figure, path: str | Path | io.BytesIO, format: str | None = None) -> None:
    """Writes the figure; the file's ending is its format. SVG keeps its text as text."""
    import matplotlib

    if not hasattr(path, "write"):
        path = Path(path)
        if path.suffix.lower() not in FORMATS:
            endings = ", ".join(FORMATS)
            raise UserError(f"A picture's file ends in one of {endings}; {path.name!r} does not.")
        path.parent.mkdir(parents=True, exist_ok=True)
    format = format or Path(str(path)).suffix[1:].lower()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "ilbo"}):
        if format == "png":
            _save_png(figure, path)
        else:
            figure.savefig(path, dpi=72 if format == "svg" else 160, format=format)


def _save_png(figure: Figure, path: str | Path | io.BytesIO) -> None:
    """With a palette of 256 colours, in less than half the bytes."""
    from PIL import Image

    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=160, format="png", pil_kwargs={"compress_level": 0})
    picture = Image.open(drawn).convert("RGB")
    picture.quantize(256, method=Image.Quantize.FASTOCTREE).save(path, "png")
